"""The loop: ask, run, save, tell; until the experiment is done, the budget is spent or Ctrl-C.

A record is saved before it is told, and stored records are told before the first question, so that a
campaign that was killed goes on where it was; kill -9 costs at most the trial that ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeVar

import msgspec

from flushlab.campaign.watcher import Spent, Watcher
from flushlab.experiment.protocol import Progress, Request
from flushlab.process.running import live_status
from flushlab.record import Crash, Ratio, Trial
from flushlab.store import Store

Ending = Literal["done", "budget spent", "interrupted", "dry run"]
Row = TypeVar("Row", Trial, Crash)
"""What a campaign stores of each request."""
_Row = TypeVar("_Row", Trial, Crash, contravariant=True)


class Asking(Protocol[_Row]):
    """An experiment whose requests come to rows of a kind; see `experiment.protocol.Experiment`."""

    def ask(self) -> Request | None:
        """The request that is due; None when the experiment is done."""
        ...

    def tell(self, row: _Row, /) -> None:
        """Takes what came of it, or a stored row."""
        ...

    @property
    def progress(self) -> Progress:
        """Where it stands."""
        ...


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
    experiment: Asking[Row],
    run_trial: Callable[[Request], Row],
    *,
    known: Callable[[str], Iterable[Row]],
    store: Store,
    campaign_id: str,
    budget: Budget,
    watcher: Watcher,
    began: float | None = None,
) -> Ending:
    """Runs a campaign, from its beginning or from where it was.

    Args:
        experiment: fresh; stored rows are told to it first.
        run_trial: runs one request.
        known: rows of earlier sessions, by the campaign's id.
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
    told = live_status()
    told.names(watcher.called)
    since, gap = time.monotonic() if began is None else began, "before"
    try:
        for row in known(campaign_id):
            experiment.tell(row)
            watcher.known(row)
            spent = spent.and_of(row)
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
            row = run_trial(request)
            now = time.monotonic()
            row = _with_gap(row, gap, now - since)
            since, gap = now, "between"
            store.save(campaign_id, row)
            spent = spent.and_of(row)
            _say(row, experiment.progress, spent, watcher)
            experiment.tell(row)
            if isinstance(row, Trial) and row.outcome == "measured" and row.figure is not None:
                told.figure(row.arm.name, row.figure)
            progress = experiment.progress
            told.ratios(_shown(progress), progress.objective, early=progress.stage is not None)
    except KeyboardInterrupt:
        return "interrupted"
    return "done"


def _say(row: Trial | Crash, progress: Progress, spent: Spent, watcher: Watcher) -> None:
    if isinstance(row, Crash):
        watcher.crashed(row, progress, spent)
        return
    watcher.ended(row, progress, spent)
    watcher.look_around(row)


def _shown(progress: Progress) -> dict[str, Ratio]:
    """Ratios that looks have proven; where only the best one is, that."""
    if progress.best is not None and not progress.found:
        return {"best so far": progress.best}
    return {arm: one.ratio for arm, one in progress.found.items()}


def _with_gap(row: Row, name: str, seconds: float) -> Row:
    """The row, with what passed besides it in the seconds since the last one ended."""
    gap = max(0.0, seconds - row.spent_s)
    return msgspec.structs.replace(row, seconds={**row.seconds, name: gap})
