"""Commits: writers wait for syncs, replicas, the cluster, or a large transaction before theirs. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from itertools import pairwise

from flushlab.diagnosis.evidence import WITH_READS, Evidence
from flushlab.diagnosis.finding import Change, Finding, Seen, changes, wait
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK, wait_of
from flushlab.record import Value
from flushlab.telemetry.live.questions import OpenTransaction
from flushlab.units import counted, format_latency


def find_binlog_cache(evidence: Evidence) -> Finding | None:
    """Transactions whose events went through a file, if there were any."""
    spilt, all_of_them = evidence.grew("binlog_cache_disk_use"), evidence.grew("binlog_cache_use")
    if not spilt or not all_of_them:
        return None
    size = evidence.after.variable("binlog_cache_size") or 0
    return Finding(
        name="binlog_cache",
        title="large transactions go through a temporary file on their way to the binary log",
        seen=(
            Seen(
                f"{spilt:,.0f} of {all_of_them:,.0f} transactions were larger than the cache:"
                f" {evidence.sized('binlog_cache_size')}",
                "SHOW GLOBAL STATUS LIKE 'Binlog_cache%'",
            ),
        ),
        advice="Use smaller transactions, or a larger cache; each connection can allocate one cache.",
        changes=changes(evidence, {"binlog_cache_size": max(1 << 20, 8 * size)}),
    )


REDO, BINLOG = "redo log", "binary log"
_RELAXED: Mapping[str, Mapping[str, Value]] = {
    BINLOG: {"sync_binlog": 1000},
    REDO: {"innodb_flush_log_at_trx_commit": 2},
}
_FILES = "SELECT * FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME LIKE '%log%'"
_STATES = "SELECT STATE, COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' GROUP BY STATE"
_ROWS: Mapping[str, Sequence[str]] = {
    "Innodb_rows": ("inserted", "updated", "deleted"),
    "Handler": ("write", "update", "delete"),
}
"""Counters of changed rows, the best first. MariaDB 10.11 has none of InnoDB's. On MySQL, the answer to SHOW
GLOBAL STATUS is itself written by a handler."""
_DELAYS: Mapping[str, Sequence[str]] = {
    "mysql": ("binlog_group_commit_sync_delay",),
    "mariadb": ("binlog_commit_wait_count", "binlog_commit_wait_usec"),
}
"""Settings that let a group of commits wait for more of them, if all are above 0: microseconds come last."""
_USUAL_SYNC_S = 0.001
_MOST = 0.5
"""Commits by autocommit, from which they are worth a word; a commit's part of the time that a writer holds
rows, which is most of it."""


def find_commit_sync(evidence: Evidence) -> Finding | None:
    """Time in commits, if there is any."""
    time = evidence.time
    if not time.connections.get("commit"):
        return None
    flush, sync = evidence.variable("innodb_flush_log_at_trx_commit"), evidence.variable("sync_binlog")
    has_binlog, unknown = not evidence.is_off("log_bin"), not flush
    logs = [log for log, synced in zip((REDO, BINLOG), evidence.syncs_at_commit(), strict=True) if synced]
    delays = _delays(evidence) if has_binlog else ()
    waits = ("commit", ROW_LOCK) if logs or delays or unknown else ("commit",)
    seen = [
        Seen(time.told("wait for their commit", "commit"), _STATES),
        *_syncs(evidence, "redo", REDO),
        *_syncs(evidence, "binlog", BINLOG),
        *_groups(evidence),
        *_transactions(evidence),
        Seen(
            f"innodb_flush_log_at_trx_commit={flush or 'unknown'}"
            + (f", sync_binlog={sync or 'unknown'}" if has_binlog else ", no binary log"),
            "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.sync_binlog",
        ),
        *(
            Seen(f"{name}={evidence.variable(name)}: a delay", f"SELECT @@GLOBAL.{name}")
            for name in delays[-1:]
        ),
    ]
    syncs = [f"the sync of {' and '.join(logs)}"] if logs else []
    delay_us = evidence.after.variable(delays[-1]) or 0 if delays else 0
    delay = [f"{name} ({format_latency(delay_us)})" for name in delays[-1:]]
    waited_for = [*delay, *syncs] if delay_us > _sync_us(evidence) else [*syncs, *delay]
    is_serial = bool(waited_for) and time.is_serial
    share = time.share(*waits, delays=() if ROW_LOCK in waits else (ROW_LOCK,))
    turn = time.connections["commit"] / (time.total - time.connections[ROW_LOCK]) if is_serial else 1.0
    return Finding(
        name="commit_sync",
        title=("each commit holds row locks while it waits for " if is_serial else "commits wait for ")
        + ", and for ".join(waited_for)
        if waited_for
        else "commits take time; whether they sync is not known"
        if unknown
        else "commits take time, though they do not sync",
        share=share.part(turn) if share is not None and is_serial else share,
        names_cause=bool(waited_for),
        waits=waits,
        seen=tuple(seen),
        advice=_advice(bool(logs) or unknown, delays, turn if is_serial else None),
        changes=(*changes(evidence, *({name: 0} for name in delays[:1])), *_changes(evidence, logs)),
    )


def _delays(evidence: Evidence) -> Sequence[str]:
    """The settings of a delay in force; none if there is no delay."""
    names = _DELAYS[evidence.identity.flavor]
    return names if all(evidence.after.variable(name) for name in names) else ()


def _sync_us(evidence: Evidence) -> float:
    """Mean time of a sync, the slower log's; that of a usual disk if the server does not tell."""
    ends = [(evidence.before.files.get(kind), evidence.after.files.get(kind)) for kind in ("redo", "binlog")]
    known = [
        (after.sync_s - before.sync_s) / (after.syncs - before.syncs)
        for before, after in ends
        if before and after and after.syncs > before.syncs
    ]
    return 1e6 * max(known, default=_USUAL_SYNC_S)


