"""Sync at commit: writers wait until redo log and binary log are durable, and for a configured delay. Pure.

Locks are held until the commit ends, so the waits for row locks belong to the bound. Where one writer after
the other gets the rows, the share has the commit's part of the time that each holds them, and of the waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.diagnosis.changes import changes
from flushlab.diagnosis.commits import WITH_READS
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Change, Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK
from flushlab.record import Value
from flushlab.units import format_latency

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


def find(evidence: Evidence) -> Finding | None:
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
