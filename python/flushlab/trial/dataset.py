"""The user's own data as the start of every trial: a dump or a stopped server's data directory.

What would make a copied directory act as the server that it belongs to is not copied: its UUID, keys, binary
and relay logs, its place in replication or a cluster, and settings that it persisted. See also `adopt`.
"""

from __future__ import annotations

import fcntl
import fnmatch
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from flushlab.build.build import Build
from flushlab.datadir.copy import copy_tree
from flushlab.errors import HarnessError, MeasurementError, StorageError
from flushlab.record import Value
from flushlab.server.protocol import Server

_CLIENTS = ("mariadb", "mysql")
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid
_TAIL_CHARACTERS = 1_000
_PERSISTED = "mysqld-auto.cnf"
_LEFT_OUT = (
    *("auto.cnf", _PERSISTED, "*.pem", "*.pid", "*.sock", "*.sock.lock", "*.err", "ibtmp*"),
    *("*master*.info", "*relay-log*.info*", "*.index"),
    *("grastate.dat", "gvwstate.dat", "galera.cache", "gcache.page.*"),
)
_A_LOG = re.compile(r"\.\d{6,}$")
_OUTSIDE_HINT = "use a dump instead: mysqldump --single-transaction --databases …"


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
            if (link := next(path.rglob("*.isl"), None)) is not None:
                raise StorageError(
                    f"{path}: a table is stored outside the data directory, see {link.name}",
                    hint=_OUTSIDE_HINT,
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
        """Copies the data directory without what makes it another server's; the original is only read.

        Raises:
            NoSpace: it does not fit.
        """
        copy_tree(Path(self.path), target, leave_out=_left_out(Path(self.path)))

    def persisted(self) -> dict[str, Value]:
        """What SET PERSIST wrote down in a data directory: in force on its server, above every option file.

        Raises:
            StorageError: it cannot be read.
        """
        file = Path(self.path) / _PERSISTED
        if not file.is_file():
            return {}
        try:
            return dict(_values(msgspec.json.decode(file.read_bytes())))
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"{file} cannot be read: {error}") from error

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


def adopt(server: Server) -> None:
    """Has the first server on a copied directory forget what it replicated from and what it would load.

    Raises:
        StorageError: a table's file is outside the directory.
    """
    tables = {
        str(name).lower()
        for (name,) in server.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'mysql'"
        )
    }
    server.query("SET sql_log_bin = 0")
    if server.identity.flavor == "mysql" and server.identity.version >= (8, 0):
        for (file,) in server.query("SELECT path FROM information_schema.innodb_datafiles"):
            if str(file).startswith("/"):
                raise StorageError(
                    f"a table is stored outside the data directory: {file}", hint=_OUTSIDE_HINT
                )
        # It keeps in memory what stood in the tables, and would write it again.
        server.query(f"RESET {'REPLICA' if server.identity.version >= (8, 0, 22) else 'SLAVE'} ALL")
    for table in _FORGOTTEN:
        if table in tables:
            server.query(f"DELETE FROM mysql.{table}")
    server.query("SET sql_log_bin = 1")


_FORGOTTEN = (
    *("slave_master_info", "slave_relay_log_info", "slave_worker_info", "servers"),
    *("plugin", "func", "component"),
)


def _left_out(datadir: Path) -> set[str]:
    """Names at the top of a data directory that are not copied; logs are those that an index names."""
    names = {entry.name for entry in datadir.iterdir()}
    out = {name for pattern in _LEFT_OUT for name in fnmatch.filter(names, pattern)}
    for index in fnmatch.filter(names, "*.index"):
        listed = {Path(line).name for line in (datadir / index).read_text(errors="replace").splitlines()}
        out |= {name for name in listed & names if _A_LOG.search(name)}
    return out


def _values(node: object) -> Iterator[tuple[str, Value]]:
    """Names and values of mysqld-auto.cnf; its groups differ between versions, its leaves do not."""
    if isinstance(node, dict):
        for name, inner in node.items():
            value = inner.get("Value") if isinstance(inner, dict) else None
            if isinstance(value, str):
                yield name, value
            else:
                yield from _values(inner)


def _lock_holder(file: Path) -> int | None:
    """Process that holds InnoDB's lock on a data file, or None."""
    with file.open("rb") as handle:
        asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, _whence, _start, _length, pid = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    return pid if kind != fcntl.F_UNLCK else None
