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
    ddl_in_words,
    gtid_in_words,
    measured,
    replica_in_words,
    spread,
    tally,
)
from flushlab.record import CrashArm, CrashCause, CrashFacts, CrashImage, CrashOutcome, CrashPart, NodeWay
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
    "rolling": "on one node after the other, each back before the next, ",
    "cascade": "on one node after the other until none was left ",
}
_TOLD = 5
"""Failing images that are listed."""
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


class FailingImage(msgspec.Struct, frozen=True, kw_only=True):
    """A crash that did not keep everything.

    Attributes:
        arm: name of the configuration.
        image: the crash.
        line: argument of `--replay`, as `FOLDER:at=N:seed=N`, and for a chosen moment a colon and its kind
            (`recovery` for `in_recovery`); None without `--keep`.
        options: further arguments of the command line that judges the same crash (`--fail` …).
    """

    arm: str
    image: CrashImage
    line: str | None
    options: tuple[str, ...]


class CrashDocument(CrashFacts, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.crash/1"):
    """The document: `schema`, the facts, and what follows from them.

    Attributes:
        verdict: the worst outcome of a configuration; `unknown` where nothing was lost and no control lost
            either.
        failing: crashes that did not keep everything, the control's left out.
    """

    arms: tuple[CrashArmDocument, ...] = ()
    verdict: CrashOutcome
    failing: tuple[FailingImage, ...]


def document(facts: CrashFacts) -> CrashDocument:
    """The JSON document."""
    known = {name: getattr(facts, name) for name in facts.__struct_fields__}
    known["arms"] = tuple(
        CrashArmDocument(
            **{name: getattr(arm, name) for name in arm.__struct_fields__},
            random=counts(at_random(arm.images)),
            chosen=counts(chosen(arm.images)),
            nodes=_nodes(arm.images),
        )
        for arm in facts.arms
    )
    bad = [
        FailingImage(
            arm=arm.name,
            image=image,
            line=line(arm, image),
            options=tuple(options(facts)) if arm.folder else (),
        )
        for arm in facts.arms
        if not arm.control
        for image in failing(arm)
    ]
    return CrashDocument(**known, verdict=verdict(facts), failing=tuple(bad))


def verdict(facts: CrashFacts) -> CrashOutcome:
    """The worst that happened to what was asked for; `unknown` if nothing did and no control lost either."""
    found = _worst(verdict_of(arm) for arm in facts.arms if not arm.control)
    if found in ("kept", "sound") and not any(failing(arm) for arm in facts.arms if arm.control):
        return "unknown"
    return found


def verdict_of(arm: CrashArm) -> CrashOutcome:
    """The worst outcome of an arm's images."""
    return _worst(image.outcome for image in arm.images)


def _worst(outcomes: Iterable[CrashOutcome]) -> CrashOutcome:
    return min(outcomes, key=_WORST.index, default=_UNKNOWN)


def failing(arm: CrashArm) -> list[CrashImage]:
    """Images that did not keep everything."""
    return [image for image in arm.images if image.outcome in ("lost", "inconsistent", "not_started")]


def worst_first(arm: CrashArm) -> list[CrashImage]:
    """As `failing`: servers that do not start, then inconsistent ones, then those that lost most."""
    rank = ("not_started", "inconsistent", "lost")
    return sorted(failing(arm), key=lambda image: (rank.index(image.outcome), -image.lost))


def line(arm: CrashArm, image: CrashImage) -> str | None:
    """What `--replay` takes; None where the record was not kept."""
    if not arm.folder:
        return None
    kind = {"random": "", "in_recovery": ":recovery"}.get(image.point.kind, f":{image.point.kind}")
    return f"{arm.folder}:at={image.point.at}:seed={image.point.seed}{kind}"


def options(facts: CrashFacts) -> list[str]:
    """What `--replay` needs beside the line to judge the same crash."""
    found = [] if facts.fail == "power" else ["--fail", facts.fail]
    if facts.tear != 512:
        found += ["--tear", str(facts.tear)]
    if facts.lying_flushes:
        found += ["--lying-flushes", str(facts.lying_flushes)]
    return found


def replay_words(facts: CrashFacts, arm: CrashArm, image: CrashImage) -> str | None:
    """The command that judges an image again; None where its record was not kept."""
    said = line(arm, image)
    return None if said is None else shlex.join(["flushlab", "crash", "--replay", said, *options(facts)])


def moment(arm: CrashArm, image: CrashImage) -> str:
    """When an image crashed, in words: records of several disks count their own numbers, so it is a time."""
    if image.nodes and arm.records:
        return f"{image.point.at / 1e9:.3f} s after the first commit"
    if not image.point.at:
        return "a kill in recovery" if image.point.kind == "in_recovery" else "a kill"
    return f"record {image.point.at:,}{', then in recovery' if image.point.kind == 'in_recovery' else ''}"


def _nodes(images: Sequence[CrashImage]) -> NodeCounts | None:
    nodes = [node for image in images for node in image.nodes]
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
    """What a person reads; fits 80 columns."""
    parts: list[RenderableType] = [
        Text(f"{facts.server}, {load(facts)}: {which(facts)}{WHAT[facts.fail]}{where(facts)}", style="bold"),
        Text(""),
    ]
    for arm in facts.arms:
        parts += [_rows_of(arm), Text("")]
    if sum(not arm.control for arm in facts.arms) > 1:
        parts += [guarantees(facts), Text("")]
    parts.append(Text(f"verdict: {said(facts)}", style="bold"))
    for arm in facts.arms:
        if not arm.control and failing(arm):
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


def load(facts: CrashFacts) -> str:
    """What the server was under, in words."""
    return f"{facts.workload} beside {facts.beside}" if facts.beside else facts.workload


def guarantees(facts: CrashFacts) -> Table:
    """What was measured of each arm, beside what the durability model says of it."""
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    longest = max((len(word) for arm in facts.arms for word in arm.name.split()), default=0)
    table.add_column(f"when {WHAT[facts.fail]}", overflow="fold", width=min(max(longest, _LEAST), _NAMES))
    table.add_column("measured", overflow="fold", ratio=4)
    table.add_column("the model", overflow="fold", ratio=3)
    for arm in facts.arms:
        table.add_row(arm.name, "\n".join(measured(arm)), arm.guarantee)
    return table


def _rows_of(arm: CrashArm) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False, title=arm.name, title_justify="left")
    table.add_column(style="dim", min_width=13)
    table.add_column()
    random, others, found = at_random(arm.images), chosen(arm.images), counts(arm.images)
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
    if arm.fault:
        table.add_row("the server", arm.fault.removeprefix("the server "))
    if found.binlog:
        table.add_row("binary log", binlog_in_words(found.binlog))
    if found.gtid:
        table.add_row("GTIDs", gtid_in_words(found.gtid))
    for what, replica in found.replicas:
        table.add_row(what, replica_in_words(replica))
    if nodes := _nodes(arm.images):
        ways = [f"{words} {n:,}" for way, words in _WAYS.items() if (n := getattr(nodes, way))]
        if ways:
            table.add_row("the nodes", ", ".join(ways))
        if nodes.alone:
            table.add_row("each alone", _alone_in_words(nodes.alone))
    if arm.guarantee:
        table.add_row("the model", arm.guarantee)
    if arm.floor:
        table.add_row("floor", arm.floor)
    if found.ddl:
        table.add_row("DDL", ddl_in_words(found.ddl))
    if arm.commits_per_s:
        table.add_row("load", f"{arm.commits_per_s:,.0f} commits/s")
    return table


