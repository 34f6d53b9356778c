"""What the page says of how files were opened."""

from __future__ import annotations

from flushlab.report.arms import Activity
from flushlab.report.measured import _QUANTITIES, _classes, _flags, _unseen

FSYNCS, BYTES = _QUANTITIES
OFF = "performance_schema is OFF: start the server with performance_schema=ON"


def arm(name: str, **flags: tuple[str, ...]) -> Activity:
    return Activity(arm=name, classes=tuple(flags), fsyncs={}, bytes={}, flags=flags)


def own_server(name: str, **fsyncs: float) -> Activity:
    classes, written = ("redo", "binlog", "data"), {"redo": 512.0, "binlog": 700.0, "data": 0.0}
    return Activity(arm=name, classes=classes, fsyncs=fsyncs, bytes=written, flags={}, why=OFF)


def test_a_class_that_a_server_does_not_show_has_a_column_and_the_reason_below_it() -> None:
    rows = [own_server("base", redo=1.0, data=0.0), own_server("again", redo=1.0, data=0.0)]
    table = _classes(FSYNCS, rows, "transaction")
    assert [cell.text for cell in table.head] == ["arm", "redo log", "binlog", "data"]
    assert [cell.text for cell in table.rows[0]] == ["base", "1", "–", "0"]
    assert list(_unseen(FSYNCS, rows)) == [f"Fsyncs of the binlog are not visible on this server: {OFF}."]
    assert list(_unseen(BYTES, rows)) == []


def test_arms_in_which_a_class_is_not_visible_are_named() -> None:
    rows = [own_server("base", redo=1.0, binlog=1.0, data=0.0), own_server("other", binlog=0.0)]
    assert list(_unseen(FSYNCS, rows)) == [
        "Fsyncs of the redo log are not visible on this server in other.",
        "Fsyncs of the data are not visible on this server in other.",
    ]


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
