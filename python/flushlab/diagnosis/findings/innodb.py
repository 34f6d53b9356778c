"""InnoDB: redo log, buffer pool, purge, latches and queues hold writers up. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, changes, counter, wait
from flushlab.diagnosis.waits import LONG_S, PROCESSOR, ROW_LOCK
from flushlab.units import format_size

_NEAR = 0.7
_AT = 0.95
"""Of the mark: writers that wait there begin and end in steps."""
_ENOUGH = 3
"""Samples below which no part of the window is known."""
_MOST_OF_FILES = 512 << 30
"""MySQL before 8.0.30 does not start with log files that have as much together
(https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html#sysvar_innodb_log_file_size)."""


def find_redo_capacity(evidence: Evidence) -> Finding | None:
    """The redo log is nearly full, so pages are flushed in a hurry and writers wait.

    InnoDB flushes faster from about 3/4 of the log on, and lets writers wait at a mark, `Redo.limit`. Only an
    age at that mark is evidence of waits. A single age, as files may have it, does not tell for how long.
    """
    limit, ages = evidence.after.redo.limit or 0.0, evidence.checkpoint_ages
    if not ages or not limit:
        return None
    near = sum(age > _NEAR * limit for age in ages) / len(ages)
    if near < 0.1:
        return None
    highest, part = max(ages) / limit, _waiting_part(evidence)
    text = f"checkpoint age up to {format_size(max(ages))}, {highest:.0%} of the"
    text += f" {format_size(int(limit))} at which writers wait"
    if len(ages) > 1:
        text += f", above {_NEAR:.0%} in {near:.0%} of {len(ages)} samples"
    size = 8 * (evidence.after.redo.capacity or int(limit))
    larger = {"innodb_redo_log_capacity": size}
    if "innodb_redo_log_capacity" not in evidence.after.variables:
        files = evidence.after.variable("innodb_log_files_in_group") or 1
        larger = {"innodb_log_file_size": min(size, _MOST_OF_FILES - (files << 20)) // files}
    sql = "SHOW GLOBAL STATUS LIKE 'Innodb_%lsn'; -- MariaDB: LIKE 'Innodb_checkpoint%'"
    share = evidence.time.within(part, "statement", "commit", delays=(ROW_LOCK, PROCESSOR))
    return Finding(
        name="redo_capacity",
        title=f"the redo log was filled to {highest:.0%} of the mark at which writers wait: "
        + ("they wait for page flushing" if part else "pages are flushed in a hurry"),
        share=share if part else None,
        waits=("statement", "commit"),
        seen=(Seen(text, sql),),
        advice="A larger redo log spreads page flushing over more time; recovery after a crash takes longer.",
        changes=changes(evidence, larger),
    )


def _waiting_part(evidence: Evidence) -> float:
    ages, limit = evidence.checkpoint_ages, evidence.after.redo.limit
    if len(ages) < _ENOUGH or not limit:
        return 0.0
    return sum(age >= _AT * limit for age in ages) / len(ages)


def find_page_flushing(evidence: Evidence) -> Finding | None:
    try:
        limit = float(evidence.variable("innodb_max_dirty_pages_pct")) / 100
    except ValueError:
        return None
    first, last = evidence.before.dirty, evidence.after.dirty
    if first is None or last is None or limit <= 0 or min(first, last) < 0.9 * limit or evidence.seconds <= 0:
        return None
    free = evidence.grew("innodb_buffer_pool_wait_free")
    flushed = evidence.per_s("innodb_buffer_pool_pages_flushed")
    capacity = evidence.after.variable("innodb_io_capacity") or 0
    text = f"{last:.0%} of the buffer pool is dirty, innodb_max_dirty_pages_pct is {limit:.0%}"
    waits_per_s = f"{free / evidence.seconds:,.1f} waits/s for a free page"
    seen = [counter(text, "Innodb_buffer_pool_pages_dirty")]
    seen.append(counter(waits_per_s, "Innodb_buffer_pool_wait_free"))
    if flushed is not None and capacity:
        text = f"{flushed:,.0f} pages/s are flushed, innodb_io_capacity is {capacity:,}"
        seen.append(counter(text, "Innodb_buffer_pool_pages_flushed"))
    # A disk that does not get that far gains nothing from more of it, nor does a server that goes beyond.
    most = evidence.after.variable("innodb_io_capacity_max") or 0
    is_slower = capacity and flushed is not None and 0.8 * capacity <= flushed <= 1.2 * max(capacity, most)
    more = {"innodb_io_capacity": 4 * capacity, "innodb_io_capacity_max": max(8 * capacity, most)}
    for_pages = free / max(1.0, (evidence.commits or 0.0) * evidence.seconds)
    for_redo = _waiting_part(evidence)
    waits = ("statement", "commit") if for_redo > for_pages else ("statement",)
    delays = {"commit", "reading", ROW_LOCK, PROCESSOR} - {*waits}
    return Finding(
        name="page_flushing",
        title="page flushing does not keep up: dirty pages are at their limit"
        + (f", and innodb_io_capacity={capacity} holds flushing back" if is_slower else ""),
        share=evidence.time.within(max(for_pages, for_redo), *waits, delays=tuple(delays)),
        waits=waits,
        shows_in=("redo_capacity",),
        seen=tuple(seen),
        advice=(
            "Pages are changed faster than they are written. Raise innodb_io_capacity as far as the disk can"
            " write; a larger pool and a larger redo log let a page change more often before it is written."
        ),
        changes=changes(evidence, more) if is_slower else (),
    )


def find_log_buffer(evidence: Evidence) -> Finding | None:
    """Statements wait until the redo log buffer has room.

    Innodb_log_waits counts statements that found no room. Before MySQL 8.0, InnoDB writes the buffer as soon
    as half of it is full (log_flush_margin in log0log.cc): statements wait for these writes, and
    Innodb_log_waits stays. Ratios of Innodb_log_writes to other counters mislead (MySQLTuner issue 938); the
    size of a write against the buffer's does not.
    """
    if evidence.seconds <= 0:
        return None
    size = evidence.after.variable("innodb_log_buffer_size") or 0
    busy, seen = _busy_with_redo(evidence), []
    waits = evidence.grew("innodb_log_waits")
    if waits:
        seen.append(counter(f"{waits / evidence.seconds:,.1f} waits/s", "Innodb_log_waits"))
    elif busy is not None and (evidence.identity.flavor != "mysql" or evidence.identity.version < (8, 0)):
        writes, written = evidence.delta("innodb_log_writes"), evidence.delta("innodb_os_log_written")
        # A full buffer is written from half of it on, less a margin.
        if writes and written and size and written / writes >= 0.4 * size:
            waits, mean = writes, round(written / writes)
            text = f"{waits / evidence.seconds:,.1f} writes/s of {format_size(mean)}: the buffer was full"
            seen.append(counter(text, "Innodb%log_writ%"))
    if not waits:
        return None
    if busy is not None:
        files = "performance_schema.file_summary_by_event_name WHERE EVENT_NAME LIKE '%innodb_log%'"
        text = f"the redo log was written or synced in {100 * busy:.0f}% of the time"
        seen.append(Seen(text, f"SELECT * FROM {files}"))
    part = waits / max(1.0, (evidence.commits or 0.0) * evidence.seconds)
    # Whoever waits for room waits for a write of the redo log: no longer than there were any.
    within = min(part, 1.0 if busy is None else busy)
    return Finding(
        name="log_buffer",
        title="statements wait for room in the redo log buffer",
        share=evidence.time.within(within, "statement", "commit", delays=(ROW_LOCK,)),
        waits=("statement", "commit"),
        seen=(*seen, Seen(evidence.sized("innodb_log_buffer_size"))),
        advice="A buffer that holds the redo of the transactions in flight ends these waits.",
        changes=changes(evidence, {"innodb_log_buffer_size": max(64 << 20, 4 * size)}),
    )


def _busy_with_redo(evidence: Evidence) -> float | None:
    before, after = evidence.before.files.get("redo"), evidence.after.files.get("redo")
    if before is None or after is None or before.write_s is None or after.write_s is None:
        return None
    seconds = after.write_s - before.write_s + after.sync_s - before.sync_s
    return min(1.0, max(0.0, seconds) / evidence.seconds)


_MOST_OF_MEMORY = 0.7
"""The rest is for connections, the operating system and its page cache."""
_CHUNK = 128 << 20
"""By default."""


def find_buffer_pool(evidence: Evidence) -> Finding | None:
    if evidence.seconds <= 0:
        return None
    free, reads = evidence.grew("innodb_buffer_pool_wait_free"), evidence.grew("innodb_buffer_pool_reads")
    commits = (evidence.commits or 0.0) * evidence.seconds
    if not free and (reads < max(commits, evidence.seconds) or evidence.write_statements == 0):
        return None
    size, seen = evidence.after.variable("innodb_buffer_pool_size") or 0, []
    if free:
        text = f"{free / evidence.seconds:,.1f} waits/s for a free page"
        seen.append(counter(text, "Innodb_buffer_pool_wait_free"))
    if reads:
        per_commit = f", {reads / commits:.1f} per commit" if commits else ""
        text = f"{reads / evidence.seconds:,.0f} pages/s read from disk{per_commit}"
        seen.append(counter(text, "Innodb_buffer_pool_reads"))
    seen.append(Seen(evidence.sized("innodb_buffer_pool_size")))
    part, delays = (free + reads) / max(1.0, commits), ("commit", "reading", ROW_LOCK, PROCESSOR)
    # A pool that the server's machine can hold; none where its memory cannot be seen.
    room = int((evidence.host.memory_bytes if evidence.host else 0) * _MOST_OF_MEMORY)
    larger = min(4 * size, room) // _CHUNK * _CHUNK
    return Finding(
        name="buffer_pool",
        title="statements wait for the buffer pool: free pages or pages from disk",
        share=evidence.time.within(part, "statement", delays=delays),
        waits=("statement",),
        seen=tuple(seen),
        advice="The pages that writes touch do not fit. Give the pool more of the machine's memory.",
        changes=changes(evidence, {"innodb_buffer_pool_size": larger}) if larger > size > 0 else (),
    )


_MANY_LATCHES = 5


def find_latches(evidence: Evidence) -> Finding | None:
    """Not seen on a live server: SHOW ENGINE INNODB STATUS is not asked for it."""
    latches = [one.latches for one in evidence.monitors]
    most = max(latches, key=lambda every: sum(latch.waiting for latch in every), default=())
    waiting = sum(latch.waiting for latch in most)
    longest_s = max((latch.longest_s for latch in most), default=0.0)
    if waiting < _MANY_LATCHES and longest_s < 1:
        return None
    times = [f"up to {one.longest_s:.0f} s" if one.longest_s >= 1 else "less than 1 s each" for one in most]
    sql, long = "SHOW ENGINE INNODB STATUS  -- SEMAPHORES", longest_s >= LONG_S
    return Finding(
        name="latches",
        title=f"{wait(waiting, 'thread')} for latches inside InnoDB",
        unmeasured=f"threads wait for InnoDB's latches, for up to {longest_s:,.0f} s" if long else "",
        seen=tuple(
            Seen(f"{one.waiting} for {one.name}, {time}", sql)
            for one, time in zip(most[:3], times, strict=False)
        ),
        advice=(
            "Use fewer connections at the same time. The name of the latch shows what is contended:"
            " an index, the adaptive hash index, the buffer pool, the redo log."
        ),
    )


_MANY_PENDING = 16
"""Below, a queue is what any disk has."""


def find_pending_io(evidence: Evidence) -> Finding | None:
    """Not seen on a live server: SHOW ENGINE INNODB STATUS is not asked for it."""
    every = (one.pending for one in evidence.monitors)
    most = max(every, key=lambda pending: sum(pending.values()), default={})
    if sum(most.values()) < _MANY_PENDING:
        return None
    sql = "SHOW ENGINE INNODB STATUS  -- FILE I/O"
    return Finding(
        name="pending_io",
        title="InnoDB's reads, writes or syncs stand in a queue",
        seen=tuple(Seen(f"{count:,} {kind} pending", sql) for kind, count in most.items()),
        advice="Look at the disk's latency and queue (iostat -x 1) at the same time.",
    )


_LONG_HISTORY, _GROWING = 1_000_000, 10_000
_PAGES_PER_ROW = 20.0
"""A search of a B-tree reads about five pages; a write, with its indexes and undo log, some more."""
_ROWS = tuple(f"innodb_rows_{name}" for name in ("read", "inserted", "updated", "deleted"))
_HANDLER = (
    *("handler_write", "handler_update", "handler_delete", "handler_read_first", "handler_read_key"),
    *("handler_read_next", "handler_read_prev", "handler_read_rnd_next"),
)
"""MariaDB has no others since 10.6."""
_BETWEEN_LOOKS_S = 5
"""An older transaction may be seen twice."""


def find_purge_lag(evidence: Evidence) -> Finding | None:
    """Old row versions pile up behind an old snapshot or slow purge.

    Searches go through rows that are deleted but not purged, and lock these too. The cost shows in the pages
    that are read per row, and in locks on rows that nobody read. MySQL's manual on TRX_ROWS_LOCKED: it
    "might include delete-marked rows that are physically present but not visible to the transaction".
    """
    length, before = evidence.after.history_length, evidence.before.history_length
    if length is None:
        return None
    oldest = max((one.age_s for one in evidence.transactions.values()), default=0)
    is_growing = length >= _GROWING and length > (before or 0) and oldest >= evidence.seconds
    if length < _LONG_HISTORY and not is_growing:
        return None
    rows = sum(map(evidence.grew, _ROWS if evidence.delta(_ROWS[0]) is not None else _HANDLER))
    per_row = evidence.grew("innodb_buffer_pool_read_requests") / max(1.0, rows)
    part = 1.0 - _PAGES_PER_ROW / max(per_row, _PAGES_PER_ROW)
    text = f"history list length {length:,.0f}"
    if before is not None and evidence.seconds:
        text += f", {length - before:+,.0f} in {evidence.seconds:.0f} s"
    sql = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
    is_counted = "innodb_history_list_length" in evidence.after.status
    seen = [counter(text, "Innodb_history_list_length") if is_counted else Seen(text, sql)]
    if per_row > _PAGES_PER_ROW:
        text = f"{per_row:,.0f} pages are read per row; a search takes about five"
        seen.append(counter(text, "Innodb_buffer_pool_read_requests"))
    # Of transactions that were seen once, and began in the window.
    young = [one for look in evidence.looks for one in look if one.age_s < _BETWEEN_LOOKS_S]
    locked = sum(one.rows_locked for one in young if not one.waits)
    if locked > rows > 0:
        part = max(part, 1.0 - rows / locked)
        text = f"{locked:,} row locks in {len(evidence.looks)} samples of transactions"
        text += f", but only {rows:,.0f} rows read or changed in the window"
        text += ": the other locks are on deleted rows that are not purged"
        columns = "trx_id, trx_rows_locked, trx_rows_modified"
        seen.append(Seen(text, f"SELECT {columns} FROM information_schema.INNODB_TRX"))
    # Statements that search for longer hold their locks for longer.
    waits = ("statement", ROW_LOCK)
    return Finding(
        name="purge_lag",
        title="old row versions pile up: purge does not keep up",
        share=evidence.time.within(part, *waits, delays=("reading", PROCESSOR)),
        waits=waits,
        shows_in=("row_locks", "cpu", "client"),
        seen=tuple(seen),
        advice="End long transactions and snapshots (backups, reports); then raise innodb_purge_threads.",
    )


def find_thread_concurrency(evidence: Evidence) -> Finding | None:
    """Statements queue before InnoDB, which lets only so many in: more than the limit, on average.

    MySQL only: MariaDB has ignored innodb_thread_concurrency since 10.5.5. A statement in this queue
    has no state of its own, and no row in INNODB_TRX if its transaction has not begun. Those that execute
    beyond the limit are in the queue, or not in InnoDB yet.
    """
    name, inside = "innodb_thread_concurrency", ("statement", "reading")
    limit = evidence.after.variable(name)
    executing = sum(evidence.time.connections.get(wait, 0.0) for wait in inside)
    if evidence.identity.flavor != "mysql" or not limit or executing <= limit:
        return None
    share = evidence.time.share(*inside, delays=(ROW_LOCK,))
    text = f"{executing:.1f} statements of writers execute on average, and {name}={limit}"
    return Finding(
        name="thread_concurrency",
        title=f"statements wait to enter InnoDB, which lets {limit} in",
        share=share and share.part(1 - limit / executing),
        waits=inside,
        seen=(Seen(text, "SHOW ENGINE INNODB STATUS  -- ROW OPERATIONS: queries in queue"),),
        advice=(
            "Remove the limit. If the limit is there to reduce contention, use a smaller connection pool:"
            " it has the same effect without a queue inside the server."
        ),
        changes=changes(evidence, {name: 0}),
    )
