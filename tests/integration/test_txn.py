"""`txn:FILE` on real servers: what its transactions leave behind, and what a mistake in it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

import pytest
from msgspec.structs import replace

from flushlab.errors import MeasurementError
from flushlab.server import Sandbox, SandboxSpec
from flushlab.workload.parse import build_workload
from flushlab.workload.protocol import Measured, Timing
from flushlab.workload.sql import TxnWorkload
from tests.conftest import require_build
from tests.integration.test_bench import flushlab
from tests.waiting import PATIENCE_S

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"
TIMING = Timing(warm_up_s=0.1, max_warm_up_s=0.2, seconds=0.5)
LOADED = replace(TIMING, redo_bytes=200_000, max_seconds=PATIENCE_S)
"""A window that goes on until hundreds of transactions have written in it, however slow the machine is."""
BUILDS = ("mariadb@10.11", "mysql@8.0")


@pytest.fixture(scope="module", params=BUILDS)
def server(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    settings = {"innodb_flush_log_at_trx_commit": 0}
    with Sandbox.start(SandboxSpec(require_build(request.param), settings=settings)) as running:
        yield running


def measure(server: Sandbox, file: Path, threads: int = 4, timing: Timing = LOADED) -> Measured:
    workload = build_workload(f"txn:{file}", {"threads": threads})
    assert isinstance(workload, TxnWorkload)
    server.query(f"DROP DATABASE IF EXISTS {workload.database}")
    workload.prepare(server)
    workload.prepare(server)  # the second time it is there
    return workload.run(server, timing, nullcontext())


def values(server: Sandbox, sql: str) -> list[int]:
    return [int(value or 0) for value in server.query(sql)[0]]


def test_the_example_orders_pays_and_looks(server: Sandbox) -> None:
    measured = measure(server, GUIDES / "order-entry.toml")
    assert measured.load is not None
    assert measured.result > 0
    orders, customers, lines, paid = values(
        server,
        "SELECT (SELECT COUNT(*) FROM shop.orders), (SELECT SUM(orders) FROM shop.customer),"
        " (SELECT COUNT(*) FROM shop.line), (SELECT COUNT(*) FROM shop.orders WHERE state = 'paid')",
    )
    assert orders == customers, "a transaction keeps its customer"
    assert lines == 5 * orders
    assert 0 < paid <= orders
    wrong = values(
        server,
        "SELECT COUNT(*) FROM shop.orders WHERE LENGTH(reference) <> 36 OR SUBSTR(reference, 15, 1) <> '7'"
        " OR customer NOT BETWEEN 1 AND 1000 OR ABS(TIMESTAMPDIFF(SECOND, made, UTC_TIMESTAMP(6))) > 600",
    )
    assert wrong == [0]
    assert values(server, "SELECT COUNT(*) FROM shop.line WHERE amount NOT IN (1, 2, 10)") == [0]
    assert values(server, "SELECT COUNT(DISTINCT nr) - COUNT(*) FROM shop.line") == [0]
    names = {one.statement for one in measured.load.statements}
    assert {"new_order: INSERT orders", "new_order: COMMIT", "status: SELECT orders"} <= names
    kinds = {one.transaction: one for one in measured.load.transactions}
    assert list(kinds) == ["new_order", "payment", "status"]
    assert sum(one.count for one in kinds.values()) == measured.load.events
    assert kinds["new_order"].latency_us is not None
    assert measured.load.commits is not None
    assert measured.load.commits < measured.load.events, "looking commits nothing"


def test_kinds_come_by_their_weights_and_autocommit_commits_each(server: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "kinds.toml"
    file.write_text(
        'setup = "CREATE TABLE t (kind CHAR(1), n INT, c INT, PRIMARY KEY (kind, n, c))"\n'
        'parameter.n = { type = "sequence", scope = "connection" }\n'
        'parameter.c = { type = "connection" }\n'
        "[transaction.often]\nweight = 3\n"
        "statements = [\"INSERT INTO t VALUES ('a', :n, :c)\", \"INSERT INTO t VALUES ('b', :n, :c)\"]\n"
        "[transaction.seldom]\nautocommit = true\nstatements = [\"INSERT INTO t VALUES ('s', :n, :c)\"]\n"
    )
    measured = measure(server, file)
    kinds = dict(server.query("SELECT kind, COUNT(*) FROM flushlab_txn.t GROUP BY kind"))
    assert kinds["a"] == kinds["b"]
    events = kinds["a"] + kinds["s"]
    six_sigma = 6 * (0.75 * 0.25 / events) ** 0.5
    assert kinds["a"] / events == pytest.approx(0.75, abs=six_sigma)
    assert values(server, "SELECT COUNT(DISTINCT c), MIN(c), MAX(c) FROM flushlab_txn.t") == [4, 1, 4]
    assert measured.load is not None
    assert measured.load.errors == ()


def test_every_type_reaches_its_column(server: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "types.sql"
    file.write_text(
        '--: parameter.i = { type = "integer", low = -9000000000, high = -8999999990 }\n'
        '--: parameter.d = { type = "decimal", low = -0.05, high = 0.05, distribution = "gaussian" }\n'
        '--: parameter.b = { type = "uuid", binary = true }\n'
        '--: parameter.p = { type = "pattern", pattern = "[0-9]{2}-[a-z]{2}" }\n'
        '--: parameter.r = { type = "row_text", groups = 5 }\n'
        '--: parameter.m = { type = "datetime", low = 2024-02-28T23:00:00, high = 2024-03-01T01:00:00 }\n'
        '--: parameter.y = { type = "date", low = 2023-12-31, high = 2024-01-01 }\n'
        "CREATE TABLE t (i BIGINT, d DECIMAL(6,2), b BINARY(16), p CHAR(5), r CHAR(60), m DATETIME,\n"
        "  y DATE);\n"
        "--: transaction.t = {}\n"
        "INSERT INTO t VALUES (:i, :d, :b, :p, :r, :m, :y);\n"
    )
    measure(server, file, threads=1)
    count, *right = values(
        server,
        "SELECT COUNT(*), SUM(i BETWEEN -9000000000 AND -8999999990), SUM(d BETWEEN -0.05 AND 0.05),"
        " SUM(p REGEXP '^[0-9]{2}-[a-z]{2}$'), SUM(r REGEXP '^([0-9]{11}-){4}[0-9]{11}$'),"
        " SUM(m BETWEEN '2024-02-28 23:00:00' AND '2024-03-01 01:00:00'),"
        " SUM(y BETWEEN '2023-12-31' AND '2024-01-01'), COUNT(DISTINCT b) FROM flushlab_txn.t",
    )
    assert count > 20
    assert right == [count] * 7


def test_thinking_slows_down_and_is_no_latency(server: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "think.toml"
    file.write_text("[transaction.t]\nautocommit = true\nthink_ms = 100\nstatements = ['DO 1']\n")
    start = monotonic()
    measured = measure(server, file, timing=TIMING)
    elapsed, load = monotonic() - start, measured.load
    assert load is not None and load.latency_us is not None
    assert load.events <= 4 * (measured.window_s / 0.1 + 1)
    # One event after the other on each connection; the first may have begun before the window.
    assert load.events * (0.1 + load.latency_us.mean / 1e6) <= 4 * elapsed * 1.001


def test_a_statement_that_the_server_refuses_is_named_with_its_place(server: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("[transaction.t]\nstatements = [\n  'UPDATE nowhere SET a = 1',\n]\n")
    with pytest.raises(MeasurementError, match=r"wrong\.toml:3:4: .*nowhere"):
        measure(server, file)


def test_a_setup_that_fails_or_differs_is_named(server: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "setup.toml"
    text = "setup = 'CREATE TABLE t (a INT);'\n[transaction.t]\nstatements = ['UPDATE t SET a = 1']\n"
    file.write_text(text)
    measure(server, file, timing=TIMING)
    file.write_text(text.replace("INT", "BIGINT"))
    with pytest.raises(MeasurementError, match="a different setup has been run in the database flushlab_txn"):
        build_workload(f"txn:{file}", {}).prepare(server)
    file.write_text(text.replace("a INT", "a WHAT"))
    with pytest.raises(MeasurementError, match=r"setup\.toml: setup, line 1: CREATE TABLE"):
        measure(server, file)


def test_bench_takes_it_with_a_data_set_and_refuses_mistakes_first(tmp_path: Path) -> None:
    require_build("mariadb@10.11")
    dump = tmp_path / "dump.sql"
    dump.write_text("CREATE DATABASE stock; CREATE TABLE stock.n (n INT); INSERT INTO stock.n VALUES (0);")
    file = tmp_path / "stock.toml"
    file.write_text('database = "stock"\n[transaction.t]\nstatements = ["UPDATE n SET n = n + 1"]\n')
    words = [
        *("bench", "--server", "mariadb@10.11", "--workload", f"txn:{file}"),
        *("--dataset", str(dump), "--threads", "1", "--duration", "0.5"),
    ]
    done = flushlab(*words, "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] > 0
    file.write_text('database = "stock"\n[transaction.t]\nstatments = ["UPDATE n SET n = n + 1"]\n')
    done = flushlab(*words)
    assert done.returncode == 2
    assert "stock.toml:3:1: statments is not a key of the transaction t" in done.stderr.replace("\n", "")
    assert "hint: did you mean statements?" in done.stderr


def test_errors_that_a_file_ignores_end_the_transaction_and_are_counted(
    server: Sandbox, tmp_path: Path
) -> None:
    file = tmp_path / "unique.toml"
    text = """database = "unique_txn"
setup = "CREATE TABLE seen (id INT PRIMARY KEY); CREATE TABLE tried (id INT); INSERT INTO seen VALUES (1)"
[transaction.twice]
statements = ["INSERT INTO tried VALUES (1)", "INSERT INTO seen VALUES (1)"]
[transaction.once]
statements = ["INSERT INTO tried VALUES (2)"]
"""
    file.write_text(f"ignore_errors = [1062]\n{text}")
    measured = measure(server, file)
    assert measured.load is not None
    assert [one.errno for one in measured.load.errors] == [1062]
    twice = values(server, "SELECT COUNT(*) FROM unique_txn.tried WHERE id = 1")
    assert twice == [0], "the whole transaction is rolled back"
    file.write_text(text)
    with pytest.raises(MeasurementError, match="Duplicate entry"):
        measure(server, file)
