"""I/O by file: calls, bytes and time of every file of the server.

Telemetry layer. The source is performance_schema. One of its tables has a row per existing file. Another has
a row per kind of file, which also covers removed files. The difference of the two is the I/O of files that
were removed in the window (an ALTER TABLE that rebuilds). The schema does not separate syncs from
opens and closes; the kernel's count (`activity`) does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flushlab.record import FileIo
from flushlab.server.protocol import Server
from flushlab.telemetry import performance_schema
from flushlab.telemetry.files import REMOVED, Names, classify, inside
from flushlab.telemetry.performance_schema import PICOSECONDS, Counters, Key, Reading

INSTRUMENTS = "wait/io/file/%"
MOST_FILES = 20
"""Number of files with a row of their own."""

_COUNTED = (
    "COUNT_READ, COUNT_WRITE, COUNT_MISC, SUM_NUMBER_OF_BYTES_READ, SUM_NUMBER_OF_BYTES_WRITE,"
    " SUM_TIMER_WAIT, SUM_TIMER_MISC"
)
_COMMITS = "commits"
_SUMMARY = f"""
SELECT EVENT_NAME, '', {_COUNTED} FROM performance_schema.file_summary_by_event_name
WHERE EVENT_NAME IN (SELECT NAME FROM performance_schema.setup_instruments WHERE ENABLED = 'YES')
AND EXISTS (SELECT 1 FROM performance_schema.setup_consumers
    WHERE NAME = 'global_instrumentation' AND ENABLED = 'YES')
UNION ALL SELECT '{_COMMITS}', '', COALESCE(SUM(VARIABLE_VALUE), 0), 0, 0, 0, 0, 0, 0 FROM %s.global_status
WHERE VARIABLE_NAME IN ('Binlog_cache_use', 'Binlog_stmt_cache_use')
UNION ALL SELECT EVENT_NAME, FILE_NAME, {_COUNTED} FROM performance_schema.file_summary_by_instance
"""
"""The binary log's transactions are counted in the same statement, at the moment of its calls."""
_STATUS_SCHEMA = {"mariadb": "information_schema", "mysql": "performance_schema"}
"""Of GLOBAL_STATUS, in all versions (MySQL since 5.7)."""
_PLACE = "SELECT @@datadir, @@performance_schema_max_file_instances"
"""Room for so many files; -1 if it grows. (…_instances_lost also counts names without a folder.)"""

_BINLOG = "wait/io/file/sql/binlog"

_KINDS = {
    "wait/io/file/innodb/innodb_log_file": "redo",
    "wait/io/file/innodb/innodb_data_file": "data",
    "wait/io/file/innodb/innodb_dblwr_file": "doublewrite",
    _BINLOG: "binlog",
    "wait/io/file/sql/binlog_index": "binlog",
}
"""Class of files that are gone, by the only name that is left of them."""


def read(server: Server) -> Reading:
    """The I/O since the server's start, by kind of file and by file.

    Raises:
        ServerDied: the server is gone.
    """
    found = performance_schema.read(
        server, _SUMMARY % _STATUS_SCHEMA[server.identity.flavor], key_columns=2, instruments=INSTRUMENTS
    )
    if not found.counters:
        return found
    datadir, room = server.query(_PLACE)[0]
    note = found.note
    if 0 < room <= sum(1 for _event, file in found.counters if file):
        note = f"files beyond {room} were not seen: raise performance_schema_max_file_instances"
    counters: Counters = {
        (event, inside(str(datadir), file) if file else ""): counts
        for (event, file), counts in found.counters.items()
    }
    return Reading(counters, note)


def between(
    before: Reading, after: Reading, called: Names | None = None, fsyncs: Mapping[str, int] | None = None
) -> tuple[FileIo, ...]:
    """The I/O in between, most time first.

    Args:
        before, after: both ends.
        called: names that are the user's choice.
        fsyncs: counted in the kernel, by file as `FileIo.file` names it and for `REMOVED`; None where it
            could not count.
    """
    found = performance_schema.deltas(before.counters, after.counters)
    found.pop((_COMMITS, ""), None)
    counted = _by_file(found)
    synced = fsyncs if fsyncs is not None else {}
    rows = [
        _Row(
            file,
            classify(file, called or Names()),
            counted.get(file),
            None if fsyncs is None else fsyncs.get(file, 0),
        )
        for file in (counted.keys() | synced.keys()) - {REMOVED}
        if any(counted.get(file, ())) or synced.get(file)
    ]
    rows.sort(key=lambda row: _most_time_first(row.told(row.file)))
    told = [row.told(row.file) for row in rows[:MOST_FILES]]
    told += [*_together(rows[MOST_FILES:]), *_removed(found, synced.get(REMOVED, 0))]
    return tuple(sorted(told, key=_most_time_first))


