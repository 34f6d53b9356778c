"""What the page says of how files were opened."""

from __future__ import annotations

from flushlab.report.page.arms import Activity
from flushlab.report.page.files import _flags


def arm(name: str, **flags: tuple[str, ...]) -> Activity:
    return Activity(arm=name, fsyncs={}, bytes={}, flags=flags)


def test_flags_are_told_where_arms_differ_and_classes_that_agree_share_a_sentence() -> None:
    direct = ("O_DIRECT",)
    rows = [
        arm("base", binlog=direct, redo=("O_DIRECT", "O_DSYNC")),
        arm("buffered", binlog=direct),
        arm("direct", binlog=direct, data=direct, undo=direct),
    ]
    assert list(_flags(rows)) == [
        "redo log: opened with O_DIRECT and O_DSYNC in base only.",
        "data, undo: opened with O_DIRECT in direct only.",
    ]
