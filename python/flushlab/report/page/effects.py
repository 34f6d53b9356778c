"""Section: what the factors of a factorial do, each by itself and together. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.experiment.objective import verdict_words
from flushlab.report import plots
from flushlab.report.page.parts import Cell, Section, Subject, Table
from flushlab.report.tables import effect_words, no_effects
from flushlab.report.words import interval, times

_KINDS: dict[str, plots.Verdict] = {
    "faster": "good",
    "more together": "good",
    "slower": "bad",
    "less together": "bad",
}

_EFFECTS = {
    "throughput": "how many times as fast it makes the server",
    "p99": "how many times lower it makes p99 latency",
}


def section(subject: Subject) -> Iterator[Section]:
    """Main effects and interactions."""
    facts = subject.facts
    plan = facts.plan if facts is not None else None
    if facts is None or plan is None or not plan.factors:
        return
    if not plan.effects:
        yield Section("effects", "Effects of the factors", f"{no_effects(facts, plan).capitalize()}.")
        return
    rows = tuple(
        (
            Cell(effect.name, "name", effect_words(effect, plan.factors)),
            Cell(times(effect.ratio.estimate), "num"),
            Cell(interval(effect.ratio), "num"),
            Cell(verdict_words(effect.verdict, facts.objective), _KINDS.get(effect.verdict, "mute")),
        )
        for effect in plan.effects
    )
    plot = plots.forest(
        [
            plots.Row(
                effect.name,
                effect.ratio,
                _KINDS.get(effect.verdict, "mute"),
                times(effect.ratio.estimate),
            )
            for effect in plan.effects
        ],
        name="effects",
        title="Effect of each factor and of factors together; the table gives the same figures",
    )
    head = (Cell("factor"), Cell("ratio", "num"), Cell("interval", "num"), Cell("verdict"))
    lead = (
        f"Every combination of {' and '.join(plan.factors)} was measured in the same "
        f"{plan.effects[0].blocks} blocks. A factor's effect is {_EFFECTS[facts.objective]}, "
        "over all combinations of the others alike. All intervals of this table hold together."
    )
    yield Section("effects", "Effects of the factors", lead, (plot,), tables=(Table(head, rows),))