def _advice(syncs: bool, delays: Sequence[str], turn: float | None) -> str:
    """What to do.

    Args:
        syncs: at commit, or not known.
        delays: settings of one.
        turn: the commit's part of the time that a writer holds rows; None if they do not wait for each other.
    """
    if delays:
        return (
            f"{delays[-1]} makes commit groups larger, but each commit slower. If few connections"
            " commit at the same time, the delay only adds latency. Removing it costs no guarantee."
        )
    if syncs and turn is not None:
        lasts = (
            "as long as such a commit"
            if turn >= _MOST
            else f"as long as a writer holds them, and {turn:.0%} of that is the commit"
        )
        return (
            f"Each wait for these rows lasts {lasts}: use a disk with faster syncs, or change"
            " the rows less often. More connections gain nothing. Relaxed settings cost a guarantee."
        )
    if not syncs:
        return "Syncs at commit are switched off already; look at the disk's writes and at replication."
    return (
        "Commit more rows at once, let more connections commit at the same time, or use a disk with faster"
        " syncs: none of these costs a guarantee. Relaxed settings do."
    )


def _changes(evidence: Evidence, logs: Sequence[str]) -> tuple[Change, ...]:
    """For each log that is synced at commit, and for both together."""
    one_by_one = [setting for log, setting in _RELAXED.items() if log in logs]
    both = [{**one_by_one[1], **one_by_one[0]}] if len(one_by_one) == len(_RELAXED) else []
    return changes(evidence, *one_by_one, *both)


def _syncs(evidence: Evidence, kind: str, name: str) -> list[Seen]:
    """Syncs of a log per second and per commit, and their mean time, as far as the server tells."""
    before, after = evidence.before.files.get(kind), evidence.after.files.get(kind)
    if before is not None and after is not None:
        count = after.syncs - before.syncs
        if count <= 0 or evidence.seconds <= 0:
            return []
        each = format_latency(1e6 * (after.sync_s - before.sync_s) / count)
        return [Seen(f"{name}: {_rates(evidence, count / evidence.seconds)}, {each} each", _FILES)]
    counted = evidence.before.syncs, evidence.after.syncs
    if counted[0] and counted[1] and (count := counted[1].get(kind, 0) - counted[0].get(kind, 0)) > 0:
        return [Seen(f"{name}: {_rates(evidence, count / evidence.seconds)}, as the kernel counts them")]
    if kind == "redo" and (rate := evidence.per_s("innodb_os_log_fsyncs")):
        return [Seen(f"{name}: {_rates(evidence, rate)}", "SHOW GLOBAL STATUS LIKE 'Innodb_os_log_fsyncs'")]
    return []


def _rates(evidence: Evidence, syncs: float) -> str:
    """Syncs per second, and per commit where commits are counted apart from reads."""
    commits = _commits(evidence)
    return f"{syncs:,.0f} syncs/s" + (f", {syncs / commits:.2f} per commit" if commits else "")


def _commits(evidence: Evidence) -> float:
    """Commits/s of transactions that wrote; 0 if the server does not count them apart."""
    return 0.0 if evidence.commits_by == WITH_READS else evidence.commits or 0.0


def _groups(evidence: Evidence) -> list[Seen]:
    commits, groups = evidence.delta("binlog_commits"), evidence.delta("binlog_group_commits")
    if commits and groups:
        text = f"{commits / groups:.1f} transactions per group of the binary log"
        return [Seen(text, "SHOW GLOBAL STATUS LIKE 'Binlog%commits'")]
    return []


