"""Campaign: one run of an experiment: the only loop that asks, runs, saves and tells."""

from flushlab.campaign.loop import Budget, run
from flushlab.campaign.watcher import Watcher
