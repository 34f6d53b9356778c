"""Directory: a stopped server's data directory, or a backup that mariabackup or xtrabackup has prepared.

Sits in `dataset`. The copy leaves out the identity of the original server, so that the copy cannot act as it:

- its UUID and keys
- its binary and relay logs
- its place in replication or a cluster
- the settings that it persisted

See also `adopt`.
"""

from __future__ import annotations

import fcntl
import fnmatch
import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from flushlab.build.choice import Sign, of_release
from flushlab.datadir.restore import copy_tree
from flushlab.dataset.survey import origin_of
from flushlab.errors import StorageError
from flushlab.record import Value
from flushlab.server.protocol import Server
from flushlab.server.sql import is_system
from flushlab.settings.catalog import canonical
from flushlab.settings.configuration import layout_of
from flushlab.settings.optionfile import lines

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid
_PERSISTED = "mysqld-auto.cnf"
_BACKUP_OPTIONS = "backup-my.cnf"
_CHECKPOINTS = ("xtrabackup_checkpoints", "mariadb_backup_checkpoints")
_PREPARED = ("full-prepared", "log-applied")
_COMPRESSED = ("*.qp", "*.lz4", "*.zst", "*.xbcrypt")
_LEFT_OUT = (
    *("auto.cnf", _PERSISTED, "*.pem", "*.pid", "*.sock", "*.sock.lock", "*.err", "ibtmp*"),
    *("*master*.info", "*relay-log*.info*", "*.index"),
    *("grastate.dat", "gvwstate.dat", "galera.cache", "gcache.page.*"),
    *("xtrabackup_*", "mariadb_backup_*", _BACKUP_OPTIONS),
)
_TELLING = {
    **dict.fromkeys(("xtrabackup_info", "mariadb_backup_info"), r"server_version\s*=\s*(\S+)"),
    **dict.fromkeys(("mariadb_upgrade_info", "mysql_upgrade_info"), r"(\d\S+)"),
}
"""Files that name the server: of tools for backups, and of servers that upgraded the directory."""
_A_LOG = re.compile(r"\.\d{6,}$")
_ENCODED = re.compile(r"@([0-9a-f]{4})")
_OUTSIDE_HINT = "use a dump instead: mysqldump --single-transaction --databases …"


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    TITLE: ClassVar[str] = "data directory"

    path: str

    @classmethod
    def open(cls, path: Path) -> Directory:
        path = path.absolute()
        require_prepared(path)
        if (holder := _lock_holder(path / "ibdata1")) is not None:
            raise StorageError(
                f"{path} is in use by process {holder}",
                hint="stop that server first, or use a dump or a copy",
            )
        if (link := next(path.rglob("*.isl"), None)) is not None:
            raise StorageError(
                f"{path}: a table is stored outside the data directory, see {link.name}",
                hint=_OUTSIDE_HINT,
            )
        return cls(path=str(path))

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(path for path in Path(self.path).rglob("*") if path.is_file()))

    @property
    def databases(self) -> tuple[str, ...]:
        folders = (entry.name for entry in sorted(Path(self.path).iterdir()) if entry.is_dir())
        names = (_ENCODED.sub(lambda code: chr(int(code[1], 16)), name) for name in folders)
        return tuple(name for name in names if not is_system(name) and name[0] not in "#.")

    @property
    def takes_any(self) -> bool:
        return False

    @property
    def key(self) -> Mapping[str, str]:
        stats = ((file, file.stat()) for file in self.files)
        return {
            "dataset": self.path,
            "dataset_state": ";".join(f"{f}:{s.st_size}:{s.st_mtime_ns}" for f, s in stats),
        }

    @property
    def origin(self) -> str:
        path = Path(self.path)
        if (found := _number(path / "mysql.ibd", 8, "big")) is None:
            for name, told in _TELLING.items():
                with suppress(OSError):
                    if match := re.search(told, (path / name).read_text(errors="replace")):
                        return origin_of(match[1])
            found = _number(path / "mysql" / "db.frm", 51, "little")
        if found is None:
            return ""
        flavor = "MariaDB" if found >= 100_000 else "MySQL"
        return f"{flavor} {found // 10_000}.{found // 100 % 100}.{found % 100}"

    def signs(self) -> list[Sign]:
        return [of_release(self.path, self.origin, data_directory=True)] if self.origin else []

    def copy(self, target: Path) -> None:
        copy_tree(Path(self.path), target, leave_out=_left_out(Path(self.path)))
        if _checkpoints(Path(self.path)) is not None:
            for file in [*_compressed(target)]:  # a server could not drop a database with such a file in it
                file.unlink()

    def left_out(self) -> list[Path]:
        path = Path(self.path)
        return [path / name for name in _left_out(path).difference(_CHECKPOINTS)]

    def settings(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        options, persisted = Path(self.path) / _BACKUP_OPTIONS, Path(self.path) / _PERSISTED
        try:
            if options.is_file():
                found |= _layout(options)
            if persisted.is_file():
                found |= dict(_values(msgspec.json.decode(persisted.read_bytes())))
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"{self.path}: its settings cannot be read: {error}") from error
        return found


