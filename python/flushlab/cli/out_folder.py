"""The folder of `--out`: flushlab overwrites a file there only if it wrote that very content itself.

CLI layer. `.flushlab-written.json` in the folder holds the SHA-256 of what flushlab wrote under each name. A
file that is not listed with its present content, if only because somebody edited it, is the user's. That is
found out before anything is measured, and once more before it is written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from flushlab.cli.output import write_file
from flushlab.errors import NotWritable

LIST = ".flushlab-written.json"


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the list, which is never empty: by a file's name, the digests of what flushlab wrote."""

    schema: Literal["flushlab.written/1"] = "flushlab.written/1"
    files: Annotated[dict[str, tuple[str, ...]], msgspec.Meta(min_length=1)]


class OutFolder:
    """A missing folder is made with the first file; NotWritable also if it holds a file of the user's of
    that name."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        made = self._make()
        try:
            if not os.access(path, os.W_OK | os.X_OK):
                raise NotWritable(f"{path.absolute()} is not writable", hint=_HINT)
            written = self._list()
            for name in names:
                self._require_ours(name, written)
        finally:
            with suppress(OSError):  # somebody has put something there meanwhile
                for folder in made:
                    folder.rmdir()

    def write(self, name: str, content: bytes) -> Path:
        self._make()
        written = self._list()
        present = self._require_ours(name, written)
        # Listed first, the present content too: a kill in between leaves a file that is known either way.
        known = (*((present,) if present else ()), _digest(content))
        files = {**written.files, name: tuple(dict.fromkeys(known))}
        is_new = not os.path.lexists(self.path / LIST)
        document = msgspec.json.format(msgspec.json.encode(Written(files=files)), indent=2)
        write_file(self.path / LIST, document + b"\n", new=is_new)
        write_file(self.path / name, content, new=present is None)
        return self.path / name

    def remove(self, names: Sequence[str]) -> None:
        """Only where they are as flushlab wrote them."""
        written = self._list()
        for name in names:
            try:
                if self._require_ours(name, written) is None:
                    continue
            except NotWritable:
                continue  # the user's
            file = self.path / name
            try:
                file.unlink()
            except OSError as error:
                raise NotWritable(f"{file} cannot be removed: {error.strerror}", hint=_HINT) from error

    def _make(self) -> list[Path]:
        missing = [folder for folder in (self.path, *self.path.parents) if not os.path.lexists(folder)]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotWritable(f"{self.path} cannot be made: {error.strerror}", hint=_HINT) from error
        return missing

    def _list(self) -> Written:
        file = self.path / LIST
        if not os.path.lexists(file):
            return Written(files={})
        try:
            if not file.is_symlink():
                return msgspec.json.decode(file.read_bytes(), type=Written)
        except (OSError, msgspec.DecodeError):
            pass
        raise NotWritable(f"{file} is not the list that flushlab keeps there", hint=_HINT)

    def _require_ours(self, name: str, written: Written) -> str | None:
        file = self.path / name
        if not os.path.lexists(file):
            return None
        if file.is_file() and not file.is_symlink():
            try:
                digest = _digest(file.read_bytes())
            except OSError as error:
                raise NotWritable(f"{file} cannot be read: {error.strerror}", hint=_HINT) from error
            if digest in written.files.get(name, ()):
                return digest
        raise NotWritable(
            f"{file} is not as flushlab wrote it, and would be overwritten",
            hint="name another folder with --out, or move the file away",
        )


_HINT = "name another folder with --out"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