def must_lose(arm: CrashArm, found: CrashCounts) -> str:
    """Of a control that answers before it syncs: how many of the crashes that had something to lose were
    noticed; empty for any other arm, or where none had.

    Args:
        arm: the control.
        found: `counts` of its images.
    """
    relaxed = arm.settings.get("innodb_flush_log_at_trx_commit") in (0, 2)
    unflushed = found.unflushed
    if not (arm.control and relaxed and unflushed and unflushed.images):
        return ""
    return (
        f"{unflushed.bad:,} of {counted(unflushed.images, 'image')} cut between an acknowledgement and"
        " the next flush did not keep everything"
    )


def _in_words(images: Sequence[CrashImage]) -> str:
    if not images:
        return "no image"
    seen = counts(images)
    bound = seen.bound_95
    upper = "" if bound is None or bound == 1 else f"; at most {bound:.1%} fail (95 %)"
    return f"{counted(len(images), 'image')}: {_outcomes(seen)}{upper}"


def _alone_in_words(alone: AloneCounts) -> str:
    lost = alone.lost_commits
    most = f"; {lost.p50:,.0f} commits in the median, {lost.max:,.0f} at most" if lost else ""
    return f"of {counted(alone.looked_at, 'node')}: {_outcomes(alone)}{most}"


