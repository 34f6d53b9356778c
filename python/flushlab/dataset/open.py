"""Open: what a path given as `--dataset` is, and which of its databases a workload is for.

Sits in `dataset`; starts nothing. A path that is no data set is found out here, before anything else happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flushlab.dataset.directory import Directory, require_prepared
from flushlab.dataset.dump import Dump, SqlData
from flushlab.dataset.folder import SqlFolder, sql_files
from flushlab.dataset.mydumper import METADATA, MydumperDump
from flushlab.dataset.pieces import pieces
from flushlab.dataset.shell import DONE, HEADER, ShellDump
from flushlab.errors import StorageError, UsageError
from flushlab.server.databases import require_not_system

Dataset = SqlData | Directory
"""The user's data, in whatever form."""

TAKES = "--dataset takes an SQL dump (.sql, .sql.gz, .sql.zst), a dump folder or a stopped data directory"

_STREAMED = {
    b"XBSTCK01": "a backup stream: unpack it with xbstream -x or mbstream -x, then prepare it",
    b"PK\x03\x04": "an archive: unpack it with unzip, then give the folder or the file in it",
}


def open_dataset(path: Path | str) -> Dataset:
    """Looks at what is there.

    Raises:
        StorageError: nothing, or no data set; the hint says what to give instead.
    """
    path = Path(path).expanduser().absolute()
    if path.is_file():
        _require_sql(path)
        return Dump(path=str(path))
    if not path.is_dir():
        raise StorageError(f"there is no {path}", hint=TAKES)
    if (path / "ibdata1").is_file():
        return Directory.open(path)
    if (path / HEADER).is_file():
        if not (path / DONE).is_file():
            raise StorageError(
                f"{path} is an unfinished dump of MySQL Shell: it has no {DONE}", hint="make the dump again"
            )
        return ShellDump(path=str(path))
    if (path / METADATA).is_file():
        return MydumperDump(path=str(path))
    if (path / f"{METADATA}.partial").is_file():
        raise StorageError(f"{path} is an unfinished dump of mydumper", hint="make the dump again")
    require_prepared(path)  # all of a compressed backup is compressed, ibdata1 too
    scripts = sql_files(path)
    if not scripts:
        raise StorageError(
            f"{path} holds neither a dump nor a data directory (it has no .sql file and no ibdata1)",
            hint=TAKES,
        )
    for file in scripts:
        _require_sql(file)
    return SqlFolder(path=str(path))


def choose_database(data: Dataset, asked: str | None) -> str:
    """The database that a workload on this data is for; `asked` by the user, or None.

    Raises:
        UsageError: there is no such database, there are several and none was asked for, or it is the
            server's own.
        StorageError: the data set cannot be read.
    """
    there = data.databases
    if asked is None and len(there) == 1:
        return require_not_system(there[0])
    if asked is None:
        rest = "; another NAME loads all files into one database" if data.takes_any else ""
        raise UsageError(
            f"{data.path} has {len(there)} databases: {_listed(there)}"
            if there
            else f"{data.path} has no database besides the server's own",
            hint="use a dump that has one"
            if not there
            else f"choose the workload's with --database NAME{rest}",
        )
    if asked not in there and not data.takes_any:
        raise UsageError(
            f"there is no database {asked} in {data.path}", hint=f"it has {_listed(there)}" if there else None
        )
    return require_not_system(asked)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def _require_sql(path: Path) -> None:
    head = next(pieces(path), b"")
    for magic, what in _STREAMED.items():
        if head.startswith(magic):
            raise StorageError(f"{path} is not a dump", hint=what)
    if not head.strip():
        raise StorageError(f"{path} is empty", hint=TAKES)
    if b"\0" in head[:4096]:
        raise StorageError(f"{path} is not an SQL dump: it is binary", hint=TAKES)
