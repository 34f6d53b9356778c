"""`--workload data` on real servers: a schema that is hard to write to, without an error or a scan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from flushlab.server import Sandbox, SandboxSpec
from flushlab.workload.data import DataWorkload
from flushlab.workload.engine import Connected, run_script
from flushlab.workload.protocol import Timing
from tests.conftest import flavors, require_build
from tests.integration.test_bench import flushlab
from tests.waiting import PATIENCE_S

SCHEMA = Path(__file__).parent / "data.sql"
TIMING = Timing(warm_up_s=0.1, max_warm_up_s=0.2, seconds=0.5, redo_bytes=3_000_000, max_seconds=PATIENCE_S)
"""A window that goes on until thousands of transactions have written in it, however slow the machine is."""
WORKLOAD = DataWorkload(threads=4, tables=99)
COUNTS = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_delete', 'Handler_delete', 'Handler_read_rnd_next')"


@pytest.fixture(
    scope="module",
    params=flavors("mariadb@10.11", "mysql@8.0", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=2),
)
def server(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    settings = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
    with Sandbox.start(SandboxSpec(require_build(request.param), settings=settings)) as running:
        how = Connected()
        run_script(running, SCHEMA.read_bytes(), how, database="mysql", limit_s=PATIENCE_S, where=SCHEMA.name)
        yield running


def counts(server: Sandbox) -> dict[str, int]:
    return {str(name): int(value) for name, value in server.query(COUNTS)}


def test_a_schema_that_is_hard_to_write_to_is_written_to_without_an_error(server: Sandbox) -> None:
    WORKLOAD.prepare(server)
    first = WORKLOAD.driving(server)
    WORKLOAD.prepare(server)
    again = WORKLOAD.driving(server)
    assert msgspec.structs.asdict(first.spec) == msgspec.structs.asdict(again.spec), "the seed decides"

    before = counts(server)
    measured = WORKLOAD.run(server, TIMING, nullcontext())
    done = {name: value - before[name] for name, value in counts(server).items()}
    assert measured.load is not None and measured.stand_in is not None
    assert measured.load.errors == ()
    assert done["Handler_delete"] >= done["Com_delete"] > 0, "every DELETE finds its row"
    # Scans for the writes of one of the tables would read some 20 rows for each of all events.
    assert done["Handler_read_rnd_next"] < 8 * measured.load.events, "tables are not scanned"

    tables = {one.name.removeprefix("hard."): one for one in measured.stand_in.tables}
    whole = {"binary_key", "line", "numbers", "parted", "tàble `%s?", "text_key", "times", "tree", "watched"}
    assert {name for name, one in tables.items() if not one.without} == whole
    assert {name: set(one.without) for name, one in tables.items() if one.without} == {
        "customer": {"delete"},
        "order": {"delete"},
        "link": {"update", "insert"},
        "n": {"update"},
        "stamped": {"insert", "delete"},
        "zero_dates": {"insert", "delete"},
    }
    assert tables["order"].column == "select"
    assert "rows of hard.line, hard.link refer" in tables["order"].without["delete"]
    assert {one.name.removeprefix("hard."): one.why for one in measured.stand_in.skipped} == {
        "audit": "a trigger of watched uses it",
        "empty_one": "no rows",
        "float_key": "its primary key has the type float",
        "hits": "MyISAM, not InnoDB",
        "no_key": "no primary key",
    }
    kinds = {one.transaction for one in measured.load.transactions}
    assert {"update hard.order", "insert hard.line", "delete hard.tàble `%s?"} <= kinds


def test_rows_keep_their_number_but_for_inserts(server: Sandbox) -> None:
    tables = [f"`{name}`" for name in ("binary_key", "text_key", "times", "tree", "line")]
    sizes = " UNION ALL ".join(f"SELECT COUNT(*) FROM hard.{table}" for table in tables)
    before = server.query(sizes)
    workload = msgspec.structs.replace(WORKLOAD, update=50, insert=0, delete=50)
    workload.prepare(server)
    measured = workload.run(server, TIMING, nullcontext())
    assert measured.load is not None and measured.load.errors == ()
    assert server.query(sizes) == before


def test_a_single_run_on_a_dump_names_the_data_and_the_stand_in(tmp_path: Path) -> None:
    run = flushlab(
        *("bench", "--dataset", str(SCHEMA), "--workload", "data", "--threads", "4", "--tables", "3"),
        *(
            "--duration",
            "0.5",
            "--set",
            "innodb_flush_log_at_trx_commit=0",
            "--json",
            str(tmp_path / "b.json"),
        ),
    )
    found = json.loads((tmp_path / "b.json").read_text())
    assert (found["workload"], found["data"]["path"], found["data"]["kind"]) == (
        "data",
        str(SCHEMA),
        "SQL dump",
    )
    assert found["tables"][0]["name"] == "hard.line"
    assert found["stand_in"]["tables"][0]["name"] == "hard.line"
    assert found["load"]["errors"] == []
    assert "the load is made from your data and stands in for yours" in " ".join(run.stdout.split())
