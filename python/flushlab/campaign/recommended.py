"""Recommended: what a campaign says to change, for whom, and how far it was proven.

Sits in `campaign`; pure. One `Recommended` is the source of the sentence on a page and of the comments in the
option file and the statements. So none of them can claim more than the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import structs

from flushlab.campaign.facts import ArmResult, CampaignFacts, TuningFacts
from flushlab.errors import UsageError
from flushlab.experiment.protocol import Objective, gain_words
from flushlab.experiment.tune_plan import FrontierPoint, best_at, offers_below
from flushlab.record import BASE, BEST, CONTROL, Ratio, ServerIdentity, Value, Warning
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import LOST_AT_RESTART, NO_BINLOG
from flushlab.settings.durability import FLOOR
from flushlab.settings.floor import Floor, aims
from flushlab.spec.parts import as_told
from flushlab.units import counted

FAILURES = {
    "process_crash": "mysqld is killed",
    "os_crash": "the operating system crashes",
    "power_loss": "the power fails",
    "torn_page": "a page is torn",
}
"""The four failures in words, by their names in guarantees."""
_OTHERS = {"binlog": "binary log", "replication": "replicas", "cluster_loss": "Galera"}
_KEPT = (
    *("nothing is lost", "covered", "no binary log", "replicas stay consistent"),
    *("commits are synced on each node", "no other node has the data"),
)
"""Beginnings of guarantees without a loss."""
IF_LOST = {
    Floor.SECOND: "about a second of commits",
    Floor.RELAXED: "about a second of commits, also when mysqld is killed",
    Floor.THROWAWAY: "all data",
}
"""The loss that each floor below `strict` allows."""


def kept_lines(guarantees: Mapping[str, str]) -> Iterator[str]:
    names = {name: f"If {words}" for name, words in FAILURES.items()} | {"replication": "Replicas"}
    return (f"{words}: {guarantees[name]}." for name, words in names.items() if name in guarantees)


def costs(own: Mapping[str, str], before: Mapping[str, str]) -> tuple[str, ...]:
    """The guarantees that a change weakens: `if the power fails: about 1 s of … may be lost`."""
    weaker = {
        name: text for name, text in own.items() if text != before.get(name) and not text.startswith(_KEPT)
    }
    found: dict[str, list[str]] = {}
    for name, words in FAILURES.items():
        if name in weaker:
            found.setdefault(weaker[name], []).append(words)
    lines = [f"if {' or '.join(words)}: {text}" for text, words in found.items()]
    return (*lines, *(f"{words}: {weaker[name]}" for name, words in _OTHERS.items() if name in weaker))


def cost_lines(costs: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"Costs: {line}." for line in costs)


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do on the real server.

    Attributes:
        what: a sentence.
        commands: for a shell there, in the folder with the files.
    """

    what: str
    commands: tuple[str, ...] = ()


class Recommended(msgspec.Struct, frozen=True, kw_only=True):
    """A change of settings for one server.

    Attributes:
        campaign_id: the campaign.
        command: the command that ran it.
        server: the server that was measured, the only one that the change is for.
        workload: the workload in words, with its size.
        arm: name of the arm.
        base: what the arm was compared with, on the same server.
        base_arm: name of the base in stored trials.
        settings: the settings to change.
        ratio: of the arm to the base; above 1 is better; None: not measured.
        objective: what the ratio compares.
        blocks: number of blocks behind the ratio.
        floor: the safest floor that the arm meets.
        base_floor: the safest floor that the base meets; empty: not known.
        guarantees: plain words per failure.
        costs: the guarantees that are weaker than the base's; empty: no durability loss.
        not_shown: limits of the measurement, a sentence each.
        folder: folder of the files, below that of the campaign; empty: the same, as there is one server.
        has_files: an option file and statements can be made of the settings.
        next_steps: what to do on the real server.
        offer: the settings are below the floor of the campaign; their files are made only when asked for.
    """

    campaign_id: str
    command: str
    server: ServerIdentity
    workload: str
    arm: str
    base: str
    base_arm: str = BASE
    settings: Mapping[str, Value]
    ratio: Ratio | None
    objective: Objective = "throughput"
    blocks: int
    floor: str
    base_floor: str
    guarantees: Mapping[str, str] = {}
    costs: tuple[str, ...] = ()
    not_shown: tuple[str, ...] = ()
    folder: str = ""
    has_files: bool = True
    next_steps: tuple[NextStep, ...] = ()
    offer: bool = False

    @property
    def sentence(self) -> str:
        """`On mysql@8.0.15, A is 1.50× as fast as base [1.41, 1.60], 10 blocks. Floor: second.`; without the
        server where the arm's name begins with it."""
        where = "" if self.arm.startswith(f"{self.server.name} ") else f"On {self.server.name}, "
        before = f" ({self.base}: {self.base_floor})" if self.base_floor not in ("", self.floor) else ""
        kept, gain = self.guarantees.get(FLOOR, self.floor), f"was not compared with {self.base}"
        if self.ratio is not None:
            verb = "is" if self.objective == "throughput" else "has"
            words = gain_words(self.ratio, self.objective, self.base)
            gain = f"{verb} {words}, {counted(self.blocks, 'block')}"
        return f"{where}{self.arm} {gain}. Floor: {kept}{before}."

    @property
    def comments(self) -> tuple[str, ...]:
        return (
            f"flushlab {self.command}, campaign {self.campaign_id}: {self.workload}",
            self.sentence.replace("×", "x"),
            *cost_lines(self.costs),
            *self.not_shown,
            *kept_lines(self.guarantees),
        )