def _outcomes(found: OutcomeCounts) -> str:
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name in OUTCOMES if (n := getattr(found, name)))


def said(facts: CrashFacts) -> str:
    """The verdict in a sentence."""
    found = verdict(facts)
    arms = [arm for arm in facts.arms if not arm.control]
    if found == "unknown" and arms and all(verdict_of(arm) == "sound" for arm in arms):
        if facts.fail in ("process", "os"):
            return (
                "unknown: the tables are sound, but no setting would break them in this failure, so none was"
                " tried"
            )
        return "unknown: the tables are sound, and nothing shows that damage would have been seen"
    if found == "unknown" and facts.ending == "interrupted":
        return "unknown: it was interrupted before a control could show that loss would have been seen"
    if found == "unknown":
        return f"unknown: {_why_unknown(facts)}"
    words = {
        "kept": "kept: the tables have every acknowledged commit" + _but_for_the_binlog(facts),
        "sound": "sound: the server starts and its tables are sound; what it lacks is not known",
        "lost": f"lost: acknowledged {_lost_what(arms)} are missing",
        "inconsistent": "inconsistent: the server came back in a state it was never in",
        "not_started": "not started: the server does not start on what was left",
    }
    return words[found] + _but_for_the_replica(arms)


def _why_unknown(facts: CrashFacts) -> str:
    images = [image for arm in facts.arms if not arm.control for image in arm.images]
    if unjudged := sum(image.outcome == "unknown" for image in images):
        return f"{unjudged:,} of {counted(len(images), 'image')} could not be judged"
    control = next((arm for arm in facts.arms if arm.control), None)
    if control is None:
        why = "no control was run"
    elif all(image.outcome == "unknown" for image in control.images):
        why = "no image of the control could be judged"
    else:
        why = "no control lost anything"
    return f"{why}, so nothing shows that loss would have been seen"


def cause_in_words(cause: CrashCause) -> list[str]:
    """What makes a crash what it is: a sentence, then its sectors."""
    after = f" (found in {counted(cause.tries, 'image')})"
    if cause.way == "any":
        return [f"it ends this way whatever is kept of the unflushed writes{after}"]
    number = counted(sum(part.length for part in cause.parts) // 512, "sector")
    fate = "kept" if cause.way == "kept" else "lost"
    fewer = "no fewer" if cause.ended == "done" else "perhaps fewer"
    said = f"enough for this: {number} {fate}, out of {cause.sectors:,} unsynced ones {fate} here; {fewer}"
    return [f"{said}{after}", *(f"  {_place(part)}" for part in cause.parts)]


def _place(part: CrashPart) -> str:
    where = f"{part.file} at {part.offset:,}" if part.file else f"the file system's own, at {part.place:,}"
    return f"record {part.record:,}: {part.length:,} bytes of {where}"


def _lost_what(arms: Sequence[CrashArm]) -> str:
    images = [image for arm in arms for image in arm.images]
    if any(image.lost for image in images) or not any(image.ddl and image.ddl.lost for image in images):
        return "commits"
    return "DDL statements"


def _listed(facts: CrashFacts, arm: CrashArm) -> list[RenderableType]:
    found: list[RenderableType] = []
    bad = worst_first(arm)
    for image in bad[:_TOLD]:
        of_commits = image.lost and image.outcome == "lost"
        what = counted(image.lost, "commit") if of_commits else "; ".join(image.reasons)
        found.append(Text(f"  {arm.name}, {moment(arm, image)}: {image.outcome.replace('_', ' ')}: {what}"))
        if replay := replay_words(facts, arm, image):
            found.append(Text(f"    {replay}", style="dim", overflow="ignore", no_wrap=True))
        if image.cause:
            found += [Text(f"    {one}") for one in cause_in_words(image.cause)]
    if len(bad) > _TOLD:
        found.append(Text(f"  and {len(bad) - _TOLD} more", style="dim"))
    return found


def _but_for_the_binlog(facts: CrashFacts) -> str:
    images = [image for arm in facts.arms if not arm.control for image in arm.images]
    if any(one.binlog and one.binlog.lost for one in images):
        return "; the binary log does not"
    return "; the binary log could not be read" if any(one.binlog_unread for one in images) else ""


def _but_for_the_replica(arms: Sequence[CrashArm]) -> str:
    found = [image.replica for arm in arms for image in arm.images if image.replica]
    lame = sum(one.outcome in ("stopped", "diverged") for one in found)
    return f"; the replica does not follow in {lame:,} of {len(found):,}" if lame else ""
