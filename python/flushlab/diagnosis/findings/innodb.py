"""InnoDB: redo log, buffer pool, purge, latches and queues hold writers up. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Change, Finding, Seen, changes, wait
from flushlab.diagnosis.waits import LONG_S, PROCESSOR, ROW_LOCK
from flushlab.units import format_size

_MOST_OF_MEMORY = 0.7
"""The rest is for connections, the operating system and its page cache."""
_STEP = 128 << 20
"""Size of a chunk by default."""


def find_buffer_pool(evidence: Evidence) -> Finding | None:
    """Waits for free pages, or reads in the way of writes."""
    if evidence.seconds <= 0:
        return None
    free, reads = evidence.grew("innodb_buffer_pool_wait_free"), evidence.grew("innodb_buffer_pool_reads")
    commits = (evidence.commits or 0.0) * evidence.seconds
    if not free and (reads < max(commits, evidence.seconds) or evidence.write_statements == 0):
        return None
    part = (free + reads) / max(1.0, commits)
    size = evidence.after.variable("innodb_buffer_pool_size") or 0
    seen = []
    if free:
        sql = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_wait_free'"
        seen.append(Seen(f"{free / evidence.seconds:,.1f} waits/s for a free page", sql))
    if reads:
        per_commit = f", {reads / commits:.1f} per commit" if commits else ""
        sql = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'"
        seen.append(Seen(f"{reads / evidence.seconds:,.0f} pages/s read from disk{per_commit}", sql))
    seen.append(Seen(evidence.sized("innodb_buffer_pool_size")))
    return Finding(
        name="buffer_pool",
        title="statements wait for the buffer pool: free pages or pages from disk",
        share=evidence.time.within(part, "statement", delays=("commit", "reading", ROW_LOCK, PROCESSOR)),
        waits=("statement",),
        seen=tuple(seen),
        advice="The pages that writes touch do not fit. Give the pool more of the machine's memory.",
        changes=_larger(evidence, size),
    )


def _larger(evidence: Evidence, size: int) -> tuple[Change, ...]:
    """A pool that the server's machine can hold; none where its memory cannot be seen."""
    room = int((evidence.host.memory_bytes if evidence.host else 0) * _MOST_OF_MEMORY)
    larger = min(4 * size, room) // _STEP * _STEP
    return changes(evidence, {"innodb_buffer_pool_size": larger}) if larger > size > 0 else ()


_MANY = 5
_LONG_S = 1.0
_SHOWN = 3
_SQL = "SHOW ENGINE INNODB STATUS  -- SEMAPHORES"


def find_latches(evidence: Evidence) -> Finding | None:
    """Many threads in a queue, or one that has waited for long."""
    most = max(evidence.monitors, key=lambda one: sum(latch.waiting for latch in one.latches), default=None)
    if most is None or not most.latches:
        return None
    waiting = sum(one.waiting for one in most.latches)
    longest_s = max(one.longest_s for one in most.latches)
    if waiting < _MANY and longest_s < _LONG_S:
        return None
    seen = [
        Seen(f"{one.waiting} for {one.name}, {_at_most(one.longest_s)}", _SQL)
        for one in most.latches[:_SHOWN]
    ]
    return Finding(
        name="latches",
        title=f"{wait(waiting, 'thread')} for latches inside InnoDB",
        unmeasured=f"threads wait for InnoDB's latches, for up to {longest_s:,.0f} s"
        if longest_s >= LONG_S
        else "",
        seen=tuple(seen),
        advice=(
            "Use fewer connections at the same time. The name of the latch shows what is contended:"
            " an index, the adaptive hash index, the buffer pool, the redo log."
        ),
    )


def _at_most(seconds: float) -> str:
    return f"up to {seconds:.0f} s" if seconds >= _LONG_S else "less than 1 s each"


_FULL = 0.4
"""Mean write, as part of the buffer, from which a full buffer is written: half of it, less a margin."""


