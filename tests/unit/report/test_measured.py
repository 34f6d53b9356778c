"""What stored trials show, how files were opened, and the user's data."""

from __future__ import annotations

import io

import msgspec
from rich.console import Console

from flushlab.record import (
    DataFacts,
    FileActivity,
    KindTime,
    RowCounts,
    SkippedTable,
    StandIn,
    TableRows,
    WrittenTable,
)
from flushlab.report import bench, campaign, html
from flushlab.report.about import stand_in
from flushlab.report.bench import document
from flushlab.report.measured import _classes, _flags, _unseen
from flushlab.report.subject import Activity, activity, by_arm, throughput
from tests.golden.test_reports import text_of
from tests.unit.records import trial
from tests.unit.report import campaigns as made
from tests.unit.report.campaigns import series_of


def test_an_arm_is_shown_by_what_proves_it_and_else_by_what_there_is() -> None:
    own = by_arm([trial(stage="screen", result=1.0), trial(stage="confirm", result=2.0)])
    assert [one.result for one in own["base"]] == [2.0]
    assert [one.result for one in by_arm([trial(stage="screen", result=1.0)])["base"]] == [1.0]


def test_a_repeated_trial_counts_once_and_one_without_a_figure_never() -> None:
    trials = [
        trial(stage="confirm", block=2, result=3.0),
        trial(stage="confirm", block=1, outcome="discarded", result=1.0),
        trial(stage="confirm", block=1, result=2.0),
        trial(stage="confirm", block=3, outcome="failed"),
    ]
    assert [one.result for one in by_arm(trials)["base"]] == [2.0, 3.0]


def test_a_disturbed_trial_that_was_not_repeated_is_shown() -> None:
    assert [one.result for one in by_arm([trial(outcome="discarded", result=1.0)])["base"]] == [1.0]


def test_windows_stand_end_to_end_and_stalls_are_judged_by_their_own_window() -> None:
    slow = series_of(100.0, 5)
    fast = series_of(10_000.0, 5, stalled=True)
    line = throughput("x", [trial(load=slow), trial(load=fast, block=2)])
    assert line is not None
    assert line.seconds == (*slow.per_second, *fast.per_second)
    assert line.borders == (5,)
    assert line.stalled == (7,)
    assert line.p99_ms == 1.9


def test_a_workload_without_seconds_has_no_line() -> None:
    assert throughput("x", [trial(load=None)]) is None


def test_file_activity_is_per_event_over_all_windows() -> None:
    told = {"redo": FileActivity(fsyncs=40, bytes=4_000, flags=("O_DSYNC",)), "data": FileActivity(bytes=0)}
    load = series_of(10.0, 1)
    found = activity("x", [trial(load=load, file_activity=told), trial(load=load, file_activity=told)])
    assert found is not None
    assert found.amounts["fsyncs"] == {"redo": 4.0}
    assert found.amounts["bytes"] == {"redo": 400.0, "data": 0.0}
    assert found.flags == {"redo": ("O_DSYNC",)}


def test_nothing_told_is_nothing_shown() -> None:
    assert activity("x", [trial(deltas={})]) is None


def test_each_workload_is_counted_per_unit_of_its_own() -> None:
    told = {"redo": FileActivity(fsyncs=30)}
    kind = KindTime(kind="INSERT", count=1201, seconds=1.0, slowest_s=0.1, slowest_line=1)
    script = msgspec.structs.replace(series_of(1201.0, 1), kinds=(kind,))
    upsert = msgspec.structs.replace(series_of(4.0, 1), rows=RowCounts(committed=60, updated=0, commits=2))
    for load, unit, higher_is_better, per, fsyncs in (
        (None, "s", False, "run", 30),
        (script, "s", False, "run", 30),
        (upsert, "rows/s", True, "row", 0.5),
        (series_of(10.0, 1), "transactions/s", True, "transaction", 3),
    ):
        one = trial(load=load, unit=unit, higher_is_better=higher_is_better, file_activity=told)
        found = activity("x", [one, one])
        assert found is not None
        assert (found.per, found.amounts["fsyncs"]) == (per, {"redo": fsyncs})
        console = Console(file=io.StringIO(), record=True, width=80)
        console.print(document(one))
        assert f"redo {fsyncs} per {per}" in console.export_text()


