"""What `flushlab fill` prints, and its JSON."""

from __future__ import annotations

import msgspec

from flushlab.bulk.filled import Filled, FilledTable, FillStep, LoadMethod, Tried
from flushlab.record import ServerIdentity, Warning
from flushlab.report.fill import document
from tests.golden.test_reports import text_of

METHOD = LoadMethod(kind="load-data", connections=2, batch_rows=1, packet_bytes=262144, indexes="after")
FILLED = Filled(
    plan="users",
    server=ServerIdentity(
        flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB", build_id="b"
    ),
    sandbox="legacy",
    database="app",
    tables=(FilledTable(name="users", rows=1_000_000, total=1_000_000, sampled=1000),),
    rows=1_000_000,
    rows_per_s=1_000_000 / 4.5,
    resumed_rows=0,
    bytes=123 << 20,
    seconds=4.5,
    index_seconds=1.0,
    verify_seconds=0.7,
    method=METHOD,
    tried=(Tried(method=METHOD, rows=10_000, rows_per_s=250_000.0),),
    bound_by="server CPU",
    why="server 190% of a core, client 9%, 2 cores",
    peak_bytes=48 << 20,
    waited={"replica lag": 12.0},
    client="mariadb --defaults-file=/h/run/legacy/client.cnf app",
    warnings=(Warning("redo-capacity", "the redo log is small"),),
    steps=(
        FillStep(
            name="single connection",
            rows=2000,
            seconds=8.0,
            rows_per_s=250.0,
            ratio=1.0,
            bound_by="log syncs",
            why="1.00 syncs of the redo log a commit",
        ),
    ),
)


def test_the_result_names_rate_way_limit_and_what_was_checked() -> None:
    assert text_of(document(FILLED)).split("\n") == [
        "1,000,000 rows in 4.5 s: 222,222 rows/s into app on sandbox:legacy",
        "(mariadb@10.11.19)",
        "",
        "Results",
        "method    LOAD DATA LOCAL, 2 connections, secondary indexes afterwards",
        "bound by  server CPU (server 190% of a core, client 9%, 2 cores)",
        "time      rows 3.5 s, indexes 1.0 s; not counted: verification 0.7 s",
        "size      123 MiB sent, with 48 MiB of memory here",
        "verified  users: 1,000,000 rows counted, 1,000 read back and compared",
        "waited    12 s for replica lag",
        "",
        "step               rows/s  times  bound by",
        "single connection     250   1.0×  log syncs",
        "",
        "warning: the redo log is small",
        "",
        "The sandbox",
        "Use it:",
        "   mariadb --defaults-file=/h/run/legacy/client.cnf app",
        "Stop it:",
        "   flushlab server stop legacy",
        "",
    ]


def test_the_json_is_the_result_with_its_schema() -> None:
    found = msgspec.json.decode(msgspec.json.encode(FILLED))
    assert found["schema"] == "flushlab.fill/1"
    assert (found["rows"], found["seconds"], found["rows_per_s"]) == (1_000_000, 4.5, 1_000_000 / 4.5)
    assert found["method"]["kind"] == "load-data" and found["tables"][0]["sampled"] == 1000