def find_log_buffer(evidence: Evidence) -> Finding | None:
    """Waits for room in the log buffer, if there were any."""
    if evidence.seconds <= 0:
        return None
    size = evidence.after.variable("innodb_log_buffer_size") or 0
    busy = _busy(evidence)
    waits, seen = evidence.grew("innodb_log_waits"), []
    if waits:
        text = f"{waits / evidence.seconds:,.1f} waits/s"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb_log_waits'"))
    if not waits and busy is not None and (full := _full(evidence, size)):
        waits, mean = full
        text = f"{waits / evidence.seconds:,.1f} writes/s of {format_size(mean)}: the buffer was full"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb%log_writ%'"))
    if not waits:
        return None
    if busy is not None:
        seen.append(Seen(f"the redo log was written or synced in {100 * busy:.0f}% of the time", _FILES))
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


_FILES = "SELECT * FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME LIKE '%innodb_log%'"


def _full(evidence: Evidence, size: int) -> tuple[float, int] | None:
    """Writes of a full buffer and their mean bytes; None for smaller ones and where a thread writes."""
    identity = evidence.identity
    if identity.flavor == "mysql" and identity.version >= (8, 0):
        return None
    writes, written = evidence.delta("innodb_log_writes"), evidence.delta("innodb_os_log_written")
    if not writes or not written or not size or written / writes < _FULL * size:
        return None
    return writes, round(written / writes)


def _busy(evidence: Evidence) -> float | None:
    """Part of the time in which the redo log was written or synced, at most; None if nobody tells."""
    before, after = evidence.before.files.get("redo"), evidence.after.files.get("redo")
    if before is None or after is None or before.write_s is None or after.write_s is None:
        return None
    seconds = after.write_s - before.write_s + after.sync_s - before.sync_s
    return min(1.0, max(0.0, seconds) / evidence.seconds)


_PENDING_IO_MANY = 16
"""Below, a queue is what any disk has."""
_PENDING_IO_SQL = "SHOW ENGINE INNODB STATUS  -- FILE I/O"


def find_pending_io(evidence: Evidence) -> Finding | None:
    """A long queue."""
    most = max(evidence.monitors, key=lambda one: sum(one.pending.values()), default=None)
    if most is None or sum(most.pending.values()) < _PENDING_IO_MANY:
        return None
    return Finding(
        name="pending_io",
        title="InnoDB's reads, writes or syncs stand in a queue",
        seen=tuple(
            Seen(f"{count:,} {kind} pending", _PENDING_IO_SQL) for kind, count in most.pending.items()
        ),
        advice="Look at the disk's latency and queue (iostat -x 1) at the same time.",
    )


_LONG = 1_000_000
_GROWING = 10_000
_PAGES_PER_ROW = 20.0
"""A search of a B-tree reads about five pages; a write, with its indexes and undo log, some more."""
_ROWS = tuple(f"innodb_rows_{name}" for name in ("read", "inserted", "updated", "deleted"))
_HANDLER = tuple(
    f"handler_{name}"
    for name in (
        "write",
        "update",
        "delete",
        "read_first",
        "read_key",
        "read_next",
        "read_prev",
        "read_rnd_next",
    )
)
"""MariaDB has no others since 10.6."""
_OLD_S = 5
"""Between two looks at transactions: an older one may be seen twice."""
_OPEN = "SELECT trx_id, trx_rows_locked, trx_rows_modified FROM information_schema.INNODB_TRX"
_PURGE_LAG_SQL = {
    True: "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'",
    False: "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'",
}


def find_purge_lag(evidence: Evidence) -> Finding | None:
    """A long history list, or one that grows behind an old transaction."""
    length, before = evidence.after.history_length, evidence.before.history_length
    if length is None:
        return None
    oldest = max((one.age_s for one in evidence.transactions.values()), default=0)
    is_growing = length >= _GROWING and length > (before or 0) and oldest >= evidence.seconds
    if length < _LONG and not is_growing:
        return None
    rows, pages = _rows(evidence), evidence.grew("innodb_buffer_pool_read_requests")
    per_row, locked = pages / max(1.0, rows), _locked(evidence)
    part = 1.0 - _PAGES_PER_ROW / max(per_row, _PAGES_PER_ROW)
    seen = [
        Seen(
            f"history list length {length:,.0f}{_growth(evidence)}",
            _PURGE_LAG_SQL["innodb_history_list_length" in evidence.after.status],
        )
    ]
    if per_row > _PAGES_PER_ROW:
        text = f"{per_row:,.0f} pages are read per row; a search takes about five"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'"))
    if locked > rows > 0:
        part = max(part, 1.0 - rows / locked)
        text = f"{locked:,} row locks in {len(evidence.looks)} samples of transactions"
        text += f", but only {rows:,.0f} rows read or changed in the window"
        seen.append(Seen(f"{text}: the other locks are on deleted rows that are not purged", _OPEN))
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


