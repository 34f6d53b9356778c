"""Whole directory trees as values, to compare them before and after."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder by its relative path: kind and mode, with content or target."""
    return {path.relative_to(folder).as_posix(): _entry(path) for path in _below(folder)}


def _below(folder: Path) -> list[Path]:
    return [Path(root, name) for root, folders, files in os.walk(folder) for name in (*folders, *files)]


def _entry(path: Path) -> tuple[object, ...]:
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISREG(facts.st_mode):
        return ("file", stat.S_IMODE(facts.st_mode), path.read_bytes())
    return ("folder" if stat.S_ISDIR(facts.st_mode) else "special", stat.S_IMODE(facts.st_mode))
