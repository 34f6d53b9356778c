"""Files that the command line of a workload names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Word(NamedTuple):
    """Of a command line; `is_whole`: not a part of one, behind `--option=` or a redirection."""

    text: str
    is_whole: bool = True


class NamedFile(NamedTuple):
    """A file, as the command line names it, and its absolute path."""

    word: Word
    path: Path


def files_named(command: str, folder: Path) -> Iterator[NamedFile]:
    """The files that are there, once for each way to name them.

    Args:
        command: a line for a shell.
        folder: in which it runs.
    """
    for word in dict.fromkeys(words_of(command)):
        try:
            path = Path(os.path.normpath(folder / Path(word.text).expanduser()))
            is_file = path.is_file()
        except (OSError, RuntimeError):  # a word that is too long for a name, or begins with ~ and no user
            continue
        if is_file:
            yield NamedFile(word, path)


def words_of(command: str) -> Iterator[Word]:
    """The words of a command line that may be files, also behind `--option=` and redirections, and in quotes
    that a shell takes apart again (`sh -c '…'`)."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quote that does not end: the shell will say so
        words = command.split()
    for word in words:
        bare = word.lstrip("0123456789<>&|;(").rstrip(";&|)")
        yield Word(word)
        parts = dict.fromkeys((bare, bare.partition("=")[2]))
        yield from (Word(part, is_whole=False) for part in parts if part not in ("", word))
        if len(word.split()) > 1:
            yield from words_of(word)
