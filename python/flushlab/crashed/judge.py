"""Judge: is what a server came back with what it had promised? Pure.

The argument: a connection begins a commit only when the last one was acknowledged, and a note's position is
read after the answer. So at a crash at record n

- every commit that is noted at a position <= n must be there, whatever the server answered later;
- a connection has at most one commit more: that which was under way;
- its commits are 1..m: one that is missing below one that is there is no state that the server was ever in;
- a transaction is there whole, or not at all.

Without an acknowledgement table, whether the server starts and the tables are sound is all that is judged.

A smaller m is loss, anything else is inconsistent. What a server commits while it recovers is as durable as
its settings make it: commits that are there first and gone after another kill are lost, not inconsistent.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from flushlab.errors import StorageError
from flushlab.record import BinlogState, Crash, CrashOutcome, CrashPoint, GtidState
from flushlab.units import counted as number_of

ACKS_TABLE = "flushlab_acks"
_NOTE = struct.Struct("<QQQQ")
NOTE_BYTES = _NOTE.size


class AckNote(NamedTuple):
    """An acknowledged commit: `position`: records of the disk answered by then; `time_ns`:
    CLOCK_MONOTONIC."""

    connection: int
    counter: int
    position: int
    time_ns: int


def acks_table_sql(database: str, rows: int) -> str:
    assert rows >= 1, "a transaction has a row"
    return (
        f"CREATE TABLE {database}.{ACKS_TABLE} (c BIGINT NOT NULL, n BIGINT NOT NULL, part BIGINT NOT NULL,"
        " pad CHAR(60) NOT NULL, PRIMARY KEY (c, n, part)) ENGINE=InnoDB"
    )


def packed_note(note: AckNote) -> bytes:
    return _NOTE.pack(*note)


def read_notes(file: Path) -> list[AckNote]:
    """Raises StorageError if a connection's commits do not count from 1 without gaps."""
    if not file.exists():
        return []
    content = file.read_bytes()
    whole = len(content) - len(content) % _NOTE.size
    notes = [AckNote(*one) for one in _NOTE.iter_unpack(content[:whole])]
    numbers = Counter(note.connection for note in notes)
    if any(numbers[connection] != last for connection, last in commits_by_connection(notes).items()):
        raise StorageError(
            f"{file} is damaged: acknowledged commits are missing in it",
            hint="remove the record, and record again",
        )
    return notes


def acknowledged_before(notes: Sequence[AckNote], at: int) -> list[AckNote]:
    return [note for note in notes if note.position <= at]


def begun_after(notes: Sequence[AckNote], at: int) -> int:
    """How many acknowledged commits began after record `at`. Of a connection's commits acknowledged later,
    the first does not count: it may have been synced before."""
    later = Counter(note.connection for note in notes if note.position > at)
    return later.total() - len(later)


def commits_by_connection(notes: Sequence[AckNote]) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for note in notes:
        found[note.connection] = max(found.get(note.connection, 0), note.counter)
    return found


_TOLD = 3
"""Of what is wrong in the same way."""


class Commits(NamedTuple):
    number: int
    last: int


class RecoveredServer(NamedTuple):
    """`broken`: transactions not there whole; `again`: `commits` after another kill and start, None if
    `not_again`."""

    commits: Mapping[int, Commits] | None
    broken: Sequence[tuple[int, int]] = ()
    damaged: Sequence[str] = ()
    binlog: Mapping[int, Commits] | str | None = None
    gtids: int | None = None
    again: Mapping[int, Commits] | None = None
    not_again: str = ""
    extra: Sequence[str] = ()


