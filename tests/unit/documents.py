"""What the documentation has in it: its pages, their links, anchors and command lines."""

from __future__ import annotations

import re
import runpy
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    (
        *DOCS.rglob("*.md"),
        *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / "examples").glob("*/README.md"),
    )
)
SITE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))

_BLOCK = re.compile(  # indented in a list
    r"(?:<!-- needs: (?P<needs>.+?) -->\n+)?^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)
_NOT_OF_A_SLUG = re.compile(r"[^\w\- ]")


class Line(msgspec.Struct, frozen=True):
    """A command line of a page.

    Attributes:
        page: below the root of the repository.
        words: the command's, `flushlab` left out.
        needs: what the block says it needs to run; empty: a machine with the default server.
        transcript: it stands in a block of `console`, with what it prints.
    """

    page: str
    words: tuple[str, ...]
    needs: str
    transcript: bool

    def __str__(self) -> str:
        return f"{self.page}: flushlab {shlex.join(self.words)}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = SITE["FENCED"].sub("", page.read_text(encoding="utf-8"))
    seen: dict[str, int] = {}
    found = set(re.findall(r'\{ ?#([\w-]+)|<a (?:id|name)="([\w-]+)"', text))
    made = {one for pair in found for one in pair if one}
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = _NOT_OF_A_SLUG.sub("", plain).replace(" ", "-")
        made.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return made


def command_lines() -> Iterator[Line]:
    """Every `flushlab …` in a block of a page."""
    for page in PAGES:
        if page.name == "CHANGELOG.md" or "decisions" in page.parts:
            continue
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            if block["kind"] not in ("", "console", "sh", "bash"):
                continue
            for words in _lines(textwrap.dedent(block["text"])):
                needs = block["needs"] or ""
                yield Line(str(page.relative_to(ROOT)), words, needs, block["kind"] == "console")


def transcript(page: Path) -> list[str]:
    """The commands of a page's blocks of `console` that need nothing but a clone: the lines with a prompt."""
    found: list[str] = []
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["kind"] == "console" and not block["needs"]:
            text = textwrap.dedent(block["text"]).replace("\\\n", " ")
            found += re.findall(r"^\$ (.*)$", text, re.M)
    return found


def _lines(text: str) -> Iterator[tuple[str, ...]]:
    for line in text.replace("\\\n", " ").splitlines():
        found = re.match(r"(?:\$ |# )?(?:sudo )?flushlab (.*)", line)
        if found and "…" not in line:
            words = shlex.split(found[1], comments=True)
            yield tuple(words[: words.index("|")] if "|" in words else words)
