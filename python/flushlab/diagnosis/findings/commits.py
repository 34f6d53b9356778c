"""Commits: writers wait for syncs, replicas, the cluster, or a large transaction before theirs. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from flushlab.diagnosis.evidence import WITH_READS, Evidence
from flushlab.diagnosis.finding import Finding, Seen, changes, counter, wait
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK, wait_of
from flushlab.record import Value
from flushlab.units import counted, format_latency

REDO, BINLOG = "redo log", "binary log"
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
    """Writers wait until redo log and binary log are durable, and for a configured delay.

    Locks are held until the commit ends, so the waits for row locks belong to the bound. Where one writer
    after the other gets the rows, the share has the commit's part of the time that each holds them, and of
    the waits.
    """
    time = evidence.time
    if not time.connections.get("commit"):
        return None
    flush, sync = evidence.variable("innodb_flush_log_at_trx_commit"), evidence.variable("sync_binlog")
    has_binlog, unknown = not evidence.is_off("log_bin"), not flush
    logs = [log for log, synced in zip((REDO, BINLOG), evidence.syncs_at_commit(), strict=True) if synced]
    delays = _DELAYS[evidence.identity.flavor]
    if not has_binlog or not all(evidence.after.variable(name) for name in delays):
        delays = ()
    waits = ("commit", ROW_LOCK) if logs or delays or unknown else ("commit",)
    seen = [
        Seen(time.told("wait for their commit", "commit"), _STATES),
        *_syncs(evidence, "redo", REDO),
        *_syncs(evidence, "binlog", BINLOG),
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
    title = "commits take time, though they do not sync"
    if waited_for:
        whose = "each commit holds row locks while it waits for " if is_serial else "commits wait for "
        title = whose + ", and for ".join(waited_for)
    elif unknown:
        title = "commits take time; whether they sync is not known"
    relaxed: dict[str, Mapping[str, Value]] = {
        BINLOG: {"sync_binlog": 1000},
        REDO: {"innodb_flush_log_at_trx_commit": 2},
    }
    tried = [setting for log, setting in relaxed.items() if log in logs]
    if len(tried) == len(relaxed):
        tried.append({**relaxed[REDO], **relaxed[BINLOG]})
    return Finding(
        name="commit_sync",
        title=title,
        share=share.part(turn) if share is not None and is_serial else share,
        names_cause=bool(waited_for),
        waits=waits,
        seen=tuple(seen),
        advice=_advice(bool(logs) or unknown, delays, turn if is_serial else None),
        changes=changes(evidence, *({name: 0} for name in delays[:1]), *tried),
    )


def _sync_us(evidence: Evidence) -> float:
    ends = [(evidence.before.files.get(kind), evidence.after.files.get(kind)) for kind in ("redo", "binlog")]
    known = [
        (after.sync_s - before.sync_s) / (after.syncs - before.syncs)
        for before, after in ends
        if before and after and after.syncs > before.syncs
    ]
    return 1e6 * max(known, default=_USUAL_SYNC_S)


def _advice(syncs: bool, delays: Sequence[str], turn: float | None) -> str:
    """`turn` is the commit's part of the time that a writer holds rows; None if writers do not wait for each
    other."""
    if delays:
        return (
            f"{delays[-1]} makes commit groups larger, but each commit slower. If few connections"
            " commit at the same time, the delay only adds latency. Removing it costs no guarantee."
        )
    if not syncs:
        return "Syncs at commit are switched off already; look at the disk's writes and at replication."
    if turn is None:
        return (
            "Commit more rows at once, let more connections commit at the same time, or use a disk with"
            " faster syncs: none of these costs a guarantee. Relaxed settings do."
        )
    lasts = "as long as such a commit"
    if turn < _MOST:
        lasts = f"as long as a writer holds them, and {turn:.0%} of that is the commit"
    return (
        f"Each wait for these rows lasts {lasts}: use a disk with faster syncs, or change"
        " the rows less often. More connections gain nothing. Relaxed settings cost a guarantee."
    )


def _syncs(evidence: Evidence, kind: str, name: str) -> list[Seen]:
    def rates(per_s: float) -> str:
        commits = _commits(evidence)
        return f"{name}: {per_s:,.0f} syncs/s" + (f", {per_s / commits:.2f} per commit" if commits else "")

    before, after = evidence.before.files.get(kind), evidence.after.files.get(kind)
    if before is not None and after is not None:
        count = after.syncs - before.syncs
        if count <= 0 or evidence.seconds <= 0:
            return []
        each = format_latency(1e6 * (after.sync_s - before.sync_s) / count)
        return [Seen(f"{rates(count / evidence.seconds)}, {each} each", _FILES)]
    first, last = evidence.before.syncs, evidence.after.syncs
    if first and last and (count := last.get(kind, 0) - first.get(kind, 0)) > 0:
        return [Seen(f"{rates(count / evidence.seconds)}, as the kernel counts them")]
    if kind == "redo" and (rate := evidence.per_s("innodb_os_log_fsyncs")):
        return [counter(rates(rate), "Innodb_os_log_fsyncs")]
    return []


def _commits(evidence: Evidence) -> float:
    return 0.0 if evidence.commits_by == WITH_READS else evidence.commits or 0.0


def _transactions(evidence: Evidence) -> list[Seen]:
    seen = []
    logged, groups = evidence.delta("binlog_commits"), evidence.delta("binlog_group_commits")
    if logged and groups:
        seen.append(
            counter(f"{logged / groups:.1f} transactions per group of the binary log", "Binlog%commits")
        )
    commits, ended = _commits(evidence) * evidence.seconds, evidence.delta("com_commit")
    for kind, words in _ROWS.items():
        counters = [f"{kind.lower()}_{word}" for word in words]
        if commits and evidence.delta(counters[0]) is not None:
            text = f"{sum(map(evidence.grew, counters)) / commits:,.1f} rows changed per commit"
            if ended is not None and (alone := 1 - ended / commits) >= _MOST:
                text += f", {alone:.0%} of the commits by autocommit"
            sql = f"SHOW GLOBAL STATUS WHERE Variable_name LIKE '{kind}%' OR Variable_name = 'Com_commit'"
            return [*seen, Seen(text, sql)]
    return seen


_LONG_S, _MANY_PREPARED = 1, 3
_STUCK_S = 5
"""No disk that works takes as long for a sync."""
_LARGE = 50_000
"""Changed rows of a transaction whose commit may take as long: it goes into the binary log as one piece."""
_MONITOR = "SHOW ENGINE INNODB STATUS  -- ACTIVE (PREPARED), LOG"


def find_commits_in_flight(evidence: Evidence) -> Finding | None:
    """Several commits for a second or longer, or one for much longer, which may never return.

    A transaction between prepare and commit waits for the syncs of redo log and binary log, or for the
    commits before it. InnoDB's monitor lists it as prepared, with the age of the transaction; without a
    binary log, as `flushing log`, without an age. A list of connections has the time of the statement.
    Transactions that XA PREPARE left wait for nothing: see `find_xa_transactions`. Others may wait for a
    replica.
    """
    monitors = evidence.monitors
    in_commit = (
        [
            one
            for one in each.transactions
            if one.prepared and not one.is_left and "semi-sync" not in one.state
        ]
        for each in monitors
    )
    prepared = max(in_commit, key=len, default=[])
    flushing = max((each.flushing for each in monitors), default=0)
    waiting = [
        one.seconds
        for one in evidence.longest.values()
        if wait_of(one, evidence.identity) == "commit" and one.seconds >= _STUCK_S
    ]
    longest_s = max([*(one.age_s for one in prepared), *waiting], default=0)
    # No byte of redo was synced between two outputs, and somebody waits for it.
    stands = any(
        one.syncs_log and other.syncs_log and one.flushed == other.flushed and one.lsn != one.flushed
        for one, other in itertools.pairwise(monitors)
        if one != other and None not in (one.flushed, one.lsn)
    )
    is_stuck = longest_s >= _STUCK_S or stands
    many = max(flushing, sum(one.age_s >= _LONG_S for one in prepared))
    if not is_stuck and many < _MANY_PREPARED:
        return None
    seen = list[Seen]()
    if waiting:
        whose = "its" if len(waiting) == 1 else "their"
        text = f"{counted(len(waiting), 'statement')} in {whose} commit, for up to {max(waiting):,} s"
        listed = "FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' ORDER BY TIME DESC"
        seen.append(Seen(text, f"SELECT ID, TIME, STATE {listed}"))
    if prepared:
        text = f"{counted(len(prepared), 'transaction')} prepared but not committed, open for up to"
        seen.append(Seen(f"{text} {max(one.age_s for one in prepared):,} s", _MONITOR))
    if flushing:
        seen.append(Seen(f"{wait(flushing, 'transaction')} for a sync of the redo log", _MONITOR))
    syncs = sum(each.syncs_log for each in monitors)
    if syncs:
        text = f"a sync of the redo log under way in {syncs} of {counted(len(monitors), 'output')}"
        seen.append(Seen(f"{text}{'; nothing was synced in between' if stands else ''}", _MONITOR))
    if pending := evidence.after.number("innodb_os_log_pending_fsyncs"):
        seen.append(counter(f"{pending:,.0f} syncs pending", "Innodb_os_log_pending_fsyncs"))
    is_large = any(one.rows_modified >= _LARGE for one in prepared)
    is_device = is_stuck and (syncs or pending) and not is_large
    title = "commits take seconds" if longest_s >= _LONG_S else "commits wait for a sync of the redo log"
    if is_device:
        title = "a commit is stuck in its sync: the file system or the device does not answer"
    unmeasured = "nothing of the redo log was synced between two outputs of InnoDB's monitor"
    if longest_s >= _STUCK_S:
        unmeasured = f"a commit has not returned for {longest_s:,} s"
    return Finding(
        name="commits_in_flight",
        title=title,
        share=evidence.time.share("commit", ROW_LOCK) if waiting else None,
        waits=("commit",),
        unmeasured=unmeasured if is_stuck else "",
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


def find_semi_sync(evidence: Evidence) -> Finding | None:
    time, kinds = evidence.time, ("source", "master")
    waiting = max(int(evidence.after.number(f"rpl_semi_sync_{kind}_wait_sessions") or 0) for kind in kinds)
    is_seen = bool(time.connections.get("semi-sync"))
    if not is_seen and not (waiting and time.share("semi-sync") is None):
        return None
    seen = [Seen(time.told("wait for a replica's acknowledgement", "semi-sync"))] if is_seen else []
    if waiting:
        text = f"{wait(waiting, 'session')} for a replica at the window's end"
        seen.append(counter(text, "Rpl_semi_sync%"))
    for kind in kinds:
        if rate := evidence.per_s(f"rpl_semi_sync_{kind}_tx_waits"):
            each_us = evidence.grew(f"rpl_semi_sync_{kind}_tx_wait_time") / max(rate * evidence.seconds, 1e-9)
            text = f"{rate:,.0f} transactions/s waited, {each_us / 1000:.1f} ms each"
            seen.append(counter(text, "Rpl_semi_sync%"))
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


def find_galera(evidence: Evidence) -> Finding | None:
    time, waits = evidence.time, ("certification", "flow control")
    waiting = sum(time.connections.get(name, 0.0) for name in waits)
    paused_ns = evidence.grew("wsrep_flow_control_paused_ns")
    if not waiting and not paused_ns:
        return None
    paused = paused_ns / 1e9 / evidence.seconds if evidence.seconds > 0 else 0.0
    is_paused = paused > 0.05
    return Finding(
        name="galera",
        title="a slow node holds the cluster back"
        if is_paused
        else "commits wait for the cluster's certification",
        share=time.share(*waits, delays=(ROW_LOCK,)),
        waits=waits,
        seen=(
            Seen(f"{waiting:.1f} writers wait for the cluster, on average"),
            counter(f"flow control paused the cluster {paused:.0%} of the time", "wsrep%"),
            Seen(f"{evidence.grew('wsrep_local_cert_failures'):,.0f} certification failures"),
        ),
        advice=(
            "Find the node with the longest wsrep_local_recv_queue_avg; give it more wsrep_slave_threads or a"
            " faster disk."
            if is_paused
            else "Each commit takes a round trip to the farthest node: commit more rows at once, or in more"
            " connections."
        ),
    )


def find_binlog_cache(evidence: Evidence) -> Finding | None:
    spilt, every = evidence.grew("binlog_cache_disk_use"), evidence.grew("binlog_cache_use")
    if not spilt or not every:
        return None
    size = evidence.after.variable("binlog_cache_size") or 0
    text = f"{spilt:,.0f} of {every:,.0f} transactions were larger than the cache:"
    return Finding(
        name="binlog_cache",
        title="large transactions go through a temporary file on their way to the binary log",
        seen=(counter(f"{text} {evidence.sized('binlog_cache_size')}", "Binlog_cache%"),),
        advice="Use smaller transactions, or a larger cache; each connection can allocate one cache.",
        changes=changes(evidence, {"binlog_cache_size": max(1 << 20, 8 * size)}),
    )


def find_large_transactions(evidence: Evidence) -> Finding | None:
    """One transaction that changes very many rows stalls the commits of the others.

    Its events go into the binary log as one piece, while every other commit waits; its pages and its redo
    push those of the others out.
    """
    every = itertools.chain(evidence.transactions.values(), *evidence.looks)
    large = [one for one in every if one.rows_modified >= _LARGE]
    if not large:
        return None
    largest = max(large, key=lambda one: one.rows_modified)
    # One that is seen at its begin has few changes yet.
    threads = {one.thread for one in large}
    often = [any(one.thread in threads and one.rows_modified for one in look) for look in evidence.looks]
    # Where commits sync, they wait for the disk already.
    waits = ("statement", ROW_LOCK, *(() if any(evidence.syncs_at_commit()) else ("commit",)))
    is_measured = bool(often) and evidence.time.writers > len(threads)
    part, delays = sum(often) / max(1, len(often)), ("commit", "reading", PROCESSOR)
    text = f"connection {largest.thread} has changed {largest.rows_modified:,} rows in one transaction,"
    return Finding(
        name="large_transactions",
        title="large transactions beside small ones: their pages, redo and binary log delay the others",
        share=evidence.time.within(part, *waits, delays=delays) if is_measured else None,
        waits=waits,
        shows_in=("cpu", "client"),
        seen=(
            Seen(
                f"{text} open for {largest.age_s:,} s",
                "SELECT * FROM information_schema.INNODB_TRX ORDER BY trx_rows_modified DESC LIMIT 5",
            ),
        ),
        advice="Change some thousands of rows in each transaction, and let others commit in between.",
    )
