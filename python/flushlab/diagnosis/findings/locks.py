"""Locks: who waits for rows, tables and counters, and who holds them. Pure.

MySQL tells metadata locks (performance_schema.metadata_locks), and so do MariaDB and MySQL 5.7 if somebody
has enabled it. Elsewhere a holder is probable: whoever was there before the wait began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, changes, wait
from flushlab.diagnosis.waits import BACKGROUND, ROW_LOCK, wait_words
from flushlab.telemetry.live.questions import MetadataLock, ThreadState, waits_for_metadata
from flushlab.units import counted, format_latency

_OPEN = "SELECT * FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 20"


def find_row_locks(evidence: Evidence) -> Finding | None:
    time = evidence.time
    waits, waited_ms = evidence.grew("innodb_row_lock_waits"), evidence.grew("innodb_row_lock_time")
    waiting = [one for one in evidence.transactions.values() if one.waits]
    began, ended = evidence.before.row_lock_waiters, evidence.after.row_lock_waiters
    if not waits and not waited_ms and not began and not ended and not (waiting and ended is None):
        return None
    columns = "trx_mysql_thread_id, trx_state, trx_started, trx_rows_locked, trx_rows_modified"
    listed = f"SELECT {columns} FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 20"
    seen = []
    if waits and evidence.seconds > 0:
        text = f"{waits / evidence.seconds:,.1f} waits/s, {format_latency(1000 * waited_ms / waits)} each"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock%'"))
    if waiting:
        were = "was" if len(waiting) == 1 else "were"
        seen.append(Seen(f"{counted(len(waiting), 'transaction')} {were} seen waiting for a lock", listed))
    holding = [one for one in evidence.transactions.values() if not one.waits and one.rows_locked]
    if holding:
        oldest = max(holding, key=lambda one: one.age_s)
        who = f"connection {oldest.thread}" if oldest.thread else "prepared by XA, without a connection"
        who += f", open for {oldest.age_s:,} s" if oldest.age_s else ""
        text = f"oldest transaction with locks: {who}, {counted(oldest.rows_locked, 'row lock')}"
        if oldest.idle and oldest.thread:
            text += "; it is idle, its client does something else"
        seen.append(Seen(text, listed))
    is_serial = time.is_serial
    if is_serial:
        held = {wait: mean for wait, mean in time.connections.items() if wait != ROW_LOCK}
        whole = sum(held.values())
        busiest = sorted(held.items(), key=lambda one: -one[1])
        parts = [f"{wait_words(name)} {mean / whole:.0%}" for name, mean in busiest if mean >= 0.05 * whole]
        text = f"{whole:.1f} writers get on at a time, on average; their time: {', '.join(parts)}"
        seen.append(Seen(text))
    share, count = time.share(ROW_LOCK), max(len(waiting), int(ended or 0))
    return Finding(
        name="row_locks",
        title="writers wait for one another: they change the same rows, one writer after the other"
        if is_serial
        else "writers wait for row locks",
        share=share,
        waits=(ROW_LOCK,),
        unmeasured=f"{wait(count, 'transaction')} for row locks" if share is None and count else "",
        shows_in=("commit_sync",) if is_serial else (),
        seen=tuple(seen),
        advice=(
            "More connections gain nothing here. Change the contended row last, right before COMMIT; a faster"
            " commit shortens each wait. Spread a counter over several rows, or add its changes up first."
            if is_serial
            else "Shorten transactions that change the same rows: change contended rows last, and do no"
            " client work between statements. A faster commit shortens these waits."
        ),
    )


def find_auto_increment(evidence: Evidence) -> Finding | None:
    waiting = [one for one in evidence.transactions.values() if one.waits]
    began, ended = evidence.before.row_lock_waiters, evidence.after.row_lock_waiters
    counts = evidence.grew("innodb_row_lock_waits") or evidence.grew("innodb_row_lock_time")
    if not waiting or ended is None or began or ended or counts:
        return None
    name, interleaved = "innodb_autoinc_lock_mode", 2
    mode = evidence.after.variable(name)
    has_rows = evidence.variable("binlog_format").upper() == "ROW" or evidence.is_off("log_bin")
    share = evidence.time.share(ROW_LOCK)
    text = f"{len(waiting)} transactions waited for a lock other than a row lock"
    seen = [Seen(text, "SELECT * FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'")]
    if mode is not None:
        seen.append(Seen(f"{name}={mode}", f"SELECT @@GLOBAL.{name}"))
    is_wanted = mode not in (None, interleaved) and has_rows
    return Finding(
        name="auto_increment",
        title="statements wait for a table's auto-increment counter, or for a lock on the whole table",
        share=share,
        waits=(ROW_LOCK,),
        unmeasured=f"{wait(len(waiting), 'transaction')} for a table's lock" if share is None else "",
        seen=tuple(seen),
        advice="INSERT … SELECT and LOAD DATA hold the counter until they end: use smaller statements.",
        changes=changes(evidence, {name: interleaved}) if is_wanted else (),
    )


_LEFT_S = 5
"""A transaction manager that works ends them within a second."""


def find_xa_transactions(evidence: Evidence) -> Finding | None:
    """XA transactions are prepared and old, and nobody ends them.

    They keep their row locks, hold purge up, and survive a restart. MySQL from 8.0.29 on lets go of the
    connection at XA PREPARE, others when it ends: INNODB_TRX and InnoDB's monitor then have no thread for it.
    """
    left = [one for one in evidence.transactions.values() if one.is_left and one.age_s >= _LEFT_S]
    if not left:
        return None
    oldest_s, alone = max(one.age_s for one in left), sum(not one.thread for one in left)
    locks = counted(sum(one.rows_locked for one in left), "row lock")
    changed = counted(sum(one.rows_modified for one in left), "changed row")
    many, xids = len(left) > 1, evidence.after.xids
    text = f"{len(left)} prepared, {alone} of them without a connection; the oldest for {oldest_s:,} s,"
    seen = [Seen(f"{text} with {locks} and {changed}", _OPEN)]
    if xids:
        others = " and others" if len(xids) > 3 else ""
        seen.append(Seen(f"XID: {'; '.join(xids[:3])}{others}", "XA RECOVER"))
    who = f"{len(left)} XA transactions" if many else "an XA transaction"
    return Finding(
        name="xa_transactions",
        title=f"{who} {'were' if many else 'was'} left prepared: row locks until XA COMMIT or XA ROLLBACK",
        share=evidence.time.within(1.0, ROW_LOCK),
        waits=(ROW_LOCK,),
        unmeasured=f"{who} {'have' if many else 'has'} been prepared for {oldest_s:,} s, with {locks}",
        shows_in=("row_locks",),
        is_proven=False,
        seen=tuple(seen),
        advice=(
            "XA RECOVER lists them by XID, which the transaction manager chose. Ask that manager for the"
            " outcome of each, then end it: XA COMMIT or XA ROLLBACK with its XID. A restart of the server"
            " leaves them as they are."
        ),
    )


_OLD_S = 10


def find_idle_transactions(evidence: Evidence) -> Finding | None:
    every = evidence.transactions.values()
    old = [one for one in every if one.age_s >= _OLD_S and not one.waits and not one.prepared]
    if not old:
        return None
    oldest = max(old, key=lambda one: one.age_s)
    text = f"{len(old)} open for {_OLD_S} s or longer; the oldest, connection {oldest.thread}, for"
    text += (
        f" {oldest.age_s:,} s with {oldest.rows_modified:,} rows changed and {oldest.rows_locked:,} locked"
    )
    return Finding(
        name="idle_transactions",
        title="transactions stay open: purge and other writers may wait for them",
        seen=(Seen(text, _OPEN),),
        advice="End them in the application; timeouts for idle transactions only limit the harm.",
    )


_HOLDER = (
    "SELECT * FROM performance_schema.metadata_locks",
    "SELECT * FROM information_schema.INNODB_TRX ORDER BY trx_started",
    "SELECT * FROM information_schema.PROCESSLIST WHERE COMMAND = 'Sleep' ORDER BY TIME DESC",
)
"""By `Holder.doubt`."""


def find_metadata_locks(evidence: Evidence) -> Finding | None:
    """Statements wait for a table that DDL, a backup, LOCK TABLES or a transaction holds.

    FLUSH TABLES WITH READ LOCK holds the lock that every write takes: `global read lock` and `commit lock` on
    MySQL, `backup lock` on MariaDB since 10.4. A long wait counts without a share, too: DDL and the reads
    behind it are no writers, and hold up all that comes later.
    """
    time, long, is_global = evidence.time, waiters(evidence), stops_all_writes(evidence)
    is_measured = bool(time.connections.get("metadata lock"))
    if not is_measured and not long:
        return None
    states = "SELECT ID, TIME, STATE FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for%'"
    seen, candidates, unmeasured = [], holders(evidence), ""
    holder = known(candidates)
    if long:
        first, more = long[0], f"; {counted(len(long) - 1, 'more statement')} behind it"
        what = first.verb.upper() or ("the replica's applier" if first.command in BACKGROUND else "statement")
        text = f"{what} of connection {first.id}: {first.state} for {first.seconds:,} s"
        seen.append(Seen(f"{text}{more if len(long) > 1 else ''}", states))
        probably = "probably " if holder is not None and holder.doubt else ""
        held = f", which {holder.who} {probably}holds" if holder is not None else ""
        what = "the global read lock" if is_global else "a metadata lock"
        unmeasured = f"{wait(len(long), 'statement')} for {what}{held}, for up to {first.seconds:,} s"
    if is_measured:
        seen.append(Seen(time.told("wait for a metadata or table lock", "metadata lock"), states))
    if candidates:
        likeliest = candidates[0]
        text = likeliest.words + (others(candidates) if likeliest.doubt else "")
        seen.append(Seen(text, _HOLDER[likeliest.doubt]))
    kill = f": look at its program and user, then KILL {holder.kill}" if holder and holder.kill else ""
    of = f" of {holder.who}" if holder is not None and not holder.doubt else ""
    title = f"statements wait for a metadata lock{of}"
    if is_global:
        what = "" if evidence.identity.flavor == "mysql" or of else " or BACKUP STAGE"
        title = f"FLUSH TABLES WITH READ LOCK{what}{of} stops all writes"
    elif not of:
        title = "statements wait for a table lock: DDL, a backup, LOCK TABLES or an open transaction"
    return Finding(
        name="metadata_locks",
        title=title,
        share=time.share("metadata lock", delays=(ROW_LOCK,)),
        waits=("metadata lock",),
        unmeasured=unmeasured,
        seen=tuple(seen),
        advice=(
            f"End the session that holds the lock{kill}. Back up with a tool that holds it for a moment only."
            if is_global
            else f"End the statement or idle transaction that holds the lock{kill}. Give DDL a short"
            " lock_wait_timeout: all statements on the table queue behind it."
        ),
    )


_UPGRADABLE = "SHARED_UPGRADABLE"
"""Of DDL, which MySQL 8.0.15 tells even after DDL has made more of it."""
_EXCLUDING = frozenset(
    ("EXCLUSIVE", "SHARED_NO_READ_WRITE", "SHARED_NO_WRITE", "SHARED_READ_ONLY", _UPGRADABLE)
)
"""Kinds that exclude statements; DDL waits for them, and for all others."""
DDL = frozenset(("alter", "create", "drop", "optimize", "truncate", "rename", "repair"))
"""First words of statements."""
_SLACK_S = 1
"""Times are whole seconds."""


class Holder(NamedTuple):
    """`kill` is 0 without a connection; `doubt` is 0 for who holds the lock, 1 at work or in a transaction, 2
    asleep."""

    who: str
    kill: int
    does: str
    doubt: int

    @property
    def words(self) -> str:
        return f"{self.who} {'probably holds it: ' if self.doubt else ''}{self.does}"


def waiters(evidence: Evidence) -> list[ThreadState]:
    waiting = [one for one in evidence.longest.values() if waits_for_metadata(one.state)]
    return sorted(waiting, key=lambda one: -one.seconds)


def stops_all_writes(evidence: Evidence) -> bool:
    is_mariadb = evidence.identity.flavor == "mariadb"
    ends = ("global read lock", "commit lock", *(["backup lock"] if is_mariadb else []))
    return any(one.state.endswith(ends) for one in waiters(evidence))


def holders(evidence: Evidence) -> list[Holder]:
    waiting = {one.id for one in waiters(evidence)}
    waiting |= {one.thread for one in evidence.locks if not one.granted}
    return [*_told(evidence, waiting)] or [*_probable(evidence, waiting)]


def known(candidates: Sequence[Holder]) -> Holder | None:
    first = candidates[0] if candidates else None
    return first if first and all(one.doubt > first.doubt for one in candidates[1:]) else None


def others(candidates: Sequence[Holder]) -> str:
    rest = len(candidates) - 1
    was = "was" if rest == 1 else "were"
    return f"; {counted(rest, 'other connection')} {was} there before the wait, too" if rest > 0 else ""


def _told(evidence: Evidence, waiting: set[int]) -> Iterator[Holder]:
    """A waiter may have another lock on the same table: it heads the queue."""
    wanted = [one for one in evidence.locks if not one.granted]
    held = [one for one in evidence.locks if one.granted and one.thread not in waiting]
    contested = {one.of for one in wanted or evidence.locks if wanted or one.thread in waiting}
    seen = set[int]()
    for lock in sorted(held, key=lambda one: (not _excludes(one), one.kind == _UPGRADABLE)):
        stops_others = any(_excludes(one) for one in wanted if one.of == lock.of) or not wanted
        is_it = _excludes(lock) or (stops_others and lock.of in contested)
        if is_it and lock.thread not in seen and (lock.of in contested or not wanted):
            seen.add(lock.thread)
            does = _does(evidence, lock.thread)
            holds = f"holds {lock.kind} on {lock.of}{does and f'; {does}'}"
            yield Holder(f"connection {lock.thread}", lock.thread, holds, 0)


def _excludes(lock: MetadataLock) -> bool:
    is_global = lock.kind == "SHARED" and not lock.of.startswith("table ")
    return is_global or lock.kind in _EXCLUDING or lock.kind.startswith(("BACKUP_FTWRL", "BACKUP_WAIT"))


def _probable(evidence: Evidence, waiting: set[int]) -> Iterator[Holder]:
    """An open transaction or a statement, then those asleep; each longer than the wait.

    Whoever stops reads or writes makes the first one wait soon: of those asleep, it is the last that fell
    asleep before. A lock that DDL waits for may be older.
    """
    if not (long := waiters(evidence)):
        return
    least_s = long[0].seconds - _SLACK_S
    at_work = {one.key: one.age_s for one in evidence.transactions.values() if one.age_s >= least_s}
    at_work |= {one.id: one.seconds for one in evidence.longest.values() if one.seconds >= least_s}
    asleep = {one.id: one.seconds for one in evidence.asleep.values() if one.seconds >= least_s}
    last_first = 1 if stops_all_writes(evidence) or long[0].verb not in DDL else -1
    order = sorted(at_work, key=lambda key: -at_work[key])
    order += sorted(asleep, key=lambda key: last_first * asleep[key])
    for key in dict.fromkeys(order):
        if key not in waiting:
            who = f"connection {key}" if key > 0 else "a prepared XA transaction"
            yield Holder(who, max(0, key), _does(evidence, key), 1 if key in at_work else 2)


def _does(evidence: Evidence, key: int) -> str:
    parts = []
    if (asleep := evidence.asleep.get(key)) is not None:
        parts.append(f"asleep for {asleep.seconds:,} s")
    elif (seen := evidence.longest.get(key)) is not None:
        parts.append(f"{seen.verb.upper() or seen.command} for {seen.seconds:,} s")
    if (transaction := evidence.transactions.get(key)) is not None:
        parts.append(f"its transaction is open for {transaction.age_s:,} s")
    return ", ".join(parts)