def _rows(evidence: Evidence) -> float:
    """Rows that were read or changed."""
    names = _ROWS if evidence.delta(_ROWS[0]) is not None else _HANDLER
    return sum(map(evidence.grew, names))


def _locked(evidence: Evidence) -> int:
    """Locks on rows of transactions that were seen once, and began in the window."""
    every = (one for look in evidence.looks for one in look)
    return sum(one.rows_locked for one in every if not one.waits and one.age_s < _OLD_S)


def _growth(evidence: Evidence) -> str:
    """Growth in the window, if there is one."""
    before, after = evidence.before.history_length, evidence.after.history_length
    if before is None or after is None or not evidence.seconds:
        return ""
    return f", {after - before:+,.0f} in {evidence.seconds:.0f} s"


_NEAR = 0.7
_AT = 0.95
"""Of the mark: writers that wait there begin and end in steps."""
_ENOUGH = 3
"""Samples below which no part of the window is known."""


_MOST_OF_FILES = 512 << 30
"""MySQL before 8.0.30 does not start with log files that have as much together
(https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html#sysvar_innodb_log_file_size)."""


def find_redo_capacity(evidence: Evidence) -> Finding | None:
    """A checkpoint age near the log's capacity, if it was seen."""
    capacity = evidence.after.redo.capacity
    limit = evidence.after.redo.limit or 0.0
    ages = evidence.checkpoint_ages
    if not ages or not limit:
        return None
    near = sum(age > _NEAR * limit for age in ages) / len(ages)
    if near < 0.1:
        return None
    size, highest, part = capacity or int(limit), max(ages) / limit, waiting_part(evidence)
    share = evidence.time.within(part, "statement", "commit", delays=(ROW_LOCK, PROCESSOR)) if part else None
    return Finding(
        name="redo_capacity",
        title=f"the redo log was filled to {highest:.0%} of the mark at which writers wait: "
        + ("they wait for page flushing" if part else "pages are flushed in a hurry"),
        share=share,
        waits=("statement", "commit"),
        seen=(
            Seen(
                f"checkpoint age up to {format_size(max(ages))}, {highest:.0%} of the"
                f" {format_size(int(limit))} at which writers wait"
                + (f", above {_NEAR:.0%} in {near:.0%} of {len(ages)} samples" if len(ages) > 1 else ""),
                "SHOW GLOBAL STATUS LIKE 'Innodb_%lsn'; -- MariaDB: LIKE 'Innodb_checkpoint%'",
            ),
        ),
        advice="A larger redo log spreads page flushing over more time; recovery after a crash takes longer.",
        changes=changes(evidence, _redo_capacity_larger(evidence, 8 * size)),
    )


def waiting_part(evidence: Evidence) -> float:
    """Part of the window in which the checkpoint's age was at the mark; 0 for too few samples."""
    ages, limit = evidence.checkpoint_ages, evidence.after.redo.limit
    if len(ages) < _ENOUGH or not limit:
        return 0.0
    return sum(age >= _AT * limit for age in ages) / len(ages)


