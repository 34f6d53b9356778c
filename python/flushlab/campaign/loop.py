"""The loop: ask, run, save, tell; until the experiment is done, the budget is spent or Ctrl-C.

A record is saved before it is told, and stored records are told before the first question, so that a
campaign that was killed goes on where it was; kill -9 costs at most the trial that ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from flushlab.campaign.watcher import Spent, Watcher
from flushlab.experiment.protocol import Experiment, Progress, Request
from flushlab.process.running import board
from flushlab.record import Ratio, Trial
from flushlab.store import Store

Ending = Literal["done", "budget spent", "interrupted", "dry run"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign may spend, over all its sessions.

    Attributes:
        seconds: from the beginning of the command to the last trial, or None.
        trials: number of trials, or None.
    """

    seconds: float | None = None
    trials: int | None = None

    def is_spent(self, seconds: float, trials: int) -> bool:
        """Whether so much is as much as there was."""
        return (self.seconds is not None and seconds >= self.seconds) or (
            self.trials is not None and trials >= self.trials
        )


def run(
    experiment: Experiment,
    run_trial: Callable[[Request], Trial],
    *,
    store: Store,
    campaign_id: str,
    budget: Budget,
    watcher: Watcher,
    began: float | None = None,
) -> Ending:
    """Runs a campaign, from its beginning or from where it was.

    Args:
        experiment: fresh; stored trials are told to it first.
        run_trial: runs one trial.
        store: has the campaign.
        campaign_id: of the campaign.
        budget: over all sessions of the campaign.
        watcher: told what happens.
        began: when the command did, on the monotonic clock; now if None. What passed until the first trial is
            time of the campaign too.

    Returns:
        Why it ended; what is proven is in the experiment.

    Raises:
        FlushlabError: what `run_trial` could not put into a record; the campaign may be resumed.
    """
    spent = Spent()
    told = board()
    told.names(watcher.called)
    since, gap = time.monotonic() if began is None else began, "before"
    try:
        for trial in store.trials(campaign_id):
            experiment.tell(trial)
            spent = spent.and_of(trial)
        while (request := experiment.ask()) is not None:
            if budget.is_spent(spent.seconds, spent.trials):
                return "budget spent"
            progress, so_far = experiment.progress, spent.until_now(since)
            watcher.starting(request, progress, so_far)
            told.trial(
                stage=request.stage,
                block=request.block + 1,
                arm=request.arm.name,
                left_s=watcher.left_s(progress, so_far, progress.done),
            )
            trial = run_trial(request)
            now = time.monotonic()
            trial = _with_gap(trial, gap, now - since)
            since, gap = now, "between"
            store.save(campaign_id, trial)
            spent = spent.and_of(trial)
            watcher.ended(trial, experiment.progress, spent)
            watcher.look_around(trial)
            experiment.tell(trial)
            if trial.outcome == "measured" and trial.figure is not None:
                told.figure(trial.arm.name, trial.figure)
            progress = experiment.progress
            told.ratios(_shown(progress), progress.objective, early=progress.stage is not None)
    except KeyboardInterrupt:
        return "interrupted"
    return "done"


def _shown(progress: Progress) -> dict[str, Ratio]:
    """Ratios that looks have proven; where only the best one is, that."""
    if progress.best is not None and not progress.found:
        return {"best so far": progress.best}
    return {arm: one.ratio for arm, one in progress.found.items()}


def _with_gap(trial: Trial, name: str, seconds: float) -> Trial:
    """The trial, with what passed besides it in the seconds since the last one ended."""
    gap = max(0.0, seconds - trial.spent_s)
    return msgspec.structs.replace(trial, seconds={**trial.seconds, name: gap})
