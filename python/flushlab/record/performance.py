"""What a server's performance_schema told of a window: I/O by file, statements by kind, stages."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class FileIo(msgspec.Struct, frozen=True, kw_only=True):
    """I/O of one file, or of several that are told together; None where the server does not tell.

    Attributes:
        file: relative to the data directory; for several, what they are.
        kind: class of the file, of `FILE_CLASSES`.
        files: how many are told here; 0 where files that were removed in the window are among them.
        reads, writes: calls.
        misc: other calls: syncs, opens, closes, removals. In the redo and binary logs nearly all are syncs.
        read_bytes, written_bytes: moved by the calls.
        seconds: in all calls, summed over the server's threads. Asynchronous I/O shows its submission only.
        misc_seconds: of them, in `misc`.
        fsyncs: counted in the kernel, or None where it could not count.
    """

    file: str
    kind: str
    files: int = 1
    reads: int | None = None
    writes: int | None = None
    misc: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    seconds: float | None = None
    misc_seconds: float | None = None
    fsyncs: int | None = None


class StatementKind(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one kind.

    Attributes:
        kind: as the server calls it: `alter_table`, `create_index`, `insert`.
        count: statements that ended.
        seconds: in all of them, or None where the server only counts.
        errors: of them, those that failed, or None.
        rows_affected: rows that they changed, or None.
    """

    kind: str
    count: int
    seconds: float | None = None
    errors: int | None = None
    rows_affected: int | None = None


class StageTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time in one stage of statements.

    Attributes:
        stage: as the server calls it: `innodb/alter table (log apply table)`.
        count: how often it was gone through.
        seconds: in all of them.
    """

    stage: str
    count: int
    seconds: float


class Performance(msgspec.Struct, frozen=True, kw_only=True):
    """What a server did in a window, as it told itself; most time first.

    Attributes:
        io_by_file: the files with the most I/O one by one, the others together by class: their sum is all.
        statements_by_kind: every kind that occurred.
        stages: every stage that occurred.
        untold: reason by field for values that are missing or incomplete.
    """

    io_by_file: tuple[FileIo, ...] = ()
    statements_by_kind: tuple[StatementKind, ...] = ()
    stages: tuple[StageTime, ...] = ()
    untold: Mapping[str, str] = {}
