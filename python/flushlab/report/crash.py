"""Report of crashes: the document, what a tuning shows of its winner's crashes, and the JSON. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from flushlab.campaign.facts import resuming
from flushlab.crashed.measured import (
    OUTCOMES,
    WHAT,
    CrashCounts,
    OutcomeCounts,
    age,
    at_random,
    binlog_in_words,
    chosen,
    counts,
    gtid_in_words,
    replica_in_words,
    spread,
    tally,
)
from flushlab.record import Crash, CrashArm, CrashFacts, CrashOutcome, NodeWay
from flushlab.report.document import Cell, Document, Row, Section, Table, warnings_section
from flushlab.report.stored import foot, repeat, request_of
from flushlab.report.words import extended
from flushlab.spec.parts import RemoteAccess
from flushlab.store import CampaignRow
from flushlab.units import counted

_FAILED: tuple[CrashOutcome, ...] = ("not_started", "inconsistent", "lost")
_WORST: tuple[CrashOutcome, ...] = (*_FAILED, "unknown", "sound", "kept")
"""Worst first."""
_WAYS: Mapping[NodeWay, str] = {
    "bootstrap": "bootstrapped",
    "ist": "IST",
    "sst": "SST",
    "none": "lacked nothing",
    "stayed": "stayed",
}
_NODES = {
    "one": "on one node ",
    "all": "on all nodes at once ",
    "cascade": "on one node after the other until none was left ",
}
_POINTS = {
    "random": "at random",
    "after_ack": "just after an acknowledgement",
    "before_flush": "just before a flush",
    "most_unsynced": "just before a flush with the most data waiting for it",
    "after_write": "just after a write to a file",
    "in_recovery": "and again in recovery",
}
_SHOWN = 10
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


class AloneCounts(OutcomeCounts, frozen=True, kw_only=True):
    """Nodes whose data a server without Galera checked.

    Attributes:
        looked_at: number of these nodes.
    """

    looked_at: int


class NodeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of a cluster over all crashes, by the way in which they came back.

    Attributes:
        stayed, bootstrap, ist, sst, none: number of nodes; see `way` of a node.
        alone: of the nodes' data without the other nodes; None: not checked.
    """

    stayed: int
    bootstrap: int
    ist: int
    sst: int
    none: int
    alone: AloneCounts | None


class CrashArmDocument(CrashArm, frozen=True, kw_only=True):
    """A configuration, its crashes, and what these come to.

    Attributes:
        random: crashes at random moments of the recording; with `torn`, at random writes.
        chosen: crashes at chosen moments; see `kind` of a point.
        nodes: of a cluster, over all crashes; None for a single server.
    """

    random: CrashCounts
    chosen: CrashCounts
    nodes: NodeCounts | None


class FailingCrash(msgspec.Struct, frozen=True, kw_only=True):
    """A crash that did not keep everything.

    Attributes:
        arm: name of the configuration.
        crash: the crash.
        line: argument of `--replay`, as `FOLDER:at=N:seed=N`, and for a chosen moment a colon and its kind
            (`recovery` for `in_recovery`); None without `--save-recording`.
        options: further arguments of the command line that judges the same crash (`--failure` …).
    """

    arm: str
    crash: Crash
    line: str | None
    options: tuple[str, ...]


