"""Counted: the answer where connections were seen too rarely for a share, or not at all. Pure.

Counters tell whether anything wrote. They do not tell where its time went; a list of connections tells what
they did at its moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flushlab.diagnosis.evidence import Evidence, Monitor
from flushlab.diagnosis.waits import ROW_LOCK, Wait, wait_of
from flushlab.units import counted, format_seconds, format_size

_IDLE_PER_S = 1.0
"""Statements or rows per second below which a server without anything else at work is idle."""
_OWN = 1.0
"""The connection that asks for the status is at work itself."""
_ENOUGH = 5
_QUIET_REDO_PER_S = 4096.0
"""Bytes that a server writes by itself."""
NOTHING = "Nothing bounds"
CANNOT = "What bounds writes cannot be judged"
_DOES: Mapping[Wait | str, str] = {
    "commit": "commit",
    "metadata lock": "wait for a metadata lock",
    "semi-sync": "wait for a semi-synchronous replica",
    "certification": "wait for the cluster",
    "flow control": "wait for the cluster",
    "statement": "execute",
    ROW_LOCK: "wait for a row lock",
}


def answer_without_shares(evidence: Evidence) -> str:
    """What bounds writes, in a sentence."""
    if evidence.write_time is None and not evidence.files:
        return f"{CANNOT}: the account does not see the connections of others."
    if not evidence.files:
        return f"{CANNOT}: only {counted(evidence.time.samples, 'sample')} of connections."
    return _from_counters(evidence)


def _from_counters(evidence: Evidence) -> str:
    rate = evidence.write_statements
    if rate is not None:
        return _from_rate(evidence, rate)
    for monitor in evidence.monitors[-1:]:
        if monitor.rows_per_s is not None and monitor.averaged_s:
            return _from_rows(evidence, monitor, monitor.rows_per_s)
    return f"{CANNOT}: the files have no rates and {_lists(evidence)}."


def _lists(evidence: Evidence) -> str:
    samples = evidence.time.samples
    return f"only {counted(samples, 'list')} of connections" if samples else "no lists of connections"


def at_the_moment(evidence: Evidence) -> Iterator[str]:
    """What the writers of a few lists do, the most of them first."""
    time = evidence.time
    busiest = sorted(time.connections.items(), key=lambda one: -one[1])
    longest = dict[str, int]()
    for one in evidence.longest.values():
        wait = wait_of(one, evidence.identity) or ""
        longest[wait] = max(one.seconds, longest.get(wait, 0))
    doing = [
        time.told(_DOES[wait], wait) + (f", for up to {longest[wait]:,} s" if wait in longest else "")
        for wait, mean in busiest
        if wait in _DOES and mean > 0
    ]
    if doing and not time.is_sample:
        what = "list" if evidence.files else "sample"
        yield f"in {counted(time.samples, what)} of connections, {', '.join(doing[:2])}"


def _from_rate(evidence: Evidence, rate: float) -> str:
    span = format_seconds(evidence.seconds)
    redo = evidence.per_s("innodb_os_log_written", "innodb_lsn_current") or 0.0
    if rate == 0 and redo > _QUIET_REDO_PER_S:
        return (
            f"{CANNOT}: no statement of a client wrote in {span}, but {format_size(redo)}/s of redo were"
            f" written, as by a replica's applier, and the files have {_lists(evidence)}."
        )
    if rate == 0 and (stuck := _at_work_throughout(evidence)):
        return (
            f"{CANNOT}: no statement that writes began in {span}, but {stuck:,} or more connections were at"
            f" work at every status, and the files have {_lists(evidence)}."
        )
    if rate == 0:
        return f"{NOTHING} writes: no statement wrote in {span}."
    words, running = f"{rate:,.1f} write statements/s", evidence.running
    if rate < _IDLE_PER_S and len(running) >= _ENOUGH and sum(running) <= _OWN * len(running):
        return (
            f"{NOTHING} writes: the server is idle, {words} in {span}, and nothing but the client that"
            f" asked was at work in {counted(len(running), 'status')}."
        )
    return f"{CANNOT}: {words} in {span}, and the files have {_lists(evidence)}."


def _at_work_throughout(evidence: Evidence) -> int:
    """Connections that were at work at every status, and ended fewer statements than one a second each."""
    least = int(min(evidence.running, default=_OWN) - _OWN)
    return least if least > 0 and (evidence.per_s("questions") or 0.0) < least + _OWN else 0


def _from_rows(evidence: Evidence, monitor: Monitor, rate: float) -> str:
    before = f"in the {monitor.averaged_s} s before SHOW ENGINE INNODB STATUS"
    at_work = sum(not (one.idle or one.waits or one.prepared) for one in monitor.transactions)
    if rate < _IDLE_PER_S and at_work:
        what = f"{counted(at_work, 'transaction')} with a statement at work"
        return f"{CANNOT}: InnoDB changed {rate:.3g} rows/s {before}, but lists {what}."
    if rate == 0:
        return f"{NOTHING} writes: InnoDB changed no row {before}."
    if rate < _IDLE_PER_S:
        return f"{NOTHING} writes: InnoDB changed {rate:.2f} rows/s {before}."
    return f"{CANNOT}: InnoDB changed {rate:,.0f} rows/s {before}, and the files have {_lists(evidence)}."
