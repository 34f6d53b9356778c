"""Standard output without rich, for short commands and for data. CLI layer."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size

from flushlab.errors import NotWritable


def stdout_lost(error: OSError) -> NotWritable:
    return NotWritable(
        f"standard output cannot be written: {error.strerror}", hint="free some space, or write elsewhere"
    )


@contextmanager
def to_stdout() -> Iterator[None]:
    """NotWritable if stdout is on a full disk; BrokenPipeError if nobody reads it."""
    try:
        yield
    except BrokenPipeError:
        raise  # who read it has seen enough
    except OSError as error:
        raise stdout_lost(error) from error


TRAILING = re.compile(r" +$", re.MULTILINE)
_COLUMN = re.compile(r" *(?:\S+ {2,})?")


def wrapped(text: str, width: int) -> str:
    lines = []
    for line in text.split("\n"):
        found = _COLUMN.match(line)
        indent = found[0] if found else ""
        lines += textwrap.wrap(
            line[len(indent) :],
            width,
            initial_indent=indent,
            subsequent_indent=" " * min(len(indent), width * 2 // 3),
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def print_text(text: str) -> None:
    with to_stdout():
        shown = wrapped(text, get_terminal_size().columns) if sys.stdout.isatty() else text
        sys.stdout.write(TRAILING.sub("", shown) + "\n")
        sys.stdout.flush()


def write_stdout(content: bytes) -> None:
    with to_stdout():
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
