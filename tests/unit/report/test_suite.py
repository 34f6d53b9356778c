"""A run of `flushlab test` as a document and as lines, from fixed facts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from flushlab.record import FileIo, Performance, Ratio, ServerIdentity, StageTime, StatementKind
from flushlab.report.suite import as_json, compared_as_json, comparison, summary
from flushlab.settings.fit import Scaled
from flushlab.spec.commands import DatabaseSpec
from flushlab.suite.comparison import Compared, Side, ratio
from flushlab.suite.endpoint import Objects
from flushlab.suite.pool import PoolUse
from flushlab.suite.request import SuiteRequest
from flushlab.suite.servers import Reset
from flushlab.suite.session import SuiteResult
from tests.golden.test_reports import text_of
from tests.unit.builds import MYSQL57

REFERENCE = Path(__file__).parents[3] / "docs/reference/test-json.md"
SECONDS = {"ready": 0.61, "prepare": 0.0, "command": 12.5, "teardown": 0.08}
SERVER = ServerIdentity(flavor="mysql", version=(5, 7, 22), version_text="5.7.22", build_id="x")
REQUEST = SuiteRequest(
    spec=DatabaseSpec(prepare="migrate"),
    prepare="migrate",
    build=MYSQL57,
    words=("true",),
    database="app",
    limit_bytes=1 << 30,
)


def result(**changes: Any) -> SuiteResult:
    plain = SuiteResult(exit_code=0, template="hit", seconds=SECONDS, server=SERVER, in_memory=True)
    return msgspec.structs.replace(plain, **changes)


RESETS = (
    *(Reset(seconds=0.003 + 0.001 * k, how="undone", why=f"{k} rows in 1 table") for k in range(3)),
    Reset(seconds=0.2, how="restarted", why="CREATE USER"),
    Reset(seconds=0.1, how="restarted", why="CREATE USER"),
    Reset(seconds=0.02, how="replaced"),
)


def test_what_tests_did_with_the_pool_is_told_if_they_did_anything() -> None:
    use = PoolUse(most=4, started=4, taken=120, waited_s=0.8, left=2, ended=1)
    text = "\n".join(summary(result(pool=use), REQUEST))
    assert (
        "flushlab: tests took 120 databases from 4 servers; waited 0.8 s for them; 1 lease ended before the"
        " test gave its database back; 2 were not given back"
    ) in text
    small = PoolUse(most=1, started=1, taken=1)
    assert "flushlab: tests took 1 database from 1 server" in summary(result(pool=small), REQUEST)
    assert not any("tests took" in line for line in summary(result(), REQUEST))
    assert as_json(result(pool=use), REQUEST)["pool"]["taken"] == 120
    assert as_json(result(), REQUEST)["pool"] is None


def test_resets_are_told_by_their_way_and_what_could_not_be_undone() -> None:
    text = summary(result(resets=RESETS), REQUEST)
    assert text[-4:] == [
        "flushlab: 6 resets:",
        "flushlab:   3 undone, 4.0 ms at the median",
        "flushlab:   2 by a restart, 150.0 ms at the median, because of CREATE USER",
        "flushlab:   1 by a standby server, 20.0 ms at the median",
    ]
    one = summary(result(resets=RESETS[:1]), REQUEST)
    assert one[-1] == "flushlab: 1 reset: 1 undone, 3.0 ms at the median"
    told = as_json(result(resets=RESETS), REQUEST)
    assert told["resets"] == 6
    first = {"how": "undone", "why": "", "count": 3, "median_s": 0.004}
    assert (told["resets_by"][0], len(told["resets_by"])) == (first, 3)


def compared(blocks: int = 1) -> Compared:
    told = Performance(
        io_by_file=(
            FileIo(file="ib_logfile0", kind="redo", written_bytes=3 << 20, seconds=4.5, fsyncs=1234),
            FileIo(file="ibdata1", kind="data", written_bytes=9 << 20, seconds=5.5, fsyncs=66),
        ),
        statements_by_kind=(StatementKind(kind="alter_table", count=412, seconds=30.0),),
        stages=(StageTime(stage="sql/altering table", count=412, seconds=29.0),),
        untold={"stages": "half of them are off"},
    )
    stock = Side(
        seconds={"ready": 3.0, "prepare": 40.0, "command": 20.0, "teardown": 2.0},
        exit_code=0,
        told={"prepare": told, "command": Performance()},
        fsyncs=1300,
    )
    fast = Side(seconds=SECONDS, exit_code=0, told={}, fsyncs=0)
    times = Ratio(estimate=4.9, low=4.9, high=4.9)
    return Compared(
        stock=(stock,) * blocks, fast=(fast,) * blocks, prepared_s=2.5, ratio=times, database_ratio=times,
        result=result(),
    )  # fmt: skip


def test_reference_names_every_field_and_no_other() -> None:
    text = REFERENCE.read_text()
    always, _, rest = text.partition("`--compare` adds:")
    added, _, sides = rest.partition("Fields of `stock` and `fast`:")
    assert _rows(always) == set(as_json(result(), REQUEST))
    both = compared_as_json(compared(), REQUEST)
    assert _rows(added) == set(both) - _rows(always)
    assert _rows(sides) == set(both["blocks"][0]["stock"])


def _rows(text: str) -> set[str]:
    rows = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name.removesuffix("[]") for row in rows for name in re.findall(r"`([\w\[\]]+)`", row)}


def test_document_says_what_became_of_the_option_file() -> None:
    pool = Scaled(name="innodb_buffer_pool_size", yours="96G", here="4G", why="memory")
    request = msgspec.structs.replace(REQUEST, scaled=(pool,), base_notes=("my.cnf: left out: port",))
    found = as_json(result(notes=("worker 1 ended",)), request)
    assert found["scaled"] == [
        {"name": "innodb_buffer_pool_size", "yours": "96G", "here": "4G", "why": "memory"}
    ]
    assert found["notes"] == ["my.cnf: left out: port", "worker 1 ended"]


def test_one_line_tells_what_happened() -> None:
    assert summary(result(), REQUEST) == [
        "flushlab: mysql@5.7.22 in memory, template hit: ready 0.6 s, command 12 s, teardown 0.1 s"
    ]


def test_a_command_that_was_not_found_says_only_that() -> None:
    lines = summary(SuiteResult(exit_code=127, notes=("nope: command not found",)), REQUEST)
    assert lines == ["flushlab: nope: command not found"]


def test_a_suite_that_recreates_what_the_template_has() -> None:
    (_, hint) = summary(result(recreated=Objects(count=412, seconds=3.1)), REQUEST)
    assert hint == (
        "flushlab: the suite dropped and recreated 412 objects: 3.1 s; keep the template by skipping clean"
    )


def test_a_suite_that_migrates_itself_hears_of_templates() -> None:
    bare = msgspec.structs.replace(REQUEST, spec=DatabaseSpec(), prepare="")
    (line, hint) = summary(result(template="none", created=Objects(count=150, seconds=4.2)), bare)
    assert ", nothing prepared: ready " in line
    assert "150 objects in about 4.2 s" in hint
    assert "--prepare" in hint
    assert len(summary(result(created=Objects(count=150, seconds=4.2)), REQUEST)) == 1


def test_what_the_template_saved() -> None:
    assert "saved 9.5 s" in summary(result(saved_seconds=9.5), REQUEST)[-1]


def test_death_comes_with_its_log() -> None:
    assert "flushlab: died of\nthis" in summary(result(death="died of\nthis"), REQUEST)


def test_comparison_is_a_table_and_where_stocks_time_went() -> None:
    text = text_of(comparison(compared(), REQUEST))
    assert re.search(r"^setup: migrations\s+40\.00 s\s+0\.00 s$", text, re.MULTILINE)
    assert re.search(r"^total\s+65\.00 s\s+13\.19 s\s+4\.9×$", text, re.MULTILINE)
    assert re.search(r"^the database's share\s+35\.00 s", text, re.MULTILINE)
    assert re.search(r"^the application's share\s+30\.00 s", text, re.MULTILINE)
    assert re.search(r"^fsyncs\s+1,300\s+0$", text, re.MULTILINE)
    assert re.search(r"^ib_logfile0\s+1,234\s+3 MiB\s+4\.50 s \(45%\)$", text, re.MULTILINE)
    assert re.search(r"^alter_table\s+412\s+30\.00 s$", text, re.MULTILINE)
    assert "4.9× (one block, no interval)" in text
    assert "not available: stages: half of them are off" in text


def test_the_total_row_and_the_headline_have_one_ratio() -> None:
    one = compared()
    totals = [(65.0, 13.0), (39.0, 30.0), (90.0, 13.5)]
    stock, fast = (
        tuple(
            msgspec.structs.replace(side, seconds={**side.seconds, "command": side.seconds["command"] + more})
            for more in (seconds[which] - side.total_s for seconds in totals)
        )
        for which, side in enumerate((one.stock[0], one.fast[0]))
    )
    both = msgspec.structs.replace(
        one,
        stock=stock,
        fast=fast,
        ratio=ratio([side.total_s for side in stock], [side.total_s for side in fast]),
        database_ratio=ratio([side.database_s for side in stock], [side.database_s for side in fast]),
    )
    text = text_of(comparison(both, REQUEST))
    (total,) = re.findall(r"^total .* (\d+\.\d×)$", text, re.MULTILINE)
    (database,) = re.findall(r"^the database's share .* (\d+\.\d×)$", text, re.MULTILINE)
    assert re.search(rf"^{total} \[.*\] as fast; the database's share {database} \[", text, re.MULTILINE)
    assert total == "3.5×", "the ratio of the medians, 65 s and 13.5 s, would be 4.8×"
    assert "seconds: medians of 3 blocks; ratios: geometric means of the blocks' ratios" in text
    assert "seconds: medians" not in text_of(comparison(one, REQUEST))


def test_a_suite_that_failed_or_resets_is_no_plain_ratio() -> None:
    one = compared()
    failed = msgspec.structs.replace(one, stock=(msgspec.structs.replace(one.stock[0], exit_code=1),))
    assert "warning: the suite failed (stock exit code 1, fast exit code 0)" in text_of(
        comparison(failed, REQUEST)
    )
    resets = msgspec.structs.replace(one, database_ratio=None)
    text = text_of(comparison(resets, REQUEST))
    assert "; the database's share" not in text
    assert "warning: the suite resets its server" in text
    assert compared_as_json(resets, REQUEST)["database_ratio"] is None


def test_document_of_a_comparison_has_stocks_files_and_statements_by_part() -> None:
    found = compared_as_json(compared(2), REQUEST)
    assert [(row["part"], row["file"]) for row in found["io_by_file"]] == [
        ("prepare", "ib_logfile0"),
        ("prepare", "ibdata1"),
    ]
    assert found["statements_by_kind"][0] == {
        "part": "prepare",
        "kind": "alter_table",
        "count": 412,
        "seconds": 30.0,
        "errors": None,
        "rows_affected": None,
    }
    assert len(found["blocks"]) == 2
    assert found["ratio"] == {"estimate": 4.9, "low": 4.9, "high": 4.9}