def judge(point: CrashPoint, notes: Sequence[AckNote], crashed_ns: int, recovered: RecoveredServer) -> Crash:
    promised = commits_by_connection(notes)
    found = recovered.commits
    reasons = [*recovered.damaged[:_TOLD], *recovered.extra]
    if recovered.not_again:
        reasons.append(f"killed again, it does not start: {recovered.not_again}")
    lost, lost_s = 0, 0.0
    remarks = []
    if found is not None:
        reasons += _impossible("the tables", promised, found)
        reasons += [f"transaction {n} of connection {c} is not whole" for c, n in recovered.broken[:_TOLD]]
        lost = _missing(promised, found)
        lost_s = _seconds(notes, crashed_ns, found)
        if recovered.again is not None and recovered.again != found:
            none = Commits(0, 0)
            if any(now.last > found.get(one, none).last for one, now in recovered.again.items()):
                reasons.append("killed and started once more, it has rows that were not there before")
            else:
                reasons += _impossible("the tables after another kill", promised, recovered.again)
                gone = sum(
                    commits.number - recovered.again.get(one, none).number for one, commits in found.items()
                )
                remarks.append(f"killed and started once more, it has {number_of(gone, 'commit')} fewer")
                lost = max(lost, _missing(promised, recovered.again))
                lost_s = _seconds(notes, crashed_ns, recovered.again)
    binlog, unread = None, ""
    if isinstance(recovered.binlog, str):
        unread = recovered.binlog
    elif recovered.binlog is not None and found is not None:
        binlog = _compared(promised, found, recovered.binlog)
        reasons += _impossible("the binary log", promised, recovered.binlog)
    gtid = None
    if recovered.gtids is not None and found is not None:
        there = sum(commits.number for commits in found.values())
        gtid = GtidState(behind=max(0, there - recovered.gtids), ahead=max(0, recovered.gtids - there))
    outcome: CrashOutcome = "kept" if found is not None else "sound"
    if reasons:
        outcome = "inconsistent"
    elif lost:
        outcome = "lost"
    return Crash(
        point=point,
        outcome=outcome,
        acknowledged=sum(promised.values()),
        lost=lost,
        lost_s=lost_s,
        binlog=binlog,
        binlog_unread=unread,
        gtid=gtid,
        reasons=(*reasons, *remarks),
    )


def not_started(point: CrashPoint, notes: Sequence[AckNote], said: str) -> Crash:
    acknowledged = len(notes)
    return Crash(
        point=point, outcome="not_started", acknowledged=acknowledged, lost=acknowledged, reasons=(said,)
    )


def unknown(point: CrashPoint, notes: Sequence[AckNote], why: str) -> Crash:
    return Crash(point=point, outcome="unknown", acknowledged=len(notes), reasons=(why,))


def _impossible(where: str, promised: Mapping[int, int], found: Mapping[int, Commits]) -> list[str]:
    reasons = []
    for connection, commits in sorted(found.items()):
        limit = promised.get(connection, 0) + 1
        if commits.number != commits.last:
            missing = number_of(commits.last - commits.number, "commit")
            reasons.append(
                f"connection {connection}: {missing} before the last, {commits.last}, not in {where}"
            )
        if commits.last > limit:
            reasons.append(
                f"connection {connection}: commit {commits.last} is in {where}, but {limit} was under way"
            )
    return reasons[:_TOLD]


def _missing(promised: Mapping[int, int], found: Mapping[int, Commits]) -> int:
    none = Commits(0, 0)
    return sum(max(0, acked - found.get(one, none).number) for one, acked in promised.items())


def _seconds(notes: Sequence[AckNote], crashed_ns: int, found: Mapping[int, Commits]) -> float:
    """From the first acknowledgement that does not hold to the crash."""
    gone = (n.time_ns for n in notes if n.connection not in found or n.counter > found[n.connection].last)
    first = min(gone, default=crashed_ns)
    return max(0, crashed_ns - first) / 1e9


def _compared(
    promised: Mapping[int, int], rows: Mapping[int, Commits], binlog: Mapping[int, Commits]
) -> BinlogState:
    behind = ahead = 0
    for one in {*rows, *binlog}:
        difference = rows.get(one, Commits(0, 0)).last - binlog.get(one, Commits(0, 0)).last
        behind += max(0, difference)
        ahead += max(0, -difference)
    return BinlogState(lost=_missing(promised, binlog), behind=behind, ahead=ahead)
