"""Section: what a command printed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.record import Trial
from flushlab.report.page.parts import Section, Subject, shown_arms

MAX_RUNS = 12
"""Most runs whose output is on the page; the store has all of them."""


def section(subject: Subject) -> Iterator[Section]:
    """The runs that failed, then the last one of each arm shown."""
    failed = [trial for trial in subject.trials if trial.outcome == "failed" and trial.output]
    last = [subject.arms[arm][-1] for arm in shown_arms(subject) if subject.arms[arm][-1].output]
    runs = [*failed, *last][:MAX_RUNS]
    if not runs:
        return
    lead = "Of each run, the first 4 KiB and the last 12 KiB of what it printed are kept: here those of "
    lead += "runs that failed, and of the last run of each arm."
    yield Section(
        "output", "Output of the command", lead, code=tuple((_title(run), run.output) for run in runs)
    )


def _title(trial: Trial) -> str:
    how = "failed" if trial.figure is None else f"{trial.figure:,.2f} {trial.unit}"
    return f"{trial.arm.name}, {trial.stage} {trial.block}: {how}"
