"""Results of several machines of a fleet: in a sentence, below a row, and as a table. Pure; in `report`.

A ratio in parentheses is not proven on its machine: its interval there includes 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from flushlab.campaign.facts import ArmResult, CampaignFacts
from flushlab.record import MachineRatio, OverMachines
from flushlab.report.words import AA_CONTROL, rounded
from flushlab.units import counted

WIDTH = 80
LEGEND = "In parentheses: no difference was found on that machine."


def who_ran(facts: CampaignFacts) -> str:
    """`4 machines ran the blocks`."""
    did = "confirmed" if facts.tuning is not None else "ran the blocks"
    return f"{counted(sum(one.compared for one in facts.machines), 'machine')} {did}"


def on_slowest(arm: ArmResult) -> str:
    """Behind the ratio of an arm: `; on the slowest machine (db3) 1.48`; empty where one machine ran all."""
    if arm.machines is None:
        return ""
    least = arm.machines.slowest
    return f"; on the slowest machine ({least.machine}) {least.ratio.estimate:.2f}"


def spread_words(over: OverMachines) -> str:
    """Below a row: where the arm gains least, on how many machines it is proven, how far they differ."""
    least, count = over.slowest, counted(len(over.ratios), "machine")
    bounds = f"{least.ratio.estimate:.2f} [{least.ratio.low:.2f}, {least.ratio.high:.2f}]"
    better = f"better on {len(over.better_on)} of {count}"
    worse = f", worse on {len(over.worse_on)}" if over.worse_on else ""
    return f"on the slowest machine ({least.machine}) {bounds}; {better}{worse}; {between(over)}"


def between(over: OverMachines) -> str:
    """`12% of the variance is between machines`."""
    return f"{over.between_share:.0%} of the variance is between machines"


def shown(ratio: MachineRatio | None) -> str:
    """The ratio on a machine, in parentheses where nothing is proven there; empty: the arm did not run."""
    if ratio is None:
        return ""
    text = f"{ratio.ratio.estimate:.2f}"
    return f"({text})" if ratio.ratio.verdict == "no difference found" else text


def rows(facts: CampaignFacts) -> list[tuple[str, OverMachines]]:
    """The arms that several machines ran, and the control at the end."""
    arms = [(arm.name, arm.machines) for arm in facts.arms]
    arms += [(AA_CONTROL, facts.control.machines)] if facts.control is not None else []
    return [(name, over) for name, over in arms if over is not None]


def of_machine(over: OverMachines, machine: str) -> MachineRatio | None:
    """An arm's ratio on a machine; None: it did not run there."""
    return next((one for one in over.ratios if one.machine == machine), None)


def table(facts: CampaignFacts) -> Iterator[RenderableType]:
    """Every arm on every machine, as many machines beside each other as the terminal is wide."""
    found = rows(facts)
    if not found:
        yield Text("ratio on each machine: two machines or more have to run two blocks of an arm")
        return
    names = [one.name for one in facts.machines]
    base = f"{facts.base.name}, {facts.unit}"
    first = min(max(len(base), *(len(name) for name, _ in found)), WIDTH // 2)
    column = 2 + max(7, *map(len, names))
    count = max((WIDTH - first) // column, 1)
    for start in range(0, len(names), count):
        yield from _part(facts, found, names[start : start + count], base, first, column)
        yield ""
    for name, over in found:
        line = Text(f"{name}: {between(over)}", style="yellow" if over.unstable else "dim")
        yield line.append("; its ratio depends on the machine" if over.unstable else "")
    yield Text(LEGEND, style="dim")


def _part(
    facts: CampaignFacts,
    found: Sequence[tuple[str, OverMachines]],
    names: Sequence[str],
    base: str,
    first: int,
    column: int,
) -> Iterator[Text]:
    results = {one.name: rounded(one.result) for one in facts.machines}
    yield Text(f"{'ratio on':<{first}}" + "".join(f"{name:>{column}}" for name in names), style="dim")
    for name, over in found:
        cells = [shown(of_machine(over, machine)) for machine in names]
        yield from _row(name, first, [f"{cell:>{column}}" for cell in cells])
    yield from _row(base, first, [f"{results[name]:>{column}}" for name in names], style="dim")


def _row(name: str, width: int, cells: Sequence[str], style: str = "") -> Iterator[Text]:
    """A name and its ratios; a long name takes a line of its own."""
    if len(name) > width:
        yield Text(name, style=style or "bold")
        name = ""
    yield Text(f"{name:<{width}}", style=style or "bold").append("".join(cells), style=style or "not bold")
