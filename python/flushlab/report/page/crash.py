"""Sections: what crashes have left, beside what the durability model says. Pure.

The page of `flushlab crash` is made of them; that of a tuning has them where its winner was crashed.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.crashed.measured import (
    OUTCOMES,
    WHAT,
    age,
    at_random,
    binlog_in_words,
    counts,
    gtid_in_words,
    replica_in_words,
)
from flushlab.record import Crash, CrashArm, CrashFacts
from flushlab.report.crash import (
    by_machine,
    failing,
    load,
    moment,
    must_lose,
    on_machines,
    replay_words,
    where,
    which,
    worst_first,
)
from flushlab.report.page.parts import Cell, Section, Subject, Table

_POINTS = {
    "random": "at random",
    "after_ack": "just after an acknowledgement",
    "before_flush": "just before a flush",
    "most_unsynced": "just before a flush with the most data waiting for it",
    "after_write": "just after a write to a file",
    "in_recovery": "and again in recovery",
}
_SHOWN = 20
_KEPT = "A crash kept everything if each commit that had been acknowledged before it was there afterwards."
_SOUND = (
    "Without an acknowledgement table, lost commits are unknown: a crash counts as kept if the server started"
    " with sound tables."
)
_BOUND = (
    "“Fail at most” is the upper end of the one-sided 95 % interval of Clopper and Pearson. It bounds the"
    " share of crashes that do not keep everything, at random moments of this run. Chosen moments are counted"
    " separately."
)


def section(subject: Subject) -> Iterator[Section]:
    """Of a tuning whose winner was crashed."""
    if subject.facts is not None and subject.facts.crash is not None:
        yield from sections(subject.facts.crash)


def sections(facts: CrashFacts) -> Iterator[Section]:
    """What was measured, and the crashes that did not keep everything."""
    counted = _KEPT if _rows_checked(facts) else _SOUND
    yield Section(
        "crashes",
        "What crashes left",
        f"{load(facts)}: {which(facts)}{WHAT[facts.failure]}{where(facts)}{on_machines(facts)}. {counted}",
        tables=(_measured(facts), _by_moment(facts)),
        notes=(_BOUND, *_on_controls(facts)),
    )
    if rows := tuple(row for arm in facts.arms if not arm.positive_control for row in _failing(facts, arm)):
        head = (Cell("configuration"), Cell("cut"), Cell("outcome"), Cell("what is wrong"))
        lead = (
            f"The worst first, at most {_SHOWN} of each configuration; the JSON has all. If the record was"
            " kept, the command below a crash judges it again."
        )
        yield Section("failing", "Crashes that did not keep everything", lead, tables=(Table(head, rows),))


def _rows_checked(facts: CrashFacts) -> bool:
    """Whether it is known which commits were acknowledged."""
    return all(arm.checks_rows for arm in facts.arms)


def _measured(facts: CrashFacts) -> Table:
    """Of each arm what was measured, and below it its binary log and what the model says."""
    head = (
        Cell("configuration"),
        Cell("kept", "num"),
        Cell("fail at most", "num"),
        Cell("commits lost", "num"),
    )
    return Table(head, tuple(row for arm in facts.arms for row in _measured_rows(arm)))


def _measured_rows(arm: CrashArm) -> Iterator[tuple[Cell, ...]]:
    found = counts(arm.crashes)
    random = counts(at_random(arm.crashes))
    bound, lost, seconds = random.bound_95, found.lost_commits, found.lost_s
    yield (
        Cell(arm.name, "name", "it must lose" if arm.positive_control else ""),
        _kept(arm.crashes),
        Cell("", "num")
        if bound is None or bound == 1
        else Cell(f"{bound:.1%}", "num", f"of {random.crashes:,} random"),
        Cell(f"up to {lost.max:,.0f}", "num", age(seconds.max))
        if lost and seconds
        else Cell("none" if arm.checks_rows else "not known", "num"),
    )
    if found.binlog:
        yield (Cell(f"Binary log: {binlog_in_words(found.binlog)}."),)
    if must := must_lose(arm, found):
        yield (Cell(f"It must lose: {must}."),)
    if found.gtid:
        yield (Cell(f"GTIDs: {gtid_in_words(found.gtid)}."),)
    for what, replica in found.replicas:
        yield (Cell(f"{what.capitalize()}: {replica_in_words(replica)}."),)
    if differ := by_machine(arm):
        yield (Cell(f"By machine: {differ}."),)
    if arm.guarantee:
        yield (Cell(f"The model: {arm.guarantee}."),)
    if arm.floor:
        yield (Cell(f"Floor: {arm.floor}."),)


def _by_moment(facts: CrashFacts) -> Table:
    seen = {crash.point.kind for arm in facts.arms for crash in arm.crashes}
    kinds = [kind for kind in _POINTS if kind in seen]
    rows = []
    for arm in facts.arms:
        groups = (tuple(crash for crash in arm.crashes if crash.point.kind == kind) for kind in kinds)
        rows.append(
            (Cell(arm.name, "name"), *(_kept(crashes) if crashes else Cell("") for crashes in groups))
        )
    head = (Cell("configuration"), *(Cell(_POINTS[kind], "num") for kind in kinds))
    return Table(head, tuple(rows), "Kept, by the moment of the crash")


def _kept(crashes: tuple[Crash, ...]) -> Cell:
    found = counts(crashes)
    others = {name: n for name in OUTCOMES if name not in ("kept", "sound") and (n := getattr(found, name))}
    return Cell(
        f"{found.kept + found.sound:,} of {len(crashes):,}",
        "num bad" if others.keys() - {"unknown"} else "num mute" if others else "num good",
        ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in others.items()),
    )


def _on_controls(facts: CrashFacts) -> Iterator[str]:
    if any(arm.positive_control for arm in facts.arms):
        yield "The positive control is an unsafe configuration, crashed to prove that losses are detected."
    elif facts.arms and not any(failing(arm) for arm in facts.arms):
        yield "Nothing was lost and no positive control was run, so nothing proves that losses are detected."


def _failing(facts: CrashFacts, arm: CrashArm) -> Iterator[tuple[Cell, ...]]:
    bad = worst_first(arm)
    for crash in bad[:_SHOWN]:
        wrong = list(crash.reasons)
        if crash.lost:
            wrong.insert(0, f"{crash.lost:,} of {crash.acknowledged:,} commits lost, {age(crash.lost_s)}")
        yield (
            Cell(arm.name, "name"),
            Cell(moment(arm, crash), "", _POINTS[crash.point.kind]),
            Cell(crash.outcome.replace("_", " "), "bad"),
            Cell("; ".join(wrong)),
        )
        if replay := replay_words(facts, arm, crash):
            yield (Cell(replay, "code"),)
    if len(bad) > _SHOWN:
        yield (Cell(f"{arm.name}: and {len(bad) - _SHOWN:,} more"),)
