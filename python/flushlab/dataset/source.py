"""Source: the file that a `source` in a script is for, and whether it may be read.

Sits in `dataset`; looks at names in the file system only. Files outside the script's folder are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flushlab import _core
from flushlab.errors import DumpRefused, StorageError

MOST_FILES, DEEPEST = 1000, 16
"""Files that a script may read, and how deep one may lie in others."""


def sourced(folder: Path, by: Path, line: int, name: str) -> Path:
    """The file that `source NAME` is for: beside the script, or beside the file that has the command.

    Args:
        folder: of the script, resolved.
        by: the file that has the command, resolved.
        line: of the command.
        name: as it stands there.

    Raises:
        StorageError: there is none, or it is not in the folder.
    """
    where = f"{by}, line {line}: source {name}"
    if Path(name).is_absolute():
        raise StorageError(
            f"{where} has an absolute path", hint=f"copy the file into {folder}, and write its name alone"
        )
    for candidate in (folder / name, by.parent / name):
        file = candidate.resolve()
        if not file.is_relative_to(folder):
            raise StorageError(
                f"{where} leads out of the dump's folder",
                hint=f"copy the file into {folder}: no other is read",
            )
        if file.is_file():
            return file
    raise StorageError(f"{where}: there is no {folder / name}", hint="copy it to where the dump is")


def require_end(file: Path, sources: Mapping[Path, Sequence[Path]]) -> None:
    """Raises StorageError if files read each other in a circle, or too many, or too deep."""
    files: dict[Path, tuple[int, int]] = {}

    def look(at: Path, chain: tuple[Path, ...]) -> tuple[int, int]:
        if at in chain:
            raise StorageError(
                f"{chain[-1]} reads {at}, which is being read", hint="remove that source command"
            )
        if at not in files:
            inner = [look(one, (*chain, at)) for one in sources.get(at, ())]
            files[at] = (
                1 + sum(count for count, _ in inner),
                1 + max((height for _, height in inner), default=0),
            )
        count, height = files[at]
        if count > MOST_FILES or height > DEEPEST:
            raise StorageError(
                f"{file} reads more than {MOST_FILES} files, or one within {DEEPEST} others",
                hint="give a script that reads fewer",
            )
        return files[at]

    look(file, ())


def unreadable(name: str, error: _core.CoreError) -> DumpRefused:
    """The error for a script that cannot be split, or has a command that is not taken."""
    hint = error.hint or "the dump is cut off or damaged: make it again"
    return DumpRefused(f"{name}, {error.message}", hint=hint)