OFF = "performance_schema is OFF: start the server with performance_schema=ON"


def arm(name: str, **flags: tuple[str, ...]) -> Activity:
    return Activity(arm=name, classes=tuple(flags), amounts={}, flags=flags)


def own_server(name: str, **fsyncs: float) -> Activity:
    classes, written = ("redo", "binlog", "data"), {"redo": 512.0, "binlog": 700.0, "data": 0.0}
    amounts = {"fsyncs": fsyncs, "bytes": written}
    return Activity(arm=name, classes=classes, amounts=amounts, flags={}, why=OFF)


def test_a_class_that_a_server_does_not_show_has_a_column_and_the_reason_below_it() -> None:
    rows = [own_server("base", redo=1.0, data=0.0), own_server("again", redo=1.0, data=0.0)]
    table = _classes("fsyncs", rows, "transaction")
    assert [*table.head] == ["arm", "redo log", "binlog", "data"]
    assert [cell.text for cell in table.rows[0]] == ["base", "1", "–", "0"]
    assert list(_unseen("fsyncs", rows)) == [f"Fsyncs of the binlog are not visible on this server: {OFF}."]
    assert list(_unseen("bytes", rows)) == []


def test_arms_in_which_a_class_is_not_visible_are_named() -> None:
    rows = [own_server("base", redo=1.0, binlog=1.0, data=0.0), own_server("other", binlog=0.0)]
    assert list(_unseen("fsyncs", rows)) == [
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


DATA = DataFacts(path="/dumps/shop.sql.gz", kind="SQL dump", size_bytes=3 << 20)
TABLES = (TableRows("shop.lines", 2_000_000), TableRows("shop.orders", 900))
LOAD = StandIn(
    shares={"update": 0.7, "insert": 0.3},
    tables=(
        WrittenTable(name="shop.lines", rows=2_000_000, keys=19_000, column="quantity"),
        WrittenTable(
            name="shop.orders", rows=900, keys=675, column="state", without={"insert": "its keys are foreign"}
        ),
    ),
    skipped=(SkippedTable("shop.log", "MyISAM, not InnoDB"),),
    smaller=1,
)
WORDS = "/dumps/shop.sql.gz (SQL dump, 3 MiB); rows, about: shop.lines 2,000,000, shop.orders 900"


def squeezed(text: str) -> str:
    """Without spaces and breaks of lines."""
    return "".join(text.split())


def test_a_campaign_names_the_data_everywhere() -> None:
    facts = made.tune_facts(data=DATA, tables=TABLES, stand_in=LOAD)
    assert squeezed(f"your data: {WORDS}") in squeezed(text_of(campaign.document(facts)))
    found = msgspec.json.decode(msgspec.json.encode(campaign.as_json(facts)))
    assert found["data"]["path"] == "/dumps/shop.sql.gz"
    assert found["tables"][0] == {"name": "shop.lines", "rows": 2_000_000}
    assert found["stand_in"]["tables"][1]["without"] == {"insert": "its keys are foreign"}
    row, trials = made.row("tune", facts), made.trials_of(made.TUNE_ARMS, "confirm")
    assert WORDS in html.render(campaign.document(facts, row, trials))


def test_the_page_tells_what_the_load_writes_and_what_it_leaves_out() -> None:
    section = stand_in(LOAD)
    rows = [[cell.text for cell in row] for row in section.tables[0].rows]
    assert "stands in for yours: 70% updates, 30% inserts" in section.about
    assert rows[0] == ["shop.lines", "2,000,000", "19,000", "quantity", ""]
    assert rows[1] == ["shop.orders", "900", "675", "state", "inserts: its keys are foreign"]
    assert section.notes == (
        "shop.log is not touched: MyISAM, not InnoDB.",
        "1 smaller table is not touched.",
    )
    assert all(one.key != "stand-in" for one in campaign.document(made.tune_facts()).sections)


def test_a_single_run_names_workload_and_data() -> None:
    found = trial(workload="data", data=DATA, tables=TABLES)
    shown = squeezed(text_of(bench.document(found)))
    assert squeezed(f"data {WORDS}") in shown
    assert bench.as_json(found).data == DATA
