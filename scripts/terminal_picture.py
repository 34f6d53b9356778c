"""Draws what a command prints in a terminal as SVG, for the documentation.

.venv/bin/python scripts/terminal_picture.py docs/pictures/probe.svg 'flushlab probe --quick' < recorded.txt

Standard input is what the command printed, with its colors: `script -qec 'COMMAND' recorded.txt`.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 88
_SCRIPT = re.compile(r"^Script (?:started|done).*\n?", re.M)
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.S)
_MOVES = re.compile(r"\x1b\[\d*[A-HJKf]|\x1b\[\?\d+[hl]")


def draw(printed: str, title: str) -> str:
    """The SVG, with the fonts of the reader's machine."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    text = _MOVES.sub("", _SCRIPT.sub("", printed.replace("\r\n", "\n")))
    lines = [line.rsplit("\r", 1)[-1] for line in text.strip("\n").split("\n")]
    console.print(Text.from_ansi("\n".join(lines)))
    drawn = console.export_svg(title=title, unique_id="terminal")
    return _FONTS.sub("", drawn).replace("Fira Code", "DejaVu Sans Mono")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(sys.stdin.read(), sys.argv[2]), encoding="utf-8")
