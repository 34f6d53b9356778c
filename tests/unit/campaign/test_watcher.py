"""What a watcher says of the time left."""

from __future__ import annotations

from flushlab.campaign.watcher import Spent, Watcher
from flushlab.experiment.protocol import Progress


def test_time_left_is_never_negative_where_machines_ran_side_by_side() -> None:
    spent = Spent(seconds=2.0, repeated_s=-3.0, trials=6)  # what ran side by side is subtracted
    assert Watcher().left_s(Progress(stage="arms", done=6, total=10), spent, 6) == 0.0


def test_what_is_left_of_several_groups_is_divided_by_the_machines() -> None:
    watcher, spent = Watcher(), Spent(seconds=9.0, repeated_s=9.0, trials=3)
    progress = Progress(stage="arms", done=3, total=9, left_s=60.0)
    assert watcher.left_s(progress, spent, 3) == 60.0
    watcher.spreads(4)
    assert watcher.left_s(progress, spent, 3) == 15.0