def adopt(server: Server) -> None:
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


def require_prepared(path: Path) -> None:
    checkpoints = _checkpoints(path)
    if checkpoints is None:
        return
    tool = "mariadb-backup" if "mariadb" in checkpoints.name or _by_mariadb(path) else "xtrabackup"
    said = re.search(r"backup_type\s*=\s*(\S+)", checkpoints.read_text(errors="replace"))
    # Tools leave a compressed file beside the one that they make of it, unless told not to.
    compressed = next((file for file in _compressed(path) if not file.with_suffix("").exists()), None)
    if compressed is not None and said and said[1] in _PREPARED:
        raise StorageError(
            f"{path} was prepared, but {compressed.relative_to(path)} was not decompressed before",
            hint=f"decompress and prepare a fresh copy of that backup with {tool}; if the table was dropped"
            " during the backup, remove that file",
        )
    if compressed is not None:
        raise StorageError(
            f"{path} is a compressed backup",
            hint=f"run {tool} --decompress --target-dir={path}, then {tool} --prepare --target-dir={path}",
        )
    if said and said[1] not in _PREPARED:
        raise StorageError(
            f"{path} is a backup that was not prepared: its type is {said[1]}",
            hint=f"run {tool} --prepare --target-dir={path}",
        )


def _checkpoints(path: Path) -> Path | None:
    """The file that a tool for backups left in what it made; None in any other directory."""
    return next((path / name for name in _CHECKPOINTS if (path / name).is_file()), None)


def _compressed(path: Path) -> Iterator[Path]:
    return (file for pattern in _COMPRESSED for file in path.rglob(pattern))


def _by_mariadb(path: Path) -> bool:
    info = path / "xtrabackup_info"
    return info.is_file() and "maria" in info.read_text(errors="replace").lower()


def _layout(file: Path) -> dict[str, Value]:
    options = lines(file.read_text(errors="replace"), str(file))
    return layout_of({canonical(one.name): one.text for one in options if one.text})


def _left_out(datadir: Path) -> set[str]:
    names = {entry.name for entry in datadir.iterdir()}
    out = {name for pattern in _LEFT_OUT for name in fnmatch.filter(names, pattern)}
    for index in fnmatch.filter(names, "*.index"):
        listed = {Path(line).name for line in (datadir / index).read_text(errors="replace").splitlines()}
        out |= {name for name in listed & names if _A_LOG.search(name)}
    return out


def _values(node: object) -> Iterator[tuple[str, Value]]:
    if isinstance(node, dict):
        for name, inner in node.items():
            value = inner.get("Value") if isinstance(inner, dict) else None
            if isinstance(value, str):
                yield name, value
            else:
                yield from _values(inner)


def _number(file: Path, offset: int, order: Literal["big", "little"]) -> int | None:
    """The version in a file's head: of MySQL 8.0 and later in the page of a tablespace
    (FIL_PAGE_SRV_VERSION), before in that of a table's definition (`MYSQL_VERSION_ID` of a .frm file)."""
    try:
        with file.open("rb") as handle:
            found = int.from_bytes(handle.read(offset + 4)[offset:], order)
    except OSError:
        return None
    return found if 50_000 <= found < 1_000_000 else None


def _lock_holder(file: Path) -> int | None:
    """Process that holds InnoDB's lock on a data file, or None."""
    with file.open("rb") as handle:
        asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, _whence, _start, _length, pid = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    return pid if kind != fcntl.F_UNLCK else None