def _transactions(evidence: Evidence) -> list[Seen]:
    """Size of a transaction, and how many are single statements."""
    commits, ended = _commits(evidence) * evidence.seconds, evidence.delta("com_commit")
    kind = next((one for one in _ROWS if evidence.delta(_counters(one)[0]) is not None), None)
    if not commits or kind is None:
        return []
    rows = sum(evidence.grew(name) for name in _counters(kind))
    text = f"{rows / commits:,.1f} rows changed per commit"
    if ended is not None and (alone := 1 - ended / commits) >= _MOST:
        text += f", {alone:.0%} of the commits by autocommit"
    sql = f"SHOW GLOBAL STATUS WHERE Variable_name LIKE '{kind}%' OR Variable_name = 'Com_commit'"
    return [Seen(text, sql)]


def _counters(kind: str) -> list[str]:
    return [f"{kind.lower()}_{word}" for word in _ROWS[kind]]


_LONG_S, _MANY = 1, 3
_STUCK_S = 5
"""No disk that works takes as long for a sync."""
_LARGE = 50_000
"""Changed rows of a transaction whose commit may take as long: it goes into the binary log as one piece."""
_MONITOR = "SHOW ENGINE INNODB STATUS  -- ACTIVE (PREPARED), LOG"
_COMMITS_IN_FLIGHT_STATES = (
    "SELECT ID, TIME, STATE FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' ORDER BY TIME DESC"
)
_PENDING = "innodb_os_log_pending_fsyncs"


def find_commits_in_flight(evidence: Evidence) -> Finding | None:
    """Several commits for a second or longer, or one for much longer."""
    prepared = max(
        ([*filter(_commits_among, one.transactions)] for one in evidence.monitors),
        key=len,
        default=[],
    )
    flushing = max((one.flushing for one in evidence.monitors), default=0)
    waiting = [
        one.seconds
        for one in evidence.longest.values()
        if wait_of(one, evidence.identity) == "commit" and one.seconds >= _STUCK_S
    ]
    longest_s = max([*(one.age_s for one in prepared), *waiting], default=0)
    stands = _log_stands_still(evidence)
    is_stuck = longest_s >= _STUCK_S or stands
    many = max(flushing, sum(one.age_s >= _LONG_S for one in prepared))
    if not is_stuck and many < _MANY:
        return None
    seen = list[Seen]()
    if waiting:
        whose = "its" if len(waiting) == 1 else "their"
        text = f"{counted(len(waiting), 'statement')} in {whose} commit, for up to {max(waiting):,} s"
        seen.append(Seen(text, _COMMITS_IN_FLIGHT_STATES))
    if prepared:
        text = f"{counted(len(prepared), 'transaction')} prepared but not committed, open for up to"
        seen.append(Seen(f"{text} {max(one.age_s for one in prepared):,} s", _MONITOR))
    if flushing:
        seen.append(Seen(f"{wait(flushing, 'transaction')} for a sync of the redo log", _MONITOR))
    syncs = sum(one.syncs_log for one in evidence.monitors)
    if syncs:
        text = f"a sync of the redo log under way in {syncs} of {counted(len(evidence.monitors), 'output')}"
        seen.append(Seen(f"{text}{'; nothing was synced in between' if stands else ''}", _MONITOR))
    if pending := evidence.after.number(_PENDING):
        seen.append(
            Seen(f"{pending:,.0f} syncs pending", f"SHOW GLOBAL STATUS LIKE '{_PENDING.capitalize()}'")
        )
    is_large = any(one.rows_modified >= _LARGE for one in prepared)
    is_device = is_stuck and (syncs or pending) and not is_large
    return Finding(
        name="commits_in_flight",
        title="a commit is stuck in its sync: the file system or the device does not answer"
        if is_device
        else "commits take seconds"
        if longest_s >= _LONG_S
        else "commits wait for a sync of the redo log",
        share=evidence.time.share("commit", ROW_LOCK) if waiting else None,
        waits=("commit",),
        unmeasured=_clause(longest_s) if is_stuck else "",
        shows_in=("commit_sync",),
        seen=tuple(seen),
        advice=(
            "Look at the device and its file system (dmesg, iostat -x 1) and for a full disk (df). No setting"
            " mends them."
            if is_device
            else "Look at the disk (iostat -x 1, df), the age of the checkpoint, large transactions and"
            " replicas at the same time: each of these can delay a commit."
        ),
    )


def _commits_among(one: OpenTransaction) -> bool:
    """Whether it is on its way through the logs, and not waiting for a replica."""
    return one.prepared and not one.is_left and "semi-sync" not in one.state


def _log_stands_still(evidence: Evidence) -> bool:
    """No byte of redo was synced between two outputs, and somebody waits for it."""
    return any(
        one.syncs_log and other.syncs_log and one.flushed == other.flushed and one.lsn != one.flushed
        for one, other in pairwise(evidence.monitors)
        if one != other and None not in (one.flushed, one.lsn)
    )


