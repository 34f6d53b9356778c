"""The user's own data as the start of every trial: a dump or a stopped server's data directory."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.build.build import Build
from flushlab.datadir.copy import copy_tree
from flushlab.errors import HarnessError, MeasurementError, StorageError
from flushlab.server.protocol import Server

_CLIENTS = ("mariadb", "mysql")
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid
_TAIL_CHARACTERS = 1_000


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """A dump (`*.sql`) or a data directory of a stopped server.

    Attributes:
        path: absolute.
        is_directory: a data directory.
        client: the program that loads a dump, or None if there is none.
    """

    path: str
    is_directory: bool
    client: str | None = None

    @classmethod
    def open(cls, path: Path, build: Build) -> Dataset:
        """Looks at what is there.

        Raises:
            StorageError: nothing there, not a data directory, or its server runs.
            HarnessError: a dump, and no client to load it.
        """
        path = path.absolute()
        if path.is_dir():
            system = path / "ibdata1"
            if not system.is_file():
                raise StorageError(
                    f"{path} is not a data directory: it has no ibdata1",
                    hint="give the folder in the server's `datadir`, or an .sql dump",
                )
            if (holder := _lock_holder(system)) is not None:
                raise StorageError(
                    f"{path} is in use by process {holder}",
                    hint="stop that server first, or use a dump or a copy",
                )
            return cls(path=str(path), is_directory=True)
        if not path.is_file():
            raise StorageError(f"there is no {path}", hint="--dataset takes an .sql dump or a data directory")
        client = build.client or next(filter(None, map(shutil.which, _CLIENTS)), None)
        if client is None:
            raise HarnessError(
                f"no mysql or mariadb client was found to load {path}",
                hint="install mariadb-client-core (Debian), or give a data directory",
            )
        return cls(path=str(path), is_directory=False, client=client)

    @property
    def key(self) -> Mapping[str, str]:
        """Changes when a file of the data set changes (by size and time of modification)."""
        root = Path(self.path)
        files = sorted(p for p in root.rglob("*") if p.is_file()) if self.is_directory else [root]
        stats = ((file, file.stat()) for file in files)
        return {
            "dataset": self.path,
            "dataset_state": ";".join(f"{f}:{s.st_size}:{s.st_mtime_ns}" for f, s in stats),
        }

    def copy_directory(self, target: Path) -> None:
        """Copies the data directory; the original is only read.

        Raises:
            NoSpace: it does not fit.
        """
        copy_tree(Path(self.path), target)

    def load_dump(self, server: Server) -> None:
        """Feeds the dump to the client.

        Raises:
            MeasurementError: the server did not take it; the client's message says why.
        """
        endpoint = server.endpoint
        assert self.client is not None
        with Path(self.path).open("rb") as dump:
            done = subprocess.run(
                [self.client, f"--defaults-file={endpoint.option_file}", "--default-character-set=utf8mb4"],
                stdin=dump,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PATH": os.environ.get("PATH", "")},
                check=False,
            )
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace")[-_TAIL_CHARACTERS:].strip()
            raise MeasurementError(
                f"{self.path} did not load: {words}",
                hint="a dump must create its databases itself: mysqldump --databases …",
            )


def _lock_holder(file: Path) -> int | None:
    """Process that holds InnoDB's lock on a data file, or None."""
    with file.open("rb") as handle:
        asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, _whence, _start, _length, pid = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    return pid if kind != fcntl.F_UNLCK else None
