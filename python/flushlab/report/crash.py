"""Crashes for people and as `flushlab.crash/1`. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flushlab.campaign.facts import resuming
from flushlab.crashed.measured import (
    OUTCOMES,
    WHAT,
    CrashCounts,
    OutcomeCounts,
    at_most,
    at_random,
    binlog_in_words,
    chosen,
    counts,
    gtid_in_words,
    measured,
    replica_in_words,
    spread,
    tally,
)
from flushlab.record import Crash, CrashArm, CrashFacts, CrashOutcome, NodeWay
from flushlab.spec.parts import RemoteAccess
from flushlab.units import counted

_WORST: tuple[CrashOutcome, ...] = ("not_started", "inconsistent", "lost", "unknown", "sound", "kept")
"""Worst first."""
_UNKNOWN: CrashOutcome = "unknown"
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
_TOLD = 5
"""Failing crashes that are listed."""
_LEAST, _NAMES = 22, 34
"""How wide the column of names is: most settings stay whole."""


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


def document(facts: CrashFacts) -> CrashDocument:
    """The JSON document."""
    known = {name: getattr(facts, name) for name in facts.__struct_fields__}
    known["arms"] = tuple(
        CrashArmDocument(
            **{name: getattr(arm, name) for name in arm.__struct_fields__},
            random=counts(at_random(arm.crashes)),
            chosen=counts(chosen(arm.crashes)),
            nodes=_nodes(arm.crashes),
        )
        for arm in facts.arms
    )
    bad = [
        FailingCrash(
            arm=arm.name,
            crash=crash,
            line=line(arm, crash),
            options=tuple(options(facts)) if arm.folder else (),
        )
        for arm in facts.arms
        if not arm.positive_control
        for crash in failing(arm)
    ]
    return CrashDocument(**known, verdict=verdict(facts), failing=tuple(bad))


def verdict(facts: CrashFacts) -> CrashOutcome:
    """The worst outcome; `unknown` if neither the configurations nor a positive control lost anything."""
    found = _worst(verdict_of(arm) for arm in facts.arms if not arm.positive_control)
    if found in ("kept", "sound") and not any(failing(arm) for arm in facts.arms if arm.positive_control):
        return "unknown"
    return found


def verdict_of(arm: CrashArm) -> CrashOutcome:
    """The worst outcome of an arm's images."""
    return _worst(crash.outcome for crash in arm.crashes)


def _worst(outcomes: Iterable[CrashOutcome]) -> CrashOutcome:
    return min(outcomes, key=_WORST.index, default=_UNKNOWN)


def failing(arm: CrashArm) -> list[Crash]:
    """Crashes that did not keep everything."""
    return [crash for crash in arm.crashes if crash.outcome in ("lost", "inconsistent", "not_started")]


def worst_first(arm: CrashArm) -> list[Crash]:
    """As `failing`: servers that do not start, then inconsistent ones, then those that lost most."""
    rank = ("not_started", "inconsistent", "lost")
    return sorted(failing(arm), key=lambda crash: (rank.index(crash.outcome), -crash.lost))


def line(arm: CrashArm, crash: Crash) -> str | None:
    """What `--replay` takes; None where the record was not kept."""
    if not arm.folder:
        return None
    kind = {"random": "", "in_recovery": ":recovery"}.get(crash.point.kind, f":{crash.point.kind}")
    return f"{arm.folder}:at={crash.point.at}:seed={crash.point.seed}{kind}"


def options(facts: CrashFacts) -> list[str]:
    """Options that `--replay` needs beside the line to judge the same crash."""
    found = [] if facts.failure == "power" else ["--failure", facts.failure]
    if facts.tear != 512:
        found += ["--tear", str(facts.tear)]
    if facts.dropped_flushes:
        found += ["--dropped-flushes", str(facts.dropped_flushes)]
    return found


def replay_words(facts: CrashFacts, arm: CrashArm, crash: Crash) -> str | None:
    """The command that judges a crash again; None where its record was not kept."""
    said = line(arm, crash)
    return None if said is None else shlex.join(["flushlab", "crash", "--replay", said, *options(facts)])