class CrashDocument(CrashFacts, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.crash/1"):
    """The document: `schema`, the facts, and what follows from them.

    Attributes:
        verdict: the worst outcome of a configuration; `unknown` if neither a configuration nor a positive
            control lost anything.
        failing: crashes that did not keep everything, the positive control's left out.
    """

    arms: tuple[CrashArmDocument, ...] = ()
    verdict: CrashOutcome
    failing: tuple[FailingCrash, ...]


def as_json(facts: CrashFacts) -> CrashDocument:
    arms = tuple(
        extended(
            CrashArmDocument,
            arm,
            random=counts(at_random(arm.crashes)),
            chosen=counts(chosen(arm.crashes)),
            nodes=_nodes(arm.crashes),
        )
        for arm in facts.arms
    )
    bad = []
    for arm in facts.arms:
        more = tuple(options(facts)) if arm.folder else ()
        for crash in failing(arm) if not arm.positive_control else ():
            bad.append(FailingCrash(arm=arm.name, crash=crash, line=line(arm, crash), options=more))
    return extended(CrashDocument, facts, arms=arms, verdict=verdict(facts), failing=tuple(bad))


def document(facts: CrashFacts, row: CampaignRow | None = None) -> Document:
    """`row` None: a crash was replayed."""
    headline, goes_on = said(facts), facts.ending == "interrupted"
    resume = resuming("crash", facts.campaign, RemoteAccess()) if goes_on and facts.campaign else ""
    return Document(
        kind="crash",
        headline=headline[0].upper() + headline[1:],
        lead=("It was interrupted: this is what was judged until then.",) if goes_on else (),
        servers=facts.server,
        workload=facts.workload,
        title=f"What is left of {facts.server} after {WHAT[facts.failure]}?",
        keys=tuple(_keys(facts)),
        sections=(
            *sections(facts),
            _settings(facts),
            *warnings_section(facts.warnings),
            *_repeat(row, facts),
        ),
        id=facts.campaign,
        hint=f"resume it with: {resume}" if resume else "",
    )._replace(**(foot(row) if row is not None else {}))


def _keys(facts: CrashFacts) -> Iterator[tuple[str, str]]:
    yield "verdict", verdict(facts).replace("_", " ")
    yield "crashes", f"{sum(len(arm.crashes) for arm in facts.arms if not arm.positive_control):,}"
    if controls := sum(len(arm.crashes) for arm in facts.arms if arm.positive_control):
        yield "of the positive control", f"{controls:,}"
    if facts.fs:
        yield "file system", facts.fs


def sections(facts: CrashFacts) -> Iterator[Section]:
    load = f"{facts.workload} beside {facts.background}" if facts.background else facts.workload
    nodes = _NODES[facts.crashed] if facts.crashed else ""
    disk = f", on a disk like {facts.disk}" if facts.disk else ""
    place = f" on {facts.fs}{disk}" if facts.fs else ""
    names = sorted({crash.machine for arm in facts.arms for crash in arm.crashes if crash.machine})
    machines = f", on {counted(len(names), 'machine')} ({', '.join(names)})" if names else ""
    rows = [row for arm in facts.arms for row in _measured(arm)]
    yield Section(
        "crashes",
        "What crashes left",
        f"{_KEPT if all(arm.checks_rows for arm in facts.arms) else _SOUND} {_BOUND}",
        (f"{load}: {nodes}{WHAT[facts.failure]}{place}{machines}.",),
        tables=(Table(("configuration", "kept", "fail at most", "commits lost"), rows),),
        notes=tuple(_on_controls(facts)),
    )
    head = ("cut", "outcome", "what is wrong")
    if tables := tuple(
        Table(head, [*_failing(facts, arm)], arm.name)
        for arm in facts.arms
        if failing(arm) and not arm.positive_control
    ):
        yield Section(
            "failing",
            "Crashes that did not keep everything",
            f"The worst first, at most {_SHOWN} of each configuration; the JSON has all. If the record was"
            " kept, the command below a crash judges it again.",
            tables=tables,
        )


def _measured(arm: CrashArm) -> Iterator[Row]:
    found, random = counts(arm.crashes), counts(at_random(arm.crashes))
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
    for name, words in _details(arm, found):
        if words:
            yield (Cell(f"{name}: {words}."),)


def _details(arm: CrashArm, found: CrashCounts) -> Iterator[tuple[str, str]]:
    moments = [*_by_moment(arm)]
    yield "Kept", ", ".join(moments) if len(moments) > 1 else ""
    if (lost := found.lost_commits) and (seconds := found.lost_s):
        yield "In the median", f"{lost.p50:,.0f} commits lost, {age(seconds.p50)}"
    yield "It must lose", must_lose(arm, found)
    yield "By machine", by_machine(arm)
    yield "The server", arm.fault.removeprefix("the server ")
    if found.binlog:
        yield "Binary log", binlog_in_words(found.binlog)
    if found.gtid:
        yield "GTIDs", gtid_in_words(found.gtid)
    for what, replica in found.replicas:
        yield what.capitalize(), replica_in_words(replica)
    if nodes := _nodes(arm.crashes):
        ways = (f"{words} {count:,}" for way, words in _WAYS.items() if (count := getattr(nodes, way)))
        yield "The nodes", ", ".join(ways)
        if alone := nodes.alone:
            most = alone.lost_commits
            commits = f"; {most.p50:,.0f} commits in the median, {most.max:,.0f} at most" if most else ""
            yield "Each alone", f"of {counted(alone.looked_at, 'node')}: {_outcomes(alone)}{commits}"
    yield "The model", arm.guarantee
    yield "Floor", arm.floor
    yield "Load", f"{arm.commits_per_s:,.0f} commits/s" if arm.commits_per_s else ""


def _outcomes(found: OutcomeCounts, *but: str) -> str:
    return ", ".join(
        f"{count:,} {name.replace('_', ' ')}"
        for name in OUTCOMES
        if name not in but and (count := getattr(found, name))
    )


def _by_moment(arm: CrashArm) -> Iterator[str]:
    for kind, words in _POINTS.items():
        if crashes := [crash for crash in arm.crashes if crash.point.kind == kind]:
            kept = _kept(crashes)
            yield f"{words} {kept.text}{f' ({kept.small})' if kept.small else ''}"


def _kept(crashes: Sequence[Crash]) -> Cell:
    found = counts(crashes)
    others, is_bad = _outcomes(found, "kept", "sound"), found.lost + found.inconsistent + found.not_started
    kind = "bad" if is_bad else "mute" if others else "good"
    return Cell(f"{found.kept + found.sound:,} of {len(crashes):,}", f"num {kind}", others)


def _on_controls(facts: CrashFacts) -> Iterator[str]:
    if any(arm.positive_control for arm in facts.arms):
        yield "The positive control is an unsafe configuration, crashed to prove that losses are detected."
    elif facts.arms and not any(failing(arm) for arm in facts.arms):
        yield "Nothing was lost and no positive control was run, so nothing proves that losses are detected."


def _failing(facts: CrashFacts, arm: CrashArm) -> Iterator[Row]:
    bad = worst_first(arm)
    for crash in bad[:_SHOWN]:
        wrong = list(crash.reasons)
        if crash.lost:
            wrong.insert(0, f"{crash.lost:,} of {crash.acknowledged:,} commits lost, {age(crash.lost_s)}")
        yield (
            Cell(moment(arm, crash), "", _POINTS[crash.point.kind] if crash.point.kind != "random" else ""),
            Cell(crash.outcome.replace("_", " "), "bad"),
            Cell("; ".join(wrong)),
        )
        if said := line(arm, crash):
            command = shlex.join(["flushlab", "crash", "--replay", said, *options(facts)])
            yield (Cell(command, "code"),)
    if len(bad) > _SHOWN:
        yield (Cell(f"and {len(bad) - _SHOWN:,} more"),)


def _settings(facts: CrashFacts) -> Section:
    names = dict.fromkeys(name for arm in facts.arms for name in arm.settings)
    rows = [
        (Cell(name, "code"), *(Cell(str(arm.settings.get(name, "")), "code") for arm in facts.arms))
        for name in names
    ]
    head = ("setting", *(arm.name for arm in facts.arms))
    return Section("settings", "Configurations", tables=(Table(head, rows),), short=())


def _repeat(row: CampaignRow | None, facts: CrashFacts) -> Iterator[Section]:
    note = "The same recording gives the same crashes; another run makes another recording."
    if row is not None:
        yield from repeat(row, request_of(row), *([] if facts.failure == "process" else [note]))


def verdict(facts: CrashFacts) -> CrashOutcome:
    found = _worst(verdict_of(arm) for arm in facts.arms if not arm.positive_control)
    if found in ("kept", "sound") and not any(failing(arm) for arm in facts.arms if arm.positive_control):
        return "unknown"
    return found


def verdict_of(arm: CrashArm) -> CrashOutcome:
    return _worst(crash.outcome for crash in arm.crashes)


def _worst(outcomes: Iterable[CrashOutcome]) -> CrashOutcome:
    return min(outcomes, key=_WORST.index, default="unknown")


def failing(arm: CrashArm) -> list[Crash]:
    return [crash for crash in arm.crashes if crash.outcome in _FAILED]


def worst_first(arm: CrashArm) -> list[Crash]:
    """Servers that do not start, then inconsistent ones, then those that lost most."""
    return sorted(failing(arm), key=lambda crash: (_FAILED.index(crash.outcome), -crash.lost))


def line(arm: CrashArm, crash: Crash) -> str | None:
    if not arm.folder:
        return None
    kind = {"random": "", "in_recovery": ":recovery"}.get(crash.point.kind, f":{crash.point.kind}")
    return f"{arm.folder}:at={crash.point.at}:seed={crash.point.seed}{kind}"


def options(facts: CrashFacts) -> list[str]:
    found = [] if facts.failure == "power" else ["--failure", facts.failure]
    if facts.tear != 512:
        found += ["--tear", str(facts.tear)]
    if facts.dropped_flushes:
        found += ["--dropped-flushes", str(facts.dropped_flushes)]
    return found


def moment(arm: CrashArm, crash: Crash) -> str:
    """When and where; records of several disks count their own numbers, so of these it is a time."""
    in_recovery = crash.point.kind == "in_recovery"
    if crash.nodes and arm.records:
        when = f"{crash.point.at / 1e9:.3f} s after the first commit"
    elif not crash.point.at:
        when = "a kill in recovery" if in_recovery else "a kill"
    else:
        when = f"record {crash.point.at:,}{', then in recovery' if in_recovery else ''}"
    return f"{when}{f', on {crash.machine}' if crash.machine else ''}"


def _nodes(crashes: Sequence[Crash]) -> NodeCounts | None:
    nodes = [node for crash in crashes for node in crash.nodes]
    if not nodes:
        return None
    ways = Counter(node.way for node in nodes)
    alone = [node.alone for node in nodes if node.alone is not None]
    lost = spread(one.lost for one in alone if one.outcome == "lost")
    return NodeCounts(
        **{way: ways[way] for way in _WAYS},
        alone=AloneCounts(looked_at=len(alone), **tally(alone), lost_commits=lost) if alone else None,
    )


def by_machine(arm: CrashArm) -> str:
    judged = Counter(crash.machine for crash in arm.crashes if crash.outcome != "unknown")
    bad = Counter(crash.machine for crash in failing(arm))
    if not bad or bad.keys() >= judged.keys():
        return ""
    return ", ".join(f"{name}: {bad[name]:,} of {judged[name]:,} not kept" for name in sorted(judged))


def must_lose(arm: CrashArm, found: CrashCounts) -> str:
    relaxed = arm.settings.get("innodb_flush_log_at_trx_commit") in (0, 2)
    unflushed = found.unflushed
    if not (arm.positive_control and relaxed and unflushed and unflushed.crashes):
        return ""
    return (
        f"{unflushed.bad:,} of {counted(unflushed.crashes, 'crash')} cut between an acknowledgement and"
        " the next flush did not keep everything"
    )


def said(facts: CrashFacts) -> str:
    found = verdict(facts)
    arms = [arm for arm in facts.arms if not arm.positive_control]
    if found == "unknown" and arms and all(verdict_of(arm) == "sound" for arm in arms):
        if facts.failure in ("process", "os"):
            return (
                "unknown: the tables are sound, but no setting would break them in this failure, so none was"
                " tried"
            )
        return "unknown: the tables are sound, but nothing proves that damage is detected"
    if found == "unknown" and facts.ending == "interrupted":
        return "unknown: interrupted before the positive control ran"
    if found == "unknown":
        return f"unknown: {_why_unknown(facts)}"
    words = {
        "kept": "kept: the tables have every acknowledged commit" + _but_for_the_binlog(facts),
        "sound": "sound: the server starts and its tables are sound; what it lacks is not known",
        "lost": "lost: acknowledged commits are missing",
        "inconsistent": "inconsistent: the server came back in a state it was never in",
        "not_started": "not started: the server does not start on what was left",
    }
    return words[found] + _but_for_the_replica(arms)


def _why_unknown(facts: CrashFacts) -> str:
    crashes = [crash for arm in facts.arms if not arm.positive_control for crash in arm.crashes]
    if unjudged := sum(crash.outcome == "unknown" for crash in crashes):
        return f"{unjudged:,} of {counted(len(crashes), 'crash')} could not be judged"
    control = next((arm for arm in facts.arms if arm.positive_control), None)
    if control is None:
        why = "no positive control was run"
    elif all(crash.outcome == "unknown" for crash in control.crashes):
        why = "no crash of the positive control could be judged"
    else:
        why = "no positive control lost anything"
    return f"{why}, so nothing proves that losses are detected"


def _but_for_the_binlog(facts: CrashFacts) -> str:
    crashes = [crash for arm in facts.arms if not arm.positive_control for crash in arm.crashes]
    if any(one.binlog and one.binlog.lost for one in crashes):
        return "; the binary log does not"
    return "; the binary log could not be read" if any(one.binlog_unread for one in crashes) else ""


def _but_for_the_replica(arms: Sequence[CrashArm]) -> str:
    found = [crash.replica for arm in arms for crash in arm.crashes if crash.replica]
    lame = sum(one.outcome in ("stopped", "diverged") for one in found)
    return f"; the replica does not follow in {lame:,} of {len(found):,}" if lame else ""