def recommended(facts: CampaignFacts) -> tuple[Recommended, ...]:
    if (tuning := facts.tuning) is not None:
        chosen = facts.handed_over
        found = iter([_of_point(facts, tuning, chosen)] if chosen is not None else [])
    else:
        found = _of_servers(facts)
    return tuple(structs.replace(one, next_steps=_next_steps(one, facts.load_command)) for one in found)


def offered(facts: CampaignFacts) -> tuple[Recommended, ...]:
    tuning = facts.tuning
    found = [_of_point(facts, tuning, point) for point in tuning.offers] if tuning is not None else []
    return tuple(structs.replace(one, offer=True, next_steps=_to_files(one)) for one in found)


def at_floor(facts: CampaignFacts, floor: Floor) -> CampaignFacts:
    tuning = facts.tuning
    if tuning is None:
        raise UsageError(f"--floor chooses among the floors of a tuning; {facts.campaign_id} is none")
    if not floor.at_least(Floor(tuning.lowest)):
        raise UsageError(
            f"{facts.campaign_id} tried candidates {aims(facts.floor, tuning.lowest)}, none at floor {floor}",
            hint=f"tune again with --floor {floor}, or --offer {floor}",
        )
    if tuning.raised and not Floor(facts.raised_to).at_least(floor):
        raise UsageError(
            f"{facts.campaign_id} raised your settings to the floor {facts.raised_to} only",
            hint=f"tune again with --floor {floor}",
        )
    winner, offers = best_at(tuning.frontier, floor), offers_below(tuning.frontier, floor)
    raised_to = facts.raised_to if tuning.raised else ""
    tuning = structs.replace(tuning, winner=winner, offers=offers, raised_to=raised_to)
    return structs.replace(facts, floor=floor.value, tuning=tuning)


def _of_point(facts: CampaignFacts, tuning: TuningFacts, chosen: FrontierPoint) -> Recommended:
    raised = bool(tuning.raised)
    own = facts.arm(chosen.arm).guarantees
    return Recommended(
        campaign_id=facts.campaign_id,
        command=facts.kind,
        server=facts.server,
        workload=facts.workload,
        arm=chosen.arm if chosen.settings else f"your settings raised to {facts.raised_to}",
        base="your settings" if raised else BASE,
        settings=tuning.changes(chosen),
        ratio=chosen.versus_yours if raised else chosen.ratio,
        objective=facts.objective,
        blocks=chosen.comparison.blocks if chosen.comparison is not None else facts.blocks,
        floor=chosen.floor.value,
        base_floor=tuning.yours.floor if raised and tuning.yours else "",
        guarantees=own,
        costs=costs(own, facts.base.guarantees),
        not_shown=tuple(map(_caveat, facts.warnings)),
    )


def best_arms(facts: CampaignFacts) -> tuple[ArmResult | None, ...]:
    if facts.tuning is not None:
        winner = facts.tuning.winner
        return (facts.arm(winner.arm) if winner else None,)
    best_of = recommendable if facts.kind == "compare" else proven
    return tuple(next(iter(best_of(facts, base, arms)), None) for base, arms in facts.by_server)


def proven(facts: CampaignFacts, base: ArmResult, arms: tuple[ArmResult, ...]) -> list[ArmResult]:
    """The arms of a server that proved faster at the floor: `best` first, then the fastest. Of those that
    read back the same, only the one with the fewest changes; of those that are as fast, it comes first."""
    faster = {arm.name: arm for arm in arms if arm.is_faster and not facts.below_floor(arm, base)}
    found = [arm for arm in faster.values() if arm.same_as not in faster]
    return sorted(found, key=lambda arm: (arm.name != BEST, -arm.strength, len(arm.advised)))


def recommendable(facts: CampaignFacts, base: ArmResult, arms: tuple[ArmResult, ...]) -> list[ArmResult]:
    return [arm for arm in proven(facts, base, arms) if arm.advised and not arm.is_place]


def by_workload(facts: CampaignFacts, base: ArmResult, arms: tuple[ArmResult, ...]) -> list[ArmResult]:
    return [arm for arm in proven(facts, base, arms) if arm.workload_changes and not arm.advised]


