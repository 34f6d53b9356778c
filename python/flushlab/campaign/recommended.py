"""Recommended: what a campaign says to change, for whom, and how far it was proven.

Sits in `campaign`; pure. The sentence on a page and the comments of the option file and of the statements
are all made from one `Recommended`, so none of them can say more than the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import structs

from flushlab.campaign.facts import ArmFacts, SeriesFacts, TuneFacts
from flushlab.errors import UsageError
from flushlab.experiment.objective import Objective, gain_words
from flushlab.plan.plan import BASE, BEST, CONTROL
from flushlab.record import Ratio, ServerIdentity, Value, Warning
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import NO_BINLOG
from flushlab.settings.durability import FLOOR
from flushlab.settings.floor import Floor
from flushlab.units import counted

_FAILURES = {
    "process_crash": "Killed server",
    "os_crash": "Operating system crash",
    "power_loss": "Power loss",
    "torn_page": "Torn page",
    "replication": "Replication",
}


def kept_lines(guarantees: Mapping[str, str]) -> Iterator[str]:
    """A comment for each failure: what is kept.

    Args:
        guarantees: plain words per failure.
    """
    return (f"{words}: {guarantees[name]}." for name, words in _FAILURES.items() if name in guarantees)


class Recommended(msgspec.Struct, frozen=True, kw_only=True):
    """A change of settings for one server.

    Attributes:
        campaign_id: of the campaign.
        command: that ran it.
        server: that was measured, the only one that the change is for.
        workload: in words, with its shape.
        arm: its name.
        base, base_arm: what it was compared with, on the same server: for people, and in its trials.
        settings: to change.
        ratio: of the arm to the base; above 1 is better; None: not measured.
        objective: that the ratio compares.
        blocks: that the ratio rests on.
        floor: that the arm meets.
        base_floor: that the base meets; empty: not known.
        guarantees: plain words per failure.
        not_shown: what the measurement does not show, a sentence each.
        folder: of its files, below that of the campaign; empty: the same, as there is one server.
        has_files: the catalog can spell the settings for this server.
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
    not_shown: tuple[str, ...] = ()
    folder: str = ""
    has_files: bool = True

    @property
    def sentence(self) -> str:
        """`On mysql@8.0.15, A is 1.50× as fast as base [1.41, 1.60], 10 blocks. Floor: second.`; without the
        server where the arm's name begins with it."""
        where = "" if self.arm.startswith(f"{self.server.name} ") else f"On {self.server.name}, "
        before = f" ({self.base}: {self.base_floor})" if self.base_floor not in ("", self.floor) else ""
        kept = self.guarantees.get(FLOOR, self.floor)
        return f"{where}{self.arm} {self._gain}. Floor: {kept}{before}."

    @property
    def _gain(self) -> str:
        if self.ratio is None:
            return f"was not compared with {self.base}"
        verb = "has" if self.objective == "p99" else "is"
        gain = gain_words(self.ratio, self.objective, self.base)
        return f"{verb} {gain}, {counted(self.blocks, 'block')}"

    @property
    def comments(self) -> tuple[str, ...]:
        """Lines for the top of a file: the origin, the measurement, its limits and what a crash costs."""
        return (
            f"flushlab {self.command}, campaign {self.campaign_id}: {self.workload}",
            self.sentence.replace("×", "x"),
            *self.not_shown,
            *kept_lines(self.guarantees),
        )


def of_tune(facts: TuneFacts) -> tuple[Recommended, ...]:
    """The change that a tuning hands over, if any: against the user's own settings where it raises them."""
    chosen = facts.handed_over
    if chosen is None:
        return ()
    one = Recommended(
        campaign_id=facts.campaign_id,
        command="tune",
        server=facts.server,
        workload=facts.workload,
        arm=chosen.arm if chosen.settings else f"your settings raised to {facts.floor}",
        base=BASE,
        settings=facts.changes(chosen),
        ratio=chosen.ratio,
        objective=facts.objective,
        blocks=facts.result.blocks,
        floor=chosen.floor.value,
        base_floor="",
        guarantees=facts.guarantees.get(chosen.arm, {}),
        not_shown=tuple(map(_doubt, facts.warnings)),
    )
    if not facts.raised:
        return (one,)
    yours = "your settings"
    return (structs.replace(one, base=yours, base_floor=facts.yours, ratio=chosen.versus_yours),)