def moment(arm: CrashArm, crash: Crash) -> str:
    """When a crash crashed, in words, and on which machine of a fleet: records of several disks count their
    own numbers, so it is a time."""
    return f"{_moment(arm, crash)}{f', on {crash.machine}' if crash.machine else ''}"


def _moment(arm: CrashArm, crash: Crash) -> str:
    if crash.nodes and arm.records:
        return f"{crash.point.at / 1e9:.3f} s after the first commit"
    if not crash.point.at:
        return "a kill in recovery" if crash.point.kind == "in_recovery" else "a kill"
    return f"record {crash.point.at:,}{', then in recovery' if crash.point.kind == 'in_recovery' else ''}"


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


def render(facts: CrashFacts) -> RenderableType:
    """Text for the terminal; fits 80 columns."""
    parts: list[RenderableType] = [
        Text(
            f"{facts.server}, {load(facts)}: {which(facts)}{WHAT[facts.failure]}{where(facts)}"
            f"{on_machines(facts)}",
            style="bold",
        ),
        Text(""),
    ]
    for arm in facts.arms:
        parts += [_rows_of(arm), Text("")]
    if sum(not arm.positive_control for arm in facts.arms) > 1:
        parts += [guarantees(facts), Text("")]
    parts.append(Text(f"verdict: {said(facts)}", style="bold"))
    for arm in facts.arms:
        if not arm.positive_control and failing(arm):
            parts += _listed(facts, arm)
    parts += [Text(f"warning: {warning.text}", style="yellow") for warning in facts.warnings]
    if facts.ending == "interrupted":
        parts.append(Text("interrupted: this is what was judged until then", style="yellow"))
        if facts.campaign:
            parts.append(Text(f"resume it with: {resuming('crash', facts.campaign, RemoteAccess())}"))
    return Group(*parts)


def which(facts: CrashFacts) -> str:
    """On which nodes of a cluster, in words; empty for a server alone."""
    return _NODES[facts.crashed] if facts.crashed else ""


def where(facts: CrashFacts) -> str:
    """File system and disk, in words; empty where the process was killed."""
    disk = f", on a disk like {facts.disk}" if facts.disk else ""
    return f" on {facts.fs}{disk}" if facts.fs else ""


def on_machines(facts: CrashFacts) -> str:
    """The machines of a fleet that crashed, in words; empty without one."""
    names = sorted({crash.machine for arm in facts.arms for crash in arm.crashes if crash.machine})
    return f", on {counted(len(names), 'machine')} ({', '.join(names)})" if names else ""


def by_machine(arm: CrashArm) -> str:
    """Crashes of each machine that did not keep everything, in words; empty unless some machines had such
    crashes and others had none."""
    judged = Counter(crash.machine for crash in arm.crashes if crash.outcome != _UNKNOWN)
    bad = Counter(crash.machine for crash in failing(arm))
    if not bad or bad.keys() >= judged.keys():
        return ""
    return ", ".join(f"{name}: {bad[name]:,} of {judged[name]:,} not kept" for name in sorted(judged))


def load(facts: CrashFacts) -> str:
    """The load, in words."""
    return f"{facts.workload} beside {facts.background}" if facts.background else facts.workload


def guarantees(facts: CrashFacts) -> Table:
    """Measured outcomes of each arm beside the prediction of the durability model."""
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    longest = max((len(word) for arm in facts.arms for word in arm.name.split()), default=0)
    table.add_column(f"when {WHAT[facts.failure]}", overflow="fold", width=min(max(longest, _LEAST), _NAMES))
    table.add_column("measured", overflow="fold", ratio=4)
    table.add_column("the model", overflow="fold", ratio=3)
    for arm in facts.arms:
        table.add_row(arm.name, "\n".join(measured(arm)), arm.guarantee)
    return table