def _redo_capacity_larger(evidence: Evidence, size: int) -> dict[str, int]:
    """The setting of this server's version, for a log of that size."""
    if "innodb_redo_log_capacity" in evidence.after.variables:
        return {"innodb_redo_log_capacity": size}
    files = evidence.after.variable("innodb_log_files_in_group") or 1
    return {"innodb_log_file_size": min(size, _MOST_OF_FILES - (files << 20)) // files}


_PAGE_FLUSHING_NEAR = 0.9


def find_page_flushing(evidence: Evidence) -> Finding | None:
    """Dirty pages near their limit at both ends of the window."""
    try:
        limit = float(evidence.variable("innodb_max_dirty_pages_pct")) / 100
    except ValueError:
        return None
    shares = [one.dirty for one in (evidence.before, evidence.after)]
    dirty = [share for share in shares if share is not None]
    if len(dirty) < 2 or limit <= 0 or min(dirty) < _PAGE_FLUSHING_NEAR * limit or evidence.seconds <= 0:
        return None
    free = evidence.grew("innodb_buffer_pool_wait_free")
    flushed = evidence.per_s("innodb_buffer_pool_pages_flushed")
    capacity = evidence.after.variable("innodb_io_capacity")
    seen = [
        Seen(
            f"{dirty[-1]:.0%} of the buffer pool is dirty, innodb_max_dirty_pages_pct is {limit:.0%}",
            "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'",
        ),
        Seen(
            f"{free / evidence.seconds:,.1f} waits/s for a free page",
            "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_wait_free'",
        ),
    ]
    if flushed is not None and capacity:
        text = f"{flushed:,.0f} pages/s are flushed, innodb_io_capacity is {capacity:,}"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_flushed'"))
    # A disk that does not get that far gains nothing from more of it, nor does a server that goes beyond.
    most = max(capacity or 0, evidence.after.variable("innodb_io_capacity_max") or 0)
    is_slower = capacity and flushed is not None and 0.8 * capacity <= flushed <= 1.2 * most
    for_pages = free / max(1.0, (evidence.commits or 0.0) * evidence.seconds)
    for_redo = waiting_part(evidence)
    waits = ("statement", "commit") if for_redo > for_pages else ("statement",)
    delays = {"commit", "reading", ROW_LOCK, PROCESSOR}
    return Finding(
        name="page_flushing",
        title="page flushing does not keep up: dirty pages are at their limit"
        + (f", and innodb_io_capacity={capacity} holds flushing back" if is_slower else ""),
        share=evidence.time.within(max(for_pages, for_redo), *waits, delays=tuple(delays - {*waits})),
        waits=waits,
        shows_in=("redo_capacity",),
        seen=tuple(seen),
        advice=(
            "Pages are changed faster than they are written. Raise innodb_io_capacity as far as the disk can"
            " write; a larger pool and a larger redo log let a page change more often before it is written."
        ),
        changes=changes(
            evidence,
            {
                "innodb_io_capacity": 4 * capacity,
                "innodb_io_capacity_max": max(
                    8 * capacity, evidence.after.variable("innodb_io_capacity_max") or 0
                ),
            },
        )
        if is_slower and capacity
        else (),
    )


_LIMIT = "innodb_thread_concurrency"
_INSIDE = ("statement", "reading")


def find_thread_concurrency(evidence: Evidence) -> Finding | None:
    """Statements of writers beyond the limit, if they are more than it on average."""
    limit = evidence.after.variable(_LIMIT)
    if evidence.identity.flavor != "mysql" or not limit:
        return None
    executing = sum(evidence.time.connections.get(one, 0.0) for one in _INSIDE)
    if executing <= limit:
        return None
    share = evidence.time.share(*_INSIDE, delays=(ROW_LOCK,))
    return Finding(
        name="thread_concurrency",
        title=f"statements wait to enter InnoDB, which lets {limit} in",
        share=share and share.part(1 - limit / executing),
        waits=_INSIDE,
        seen=(
            Seen(
                f"{executing:.1f} statements of writers execute on average, and {_LIMIT}={limit}",
                "SHOW ENGINE INNODB STATUS  -- ROW OPERATIONS: queries in queue",
            ),
        ),
        advice=(
            "Remove the limit. If the limit is there to reduce contention, use a smaller connection pool:"
            " it has the same effect without a queue inside the server."
        ),
        changes=changes(evidence, {_LIMIT: 0}),
    )
