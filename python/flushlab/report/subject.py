"""Subject: the campaign that sections are made from: its facts, and its trials by arm. Pure values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import best_arms
from flushlab.campaign.request import SeriesRequest
from flushlab.record import BASE, CONTROL, ServerIdentity, Trial, Value
from flushlab.report.stored import Request
from flushlab.report.words import base_name
from flushlab.store import CampaignRow

MAX_PANELS = 8
"""Most arms that one section shows in plots."""


class OnServer(NamedTuple):
    """A server that was measured.

    Attributes:
        base: its base, as trials have it.
        name: what people call its base.
        given: settings of the base.
        chosen: the arm to show beside the base, or None.
    """

    server: ServerIdentity
    base: str = BASE
    name: str = BASE
    given: Mapping[str, Value] = {}
    chosen: str | None = None


class Subject(NamedTuple):
    """A campaign.

    Attributes:
        row, request: as stored; None: not stored.
        facts: None: nothing is proven.
        trials: all of them.
        arms: those that count, by arm.
    """

    row: CampaignRow | None
    request: Request | None
    facts: CampaignFacts | None
    trials: Sequence[Trial]
    arms: Mapping[str, list[Trial]]

    def named(self, arm: str) -> str:
        base = self.request.base_name if isinstance(self.request, SeriesRequest) else BASE
        return base if arm == BASE else arm

    @property
    def servers(self) -> tuple[OnServer, ...]:
        facts = self.facts
        if facts is None:
            server = next((trial.server for trial in reversed(self.trials) if trial.server is not None), None)
            return (OnServer(server),) if server is not None else ()
        return tuple(
            OnServer(
                base.server or facts.server,
                base=base.name if base.server else BASE,
                name=base.name if base.server else base_name(facts),
                given={**facts.base.settings, **base.settings},
                chosen=best.name if best is not None else None,
            )
            for (base, _), best in zip(facts.by_server, best_arms(facts), strict=True)
        )

    @property
    def unit(self) -> str:
        if self.facts is not None:
            return self.facts.unit
        return next((trial.unit for trial in reversed(self.trials) if trial.result is not None), "")

    @property
    def units(self) -> str:
        """The unit, with those of arms that count other work: `transactions/s (new: rows/s)`."""
        arms = self.facts.arms if self.facts is not None else ()
        others = [f"{arm.name}: {arm.unit}" for arm in arms if arm.unit not in ("", self.unit)]
        unit = self.unit or "events/s"
        return f"{unit} ({', '.join(others)})" if others else unit

    @property
    def shown_arms(self) -> list[str]:
        """The base, the arms of the answer, then what was compared, the largest effects first; all that ran
        as long as nothing was."""
        facts, ran = self.facts, [arm for arm in self.arms if arm != CONTROL]
        if facts is not None:
            ran = list(_compared(facts)) or ran
        return [arm for arm in dict.fromkeys((BASE, *ran)) if arm in self.arms]


def _compared(facts: CampaignFacts) -> Iterator[str]:
    yours = facts.tuning.yours if facts.tuning is not None else None
    compared = [arm for arm in (*facts.arms, *filter(None, (yours,))) if arm.comparison is not None]
    by_effect = sorted(compared, key=lambda arm: max(arm.strength, 1 / arm.strength), reverse=True)
    yield from (arm.name for arm in (*filter(None, best_arms(facts)[:1]), *by_effect))