def _clause(longest_s: int) -> str:
    if longest_s < _STUCK_S:
        return "nothing of the redo log was synced between two outputs of InnoDB's monitor"
    return f"a commit has not returned for {longest_s:,} s"


def find_galera(evidence: Evidence) -> Finding | None:
    """Time in the cluster's part of a commit, if there is any."""
    time = evidence.time
    waiting = time.connections.get("certification", 0.0) + time.connections.get("flow control", 0.0)
    paused_ns = evidence.grew("wsrep_flow_control_paused_ns")
    if not waiting and not paused_ns:
        return None
    paused = paused_ns / 1e9 / evidence.seconds if evidence.seconds > 0 else 0.0
    seen = [
        Seen(f"{waiting:.1f} writers wait for the cluster, on average"),
        Seen(f"flow control paused the cluster {paused:.0%} of the time", "SHOW GLOBAL STATUS LIKE 'wsrep%'"),
        Seen(f"{evidence.grew('wsrep_local_cert_failures'):,.0f} certification failures"),
    ]
    is_paused = paused > 0.05
    return Finding(
        name="galera",
        title="a slow node holds the cluster back"
        if is_paused
        else "commits wait for the cluster's certification",
        share=time.share("certification", "flow control", delays=(ROW_LOCK,)),
        waits=("certification", "flow control"),
        seen=tuple(seen),
        advice=(
            "Find the node with the longest wsrep_local_recv_queue_avg; give it more wsrep_slave_threads or a"
            " faster disk."
            if is_paused
            else "Each commit takes a round trip to the farthest node: commit more rows at once, or in more"
            " connections."
        ),
    )


_LARGE_TRANSACTIONS_MANY = 50_000
_OPEN = "SELECT * FROM information_schema.INNODB_TRX ORDER BY trx_rows_modified DESC LIMIT 5"


def find_large_transactions(evidence: Evidence) -> Finding | None:
    """Transactions with very many changed rows beside other writers."""
    every = itertools.chain(evidence.transactions.values(), *evidence.looks)
    large = [one for one in every if one.rows_modified >= _LARGE_TRANSACTIONS_MANY]
    if not large:
        return None
    largest = max(large, key=lambda one: one.rows_modified)
    # One that is seen at its begin has few changes yet.
    threads = {one.thread for one in large}
    often = [any(one.thread in threads and one.rows_modified for one in look) for look in evidence.looks]
    # Where commits sync, they wait for the disk already.
    waits = ("statement", ROW_LOCK, *(() if any(evidence.syncs_at_commit()) else ("commit",)))
    return Finding(
        name="large_transactions",
        title="large transactions beside small ones: their pages, redo and binary log delay the others",
        share=evidence.time.within(sum(often) / len(often), *waits, delays=("commit", "reading", PROCESSOR))
        if often and evidence.time.writers > len(threads)
        else None,
        waits=waits,
        shows_in=("cpu", "client"),
        seen=(
            Seen(
                f"connection {largest.thread} has changed {largest.rows_modified:,} rows in one transaction,"
                f" open for {largest.age_s:,} s",
                _OPEN,
            ),
        ),
        advice="Change some thousands of rows in each transaction, and let others commit in between.",
    )


def find_semi_sync(evidence: Evidence) -> Finding | None:
    """Time in waits for replicas, or sessions that wait now, if there are any."""
    time = evidence.time
    names = [f"rpl_semi_sync_{kind}_wait_sessions" for kind in ("source", "master")]
    waiting = max(int(evidence.after.number(name) or 0) for name in names)
    is_seen = bool(time.connections.get("semi-sync"))
    if not is_seen and not (waiting and time.share("semi-sync") is None):
        return None
    seen = [Seen(time.told("wait for a replica's acknowledgement", "semi-sync"))] if is_seen else []
    if waiting:
        text = f"{wait(waiting, 'session')} for a replica at the window's end"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync%'"))
    for kind in ("source", "master"):
        if rate := evidence.per_s(f"rpl_semi_sync_{kind}_tx_waits"):
            each_us = evidence.grew(f"rpl_semi_sync_{kind}_tx_wait_time") / max(rate * evidence.seconds, 1e-9)
            text = f"{rate:,.0f} transactions/s waited, {each_us / 1000:.1f} ms each"
            seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync%'"))
    return Finding(
        name="semi_sync",
        title="commits wait for a semi-synchronous replica",
        share=time.share("semi-sync", delays=(ROW_LOCK,)),
        waits=("semi-sync",),
        unmeasured="" if is_seen else f"{wait(waiting, 'session')} for a semi-synchronous replica",
        seen=tuple(seen),
        advice=(
            "Look at the network and at the replica's relay log syncs (sync_relay_log). Without semi-sync,"
            " the loss of the source also loses the commits that no replica has received."
        ),
    )