class BinlogIo(NamedTuple):
    """Calls on the files of the binary log in a window.

    Attributes:
        fsyncs: with the opens and closes of a file, two for each that is begun.
        written_bytes: to them.
    """

    fsyncs: int
    written_bytes: int


def binlog(before: Reading, after: Reading, commits: int | None = None) -> BinlogIo | None:
    """The I/O of the binary log in between; None where performance_schema does not count it.

    A load goes on while the counters are read. With the number of commits in the measured window, the I/O is
    that of so many transactions: the I/O in between, by the share of its transactions.

    Args:
        before, after: both ends.
        commits: in the measured window, which lies in between; None: all I/O counts.
    """
    found = performance_schema.deltas(before.counters, after.counters)
    if (counts := found.get((_BINLOG, ""))) is None:
        return None
    transactions = found.get((_COMMITS, ""), (0,))[0]
    share = 1.0 if commits is None else commits / max(transactions, commits, 1)
    return BinlogIo(fsyncs=round(counts[2] * share), written_bytes=round(counts[4] * share))


class _Row(NamedTuple):
    """A file, or several as one; what is None was not told."""

    file: str
    kind: str
    counts: Sequence[int] | None
    fsyncs: int | None

    def told(self, name: str, files: int = 1) -> FileIo:
        if self.counts is None:
            return FileIo(file=name, kind=self.kind, files=files, fsyncs=self.fsyncs)
        reads, writes, misc, read_bytes, written_bytes, picoseconds, misc_picoseconds = self.counts
        return FileIo(
            file=name,
            kind=self.kind,
            files=files,
            reads=reads,
            writes=writes,
            misc=misc,
            read_bytes=read_bytes,
            written_bytes=written_bytes,
            seconds=picoseconds * PICOSECONDS,
            misc_seconds=misc_picoseconds * PICOSECONDS,
            fsyncs=self.fsyncs,
        )


def _most_time_first(one: FileIo) -> tuple[float, int, str]:
    return (-(one.seconds or 0.0), -(one.fsyncs or 0), one.file)


def _by_file(found: Mapping[Key, Sequence[int]]) -> dict[str, list[int]]:
    """Sums of a file's rows: it has one for each kind of file as which it was opened."""
    sums: dict[str, list[int]] = {}
    for (_event, file), counts in found.items():
        if file:
            sums[file] = _plus(sums.get(file), counts)
    return sums


def _plus(sums: Sequence[int] | None, counts: Sequence[int], sign: int = 1) -> list[int]:
    return [total + sign * count for total, count in zip(sums or [0] * len(counts), counts, strict=True)]


def _together(rows: Iterable[_Row]) -> list[FileIo]:
    """One row per class."""
    by_kind: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        by_kind[row.kind].append(row)
    told = []
    for kind, many in by_kind.items():
        counts: list[int] | None = None
        for row in many:
            counts = _plus(counts, row.counts) if row.counts is not None else counts
        fsyncs = None if many[0].fsyncs is None else sum(row.fsyncs or 0 for row in many)
        told.append(_Row("", kind, counts, fsyncs).told(f"{len(many)} more of class {kind}", len(many)))
    return told


def _removed(found: Mapping[Key, Sequence[int]], fsyncs: int) -> list[FileIo]:
    """What each kind of file counted beyond its files that are still there, by class.

    The kernel does not tell of what class a removed file was, so that its syncs have their own row.
    """
    by_kind: dict[str, list[int]] = {}
    for (event, file), counts in found.items():
        kind = _KINDS.get(event, "other")
        by_kind[kind] = _plus(by_kind.get(kind), counts, -1 if file else 1)
    told = [
        _Row("", kind, [max(0, count) for count in counts], None).told(f"removed files of class {kind}", 0)
        for kind, counts in by_kind.items()
        if any(count > 0 for count in counts)
    ]
    if fsyncs:
        told.append(FileIo(file="syncs of removed files", kind="other", files=0, fsyncs=fsyncs))
    return told