def of_series(facts: SeriesFacts) -> tuple[Recommended, ...]:
    """The change that a series or a comparison recommends for each of its servers, if any."""
    return tuple(_of_servers(facts))


def proven(facts: SeriesFacts, base: ArmFacts, arms: tuple[ArmFacts, ...]) -> list[ArmFacts]:
    """The arms of a server that proved faster at the floor: `best` first, then the fastest. Of those that
    read back the same, only the one with the fewest changes; of those that are as fast, it comes first."""
    faster = {arm.name: arm for arm in arms if is_faster(arm) and not facts.below_floor(arm, base)}
    found = [arm for arm in faster.values() if arm.same_as not in faster]
    return sorted(found, key=lambda arm: (arm.name != BEST, -strength(arm), len(arm.advised)))


def is_faster(arm: ArmFacts) -> bool:
    """Whether it proved faster than its base; what changes nothing is so by chance."""
    return arm.comparison is not None and arm.comparison.verdict == "faster" and not arm.changes_nothing


def strength(arm: ArmFacts) -> float:
    """Its ratio, 0 without one."""
    return arm.comparison.ratio.estimate if arm.comparison is not None else 0.0


def recommendable(facts: SeriesFacts, base: ArmFacts, arms: tuple[ArmFacts, ...]) -> list[ArmFacts]:
    """Those of them that an option file can give."""
    return [arm for arm in proven(facts, base, arms) if arm.advised and not arm.is_place]


def allowed_below(facts: SeriesFacts, base: ArmFacts, arms: tuple[ArmFacts, ...]) -> Iterator[ArmFacts]:
    """What each lower floor would recommend, the safest first, where that is faster than above it."""
    most = max(map(strength, recommendable(facts, base, arms)), default=0.0)
    lower = {Floor(arm.floor) for arm in arms if is_faster(arm) and facts.below_floor(arm, base)}
    for floor in sorted(lower, key=lambda one: one.rank):
        at_floor = structs.replace(facts, floor=floor.value)
        for arm in recommendable(at_floor, base, arms)[:1]:
            if strength(arm) > most:
                most = strength(arm)
                yield arm


def _of_servers(facts: SeriesFacts) -> Iterator[Recommended]:
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
                not_shown=(*_not_shown(arm, base, facts), *([f"No files: {strange}."] if strange else [])),
                folder=folder,
                has_files=not strange,
            )


def folders(facts: SeriesFacts) -> tuple[str, ...]:
    """Folder of the files for each server, below that of the campaign; empty where there is one server."""
    names = [(base.server or facts.server).name for base, _ in facts.by_server]
    if len(names) == 1:
        return ("",)
    seen = [names[:place].count(name) for place, name in enumerate(names)]
    return tuple(f"{name}-{count + 1}" if count else name for name, count in zip(names, seen, strict=True))


def _not_spelled(settings: Mapping[str, Value], server: ServerIdentity) -> str:
    """Why no option file and no statements can be made of settings; empty if they can."""
    catalog = load_catalog()
    try:
        for name, value in settings.items():
            catalog.require(name, server.flavor, server.version).option(value)
    except UsageError as error:
        return error.message
    return ""


def _not_shown(arm: ArmFacts, base: ArmFacts, facts: SeriesFacts) -> Iterator[str]:
    """Limits of the ratio of an arm to its base; a doubt on other arms, or on another ratio, is none."""
    if arm.workload:
        options = ", ".join(f"{name}={value}" for name, value in arm.workload.items())
        yield f"The ratio includes another workload ({options}), which no setting of a server gives."
    if arm.contract:
        yield f"Changes the service itself: {', '.join(arm.contract)}."
    if arm.no_effect:
        yield f"Left out, as it has {NO_BINLOG}: {', '.join(arm.no_effect)}."
    compared = {arm.name, base.name, *arm.composed_of, *(() if base.server else (CONTROL,))}
    for warning in facts.warnings:
        is_ours = not warning.arms or not compared.isdisjoint(warning.arms)
        if is_ours and warning.against in ("", base.name):
            yield _doubt(warning)


def _doubt(warning: Warning) -> str:
    return f"Doubt: {warning.text.removesuffix('.')}."
