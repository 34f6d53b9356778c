"""The loop: ask, run, save, tell; until the experiment is done, the budget is spent or Ctrl-C.

A record is saved before it is told, and stored records are told before the first question, so that a
campaign that was killed goes on where it was; kill -9 costs at most the trial that ran.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from flushlab.campaign.watcher import Watcher
from flushlab.experiment.protocol import Experiment, Request
from flushlab.record import Trial
from flushlab.store import Store

Ending = Literal["done", "budget spent", "interrupted"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign may spend, over all its sessions.

    Attributes:
        seconds: of trials, or None.
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
) -> Ending:
    """Runs a campaign, from its beginning or from where it was.

    Args:
        experiment: fresh; stored trials are told to it first.
        run_trial: runs one trial.
        store: has the campaign.
        campaign_id: of the campaign.
        budget: over all sessions of the campaign.
        watcher: told what happens.

    Returns:
        Why it ended; what is proven is in the experiment.

    Raises:
        FlushlabError: what `run_trial` could not put into a record; the campaign may be resumed.
    """
    seconds, trials = 0.0, 0
    try:
        for trial in store.trials(campaign_id):
            experiment.tell(trial)
            seconds, trials = seconds + sum(trial.seconds.values()), trials + 1
        while (request := experiment.ask()) is not None:
            if budget.is_spent(seconds, trials):
                return "budget spent"
            watcher.starting(request, experiment.progress, seconds)
            trial = run_trial(request)
            store.save(campaign_id, trial)
            watcher.ended(trial, experiment.progress)
            experiment.tell(trial)
            seconds, trials = seconds + sum(trial.seconds.values()), trials + 1
    except KeyboardInterrupt:
        return "interrupted"
    return "done"
