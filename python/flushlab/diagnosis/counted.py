"""Counted: the answer where no connections were seen, from counters alone. Pure.

Counters tell whether anything wrote. They do not tell where its time went.
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.units import counted, format_seconds, format_size

_STATEMENTS = tuple(
    f"com_{name}"
    for name in (
        *("insert", "insert_select", "update", "update_multi", "delete", "delete_multi"),
        *("replace", "replace_select", "load"),
    )
)
_IDLE_PER_S = 1.0
"""Statements or rows per second below which a server without anything else at work is idle."""
_OWN = 1.0
"""The connection that asks for the status is at work itself."""
_ENOUGH = 5
_QUIET_REDO_PER_S = 4096.0
"""Bytes that a server writes by itself."""
_CANNOT = "What bounds writes cannot be judged"


def answer_without_connections(evidence: Evidence) -> str:
    """What bounds writes, in a sentence."""
    rate = write_statements_per_s(evidence)
    if rate is not None:
        return _from_rate(evidence, rate)
    for monitor in evidence.monitors[-1:]:
        if monitor.rows_per_s is not None and monitor.averaged_s:
            return _from_rows(monitor.rows_per_s, f"{monitor.averaged_s} s")
    return f"{_CANNOT}: the files have no rates and no lists of connections."


def write_statements_per_s(evidence: Evidence) -> float | None:
    """Statements that write, per second; None without two statuses. A replica's applier has none."""
    deltas = [evidence.delta(name) for name in _STATEMENTS]
    known = [one for one in deltas if one is not None]
    return sum(known) / evidence.seconds if known and evidence.seconds > 0 else None


def _from_rate(evidence: Evidence, rate: float) -> str:
    span = format_seconds(evidence.seconds)
    redo = evidence.per_s("innodb_os_log_written", "innodb_lsn_current") or 0.0
    if rate == 0 and redo > _QUIET_REDO_PER_S:
        return (
            f"{_CANNOT}: no statement of a client wrote in {span}, but {format_size(redo)}/s of redo were"
            " written, as by a replica's applier, and there is no list of connections."
        )
    if rate == 0:
        return f"Nothing bounds writes: no statement wrote in {span}."
    words, running = f"{rate:,.1f} write statements/s", evidence.running
    if rate < _IDLE_PER_S and len(running) >= _ENOUGH and sum(running) <= _OWN * len(running):
        return (
            f"Nothing bounds writes: the server is idle, {words} in {span}, and nothing but the client that"
            f" asked was at work in {counted(len(running), 'status')}."
        )
    return f"{_CANNOT}: {words} in {span}, and no lists of connections."


def _from_rows(rate: float, span: str) -> str:
    before = f"in the {span} before SHOW ENGINE INNODB STATUS"
    if rate == 0:
        return f"Nothing bounds writes: InnoDB changed no row {before}."
    if rate < _IDLE_PER_S:
        return f"Nothing bounds writes: InnoDB changed {rate:.2f} rows/s {before}."
    return f"{_CANNOT}: InnoDB changed {rate:,.0f} rows/s {before}, and there are no lists of connections."
