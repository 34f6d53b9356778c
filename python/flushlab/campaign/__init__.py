"""Campaign: one run of an experiment: the only loop that asks, runs, saves and tells."""

from flushlab.campaign.loop import Budget, Watcher, run

__all__ = ["Budget", "Watcher", "run"]
