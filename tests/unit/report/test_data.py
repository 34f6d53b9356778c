"""The user's data and the load made from them, in terminal, page and JSON."""

from __future__ import annotations

import msgspec

from flushlab.record import DataFacts, SkippedTable, StandIn, TableRows, WrittenTable
from flushlab.report import bench, campaign, html
from flushlab.report.about import stand_in
from flushlab.report.subject import Subject
from tests.golden.test_reports import text_of
from tests.unit.records import trial
from tests.unit.report import campaigns as made

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
    facts = made.tune_facts(stand_in=LOAD)
    (section,) = stand_in(Subject(made.row("tune", facts), None, facts, [], {}))
    rows = [[cell.text for cell in row] for row in section.tables[0].rows]
    assert "stands in for yours: 70% updates, 30% inserts" in section.about
    assert rows[0] == ["shop.lines", "2,000,000", "19,000", "quantity", ""]
    assert rows[1] == ["shop.orders", "900", "675", "state", "inserts: its keys are foreign"]
    assert section.notes == (
        "shop.log is not touched: MyISAM, not InnoDB.",
        "1 smaller table is not touched.",
    )
    plain_facts = made.tune_facts()
    assert not list(stand_in(Subject(made.row("tune", plain_facts), None, plain_facts, [], {})))


def test_a_single_run_names_workload_and_data() -> None:
    found = trial(workload="data", data=DATA, tables=TABLES)
    shown = squeezed(text_of(bench.document(found)))
    assert squeezed(f"data {WORDS}") in shown
    assert bench.as_json(found).data == DATA