def allowed_below(facts: CampaignFacts, base: ArmResult, arms: tuple[ArmResult, ...]) -> Iterator[ArmResult]:
    most = max((arm.strength for arm in recommendable(facts, base, arms)), default=0.0)
    lower = {Floor(arm.floor) for arm in arms if arm.is_faster and facts.below_floor(arm, base)}
    for floor in sorted(lower, key=lambda one: one.rank):
        at_floor = structs.replace(facts, floor=floor.value)
        for arm in recommendable(at_floor, base, arms)[:1]:
            if arm.strength > most:
                most = arm.strength
                yield arm


def _of_servers(facts: CampaignFacts) -> Iterator[Recommended]:
    for (base, arms), folder in zip(facts.by_server, folders(facts), strict=True):
        for arm in recommendable(facts, base, arms)[:1]:
            assert arm.comparison is not None, "it proved faster"
            server = base.server or facts.server
            strange = _not_spelled(arm.advised, server)
            yield Recommended(
                campaign_id=facts.campaign_id,
                command=facts.kind,
                server=server,
                workload=facts.workload,
                arm=arm.name,
                base=base.name,
                base_arm=base.name if base.server else BASE,
                settings=arm.advised,
                ratio=arm.comparison.ratio,
                objective=facts.objective,
                blocks=arm.comparison.blocks,
                floor=arm.floor,
                base_floor=base.floor,
                guarantees=arm.guarantees,
                costs=costs(arm.guarantees, base.guarantees),
                not_shown=(*_not_shown(arm, base, facts), *([f"No files: {strange}."] if strange else [])),
                folder=folder,
                has_files=not strange,
            )


def _next_steps(one: Recommended, load_command: str) -> tuple[NextStep, ...]:
    if not one.has_files:
        return ()
    checked = f"flushlab settings --check my.cnf --server {one.server.name} --floor {one.floor}"
    look = ["mysql --table < verify.sql"]
    if load_command:
        look.append(f"time {load_command}")
    persisted = one.server.persists  # settings.sql prints what is persisted and about to be overwritten
    change = "Add my.cnf to its option file and restart it, or set what needs no restart:"
    if not persisted:
        change = (
            "Add my.cnf to its option file and restart it. Or add it, and set what needs no restart now"
            f" ({LOST_AT_RESTART}):"
        )
    return (
        NextStep(what="See what the lines guarantee on your version:", commands=(checked,)),
        NextStep(what="Under your usual load, note what the server does:", commands=tuple(look)),
        NextStep(
            what=change,
            commands=("mysql -N < settings.sql >> persisted.sql" if persisted else "mysql < settings.sql",),
        ),
        NextStep(what="At the same time of day, do step 2 again and compare."),
        NextStep(
            what="To undo it, put rollback.cnf in place of my.cnf and restart, or:",
            commands=("cat rollback.sql persisted.sql | mysql" if persisted else "mysql < rollback.sql",),
        ),
    )


def _to_files(one: Recommended) -> tuple[NextStep, ...]:
    if not one.settings:
        return (NextStep(what="Your settings as they are meet this floor: keep them."),)
    command = f"flushlab report {one.campaign_id} --floor {one.floor} --out {one.floor}"
    return (
        NextStep(what="Write its option file and statements, without measuring again:", commands=(command,)),
    )


def folders(facts: CampaignFacts) -> tuple[str, ...]:
    names = [(base.server or facts.server).name for base, _ in facts.by_server]
    if len(names) == 1:
        return ("",)
    seen = [names[:place].count(name) for place, name in enumerate(names)]
    return tuple(f"{name}-{count + 1}" if count else name for name, count in zip(names, seen, strict=True))


def _not_spelled(settings: Mapping[str, Value], server: ServerIdentity) -> str:
    catalog = load_catalog()
    try:
        for name, value in settings.items():
            catalog.require(name, server.flavor, server.version).option(value)
    except UsageError as error:
        return error.message
    return ""


def _not_shown(arm: ArmResult, base: ArmResult, facts: CampaignFacts) -> Iterator[str]:
    if arm.workload_changes:
        options = ", ".join(f"{name}={value}" for name, value in as_told(arm.workload_changes).items())
        yield f"The ratio includes another workload ({options}), which no setting of a server gives."
    if arm.fixed:
        yield f"Changes the service itself: {', '.join(arm.fixed)}."
    if arm.no_effect:
        yield f"Left out, as it has {NO_BINLOG}: {', '.join(arm.no_effect)}."
    compared = {arm.name, base.name, *arm.composed_of, *(() if base.server else (CONTROL,))}
    for warning in facts.warnings:
        is_ours = not warning.arms or not compared.isdisjoint(warning.arms)
        if is_ours and warning.against in ("", base.name):
            yield _caveat(warning)


def _caveat(warning: Warning) -> str:
    return f"Caveat: {warning.text.removesuffix('.')}."