def _rows_of(arm: CrashArm) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False, title=arm.name, title_justify="left")
    table.add_column(style="dim", min_width=13)
    table.add_column()
    random, others, found = at_random(arm.crashes), chosen(arm.crashes), counts(arm.crashes)
    if random or not others:
        table.add_row("random", _in_words(random))
    if others:
        table.add_row("chosen", _in_words(others))
    if (lost := found.lost_commits) and (seconds := found.lost_s):
        table.add_row(
            "lost commits",
            f"{lost.p50:,.0f} in the median, {lost.max:,.0f} at most;"
            f" {at_most(seconds.p50)} and {at_most(seconds.max)} old",
        )
    if must := must_lose(arm, found):
        table.add_row("must lose", must)
    if differ := by_machine(arm):
        table.add_row("machines", differ)
    if arm.fault:
        table.add_row("the server", arm.fault.removeprefix("the server "))
    if found.binlog:
        table.add_row("binary log", binlog_in_words(found.binlog))
    if found.gtid:
        table.add_row("GTIDs", gtid_in_words(found.gtid))
    for what, replica in found.replicas:
        table.add_row(what, replica_in_words(replica))
    if nodes := _nodes(arm.crashes):
        ways = [f"{words} {n:,}" for way, words in _WAYS.items() if (n := getattr(nodes, way))]
        if ways:
            table.add_row("the nodes", ", ".join(ways))
        if nodes.alone:
            table.add_row("each alone", _alone_in_words(nodes.alone))
    if arm.guarantee:
        table.add_row("the model", arm.guarantee)
    if arm.floor:
        table.add_row("floor", arm.floor)
    if arm.commits_per_s:
        table.add_row("load", f"{arm.commits_per_s:,.0f} commits/s")
    return table


def must_lose(arm: CrashArm, found: CrashCounts) -> str:
    """Crashes of a positive control with unflushed commits, and how many of them did not keep everything.

    Empty for any other arm, for a positive control that syncs before it answers, and without such crashes.

    Args:
        arm: the positive control.
        found: `counts` of its images.
    """
    relaxed = arm.settings.get("innodb_flush_log_at_trx_commit") in (0, 2)
    unflushed = found.unflushed
    if not (arm.positive_control and relaxed and unflushed and unflushed.crashes):
        return ""
    return (
        f"{unflushed.bad:,} of {counted(unflushed.crashes, 'crash')} cut between an acknowledgement and"
        " the next flush did not keep everything"
    )


def _in_words(crashes: Sequence[Crash]) -> str:
    if not crashes:
        return "no crash"
    seen = counts(crashes)
    bound = seen.bound_95
    upper = "" if bound is None or bound == 1 else f"; at most {bound:.1%} fail (95 %)"
    return f"{counted(len(crashes), 'crash')}: {_outcomes(seen)}{upper}"


def _alone_in_words(alone: AloneCounts) -> str:
    lost = alone.lost_commits
    most = f"; {lost.p50:,.0f} commits in the median, {lost.max:,.0f} at most" if lost else ""
    return f"of {counted(alone.looked_at, 'node')}: {_outcomes(alone)}{most}"


def _outcomes(found: OutcomeCounts) -> str:
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name in OUTCOMES if (n := getattr(found, name)))


def said(facts: CrashFacts) -> str:
    """The verdict, as a sentence."""
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


def _listed(facts: CrashFacts, arm: CrashArm) -> list[RenderableType]:
    found: list[RenderableType] = []
    bad = worst_first(arm)
    for crash in bad[:_TOLD]:
        what = counted(crash.lost, "commit") if crash.outcome == "lost" else "; ".join(crash.reasons)
        found.append(Text(f"  {arm.name}, {moment(arm, crash)}: {crash.outcome.replace('_', ' ')}: {what}"))
        if replay := replay_words(facts, arm, crash):
            found.append(Text(f"    {replay}", style="dim", overflow="ignore", no_wrap=True))
    if len(bad) > _TOLD:
        found.append(Text(f"  and {len(bad) - _TOLD} more", style="dim"))
    return found


def _but_for_the_binlog(facts: CrashFacts) -> str:
    crashes = [crash for arm in facts.arms if not arm.positive_control for crash in arm.crashes]
    if any(one.binlog and one.binlog.lost for one in crashes):
        return "; the binary log does not"
    return "; the binary log could not be read" if any(one.binlog_unread for one in crashes) else ""


def _but_for_the_replica(arms: Sequence[CrashArm]) -> str:
    found = [crash.replica for arm in arms for crash in arm.crashes if crash.replica]
    lame = sum(one.outcome in ("stopped", "diverged") for one in found)
    return f"; the replica does not follow in {lame:,} of {len(found):,}" if lame else ""
