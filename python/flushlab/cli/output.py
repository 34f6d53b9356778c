"""What every command shares of its output: data on stdout, progress on stderr, errors with hints.

Colours only on a terminal (rich honours NO_COLOR); JSON is written whole or not at all.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from flushlab.errors import FlushlabError, NotWritable

console = Console(stderr=True, highlight=False, soft_wrap=True)
"""Progress, notes and errors."""

stdout = Console(highlight=False)
"""Data for people."""


def print_error(error: FlushlabError) -> None:
    """Prints `error: …` and, where there is one, `hint: …` on stderr."""
    console.print(f"[bold red]error:[/] {_plain(error.message)}")
    if error.hint:
        console.print(f"[bold]hint:[/] {_plain(error.hint)}")


def say(text: str) -> None:
    """Prints a line of progress on stderr."""
    console.print(text, markup=False, style="dim")


def print_warning(text: str) -> None:
    """Prints `warning: …` on stderr."""
    console.print(f"[yellow]warning:[/] {_plain(text)}")


def emit_json(data: Mapping[str, Any] | msgspec.Struct, path: str | None) -> None:
    """Writes a document to a file, or to stdout for `-`; does nothing for None.

    Raises:
        NotWritable: the file cannot be written; an older one is left as it was.
    """
    if path is None:
        return
    text = msgspec.json.format(msgspec.json.encode(data, enc_hook=_encode), indent=2) + b"\n"
    if path == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    write_file(Path(path), text)


def require_writable(path: str | None) -> None:
    """Finds out before anything is measured whether the result can be written.

    Raises:
        NotWritable: `emit_json` would fail with this path.
    """
    if path is None or path == "-":
        return
    folder = Path(path).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or Path(path).is_dir():
        raise NotWritable(f"{path} cannot be written", hint="name a file in a directory that exists")


def require_folder(out: Path | None) -> None:
    """Makes the folder that the files go to, before anything is measured; None: the present one.

    Raises:
        NotWritable: it cannot be made, or not be written to.
    """
    folder = out or Path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWritable(
            f"{folder} cannot be created: {error.strerror}", hint="choose another with --out"
        ) from error
    if not os.access(folder, os.W_OK):
        raise NotWritable(f"{folder.absolute()} is not writable", hint="choose another with --out")


def write_file(target: Path, content: bytes) -> None:
    """Writes a file by rename, so that nobody ever sees half of it.

    Raises:
        NotWritable: the directory is missing, full or read-only.
    """
    try:
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name}.", delete=False
        ) as handle:
            try:
                handle.write(content)
                handle.flush()
                os.fchmod(handle.fileno(), 0o644)
                Path(handle.name).replace(target)
            except BaseException:
                Path(handle.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise NotWritable(
            f"{target} cannot be written: {error.strerror}", hint="name a file in a directory that exists"
        ) from error


def _encode(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
