"""sysbench's OLTP workloads: the same statements as sysbench's own, and what they leave in the tables."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab import _core
from flushlab.record import LoadProgress, LoadResult, LoadSpec, OltpSpec
from flushlab.server import Sandbox, SandboxSpec
from flushlab.workload.parse import build_workload
from flushlab.workload.tables import OLTP_NAMES, OltpWorkload
from tests.conftest import require_build
from tests.sysbench_log import logged, sysbench, without_values
from tests.waiting import PATIENCE_S

RECORDED = Path(__file__).parent / "sysbench"
SIZE = 100
BUILDS = ("mariadb@10.11", "mysql@8.0")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Sandbox]]:
    with ExitStack() as stack:
        running: dict[str, Sandbox] = {}

        class Started(dict[str, Sandbox]):
            def __missing__(self, name: str) -> Sandbox:
                settings = {"innodb_flush_log_at_trx_commit": 0}
                self[name] = stack.enter_context(
                    Sandbox.start(SandboxSpec(require_build(name), settings=settings))
                )
                return self[name]

        running = Started()
        yield running


@pytest.fixture(scope="module")
def mariadb(servers: dict[str, Sandbox]) -> Sandbox:
    return servers["mariadb@10.11"]


def spec(server: Sandbox, workload: str, **changes: Any) -> bytes:
    asked = LoadSpec(workload=workload, endpoint=server.endpoint, table_size=SIZE, rand_type="uniform")
    return msgspec.json.encode(msgspec.structs.replace(asked, **changes))


def prepared(server: Sandbox, workload: str, **changes: Any) -> bytes:
    """The spec of a load whose tables were made anew."""
    server.query("DROP DATABASE IF EXISTS sbtest")
    encoded = spec(server, workload, **changes)
    _core.prepare_tables(encoded)
    return encoded


def run(encoded: bytes, events: int) -> LoadResult:
    """A load from its start on, until so many events have ended."""
    load = _core.LoadRun(encoded)
    load.start()
    load.open_window()
    deadline = time.monotonic() + PATIENCE_S
    while (progress := msgspec.json.decode(load.progress(), type=LoadProgress)).events < events:
        assert progress.failed is None, progress.failed
        assert time.monotonic() < deadline, progress
        time.sleep(0.002)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    load.stop()
    return result


def rows(server: Sandbox, what: str, table: int = 1) -> tuple[int, ...]:
    (row,) = server.query(f"SELECT {what} FROM sbtest.sbtest{table}")
    return tuple(int(value) for value in row)


def recorded(variant: str) -> tuple[OltpSpec, list[str]]:
    """sysbench's options and words."""
    head, *lines = (RECORDED / f"{variant}.txt").read_text().splitlines()
    options = {
        name.removeprefix("--").replace("-", "_"): value
        for name, _, value in (word.partition("=") for word in head.split())
    }
    values = {name: int(value) if value.isdigit() else value == "on" for name, value in options.items()}
    return msgspec.convert(values, OltpSpec), lines


@pytest.mark.parametrize("variant", sorted(path.stem for path in RECORDED.glob("*.txt")))
def test_an_event_says_what_sysbench_says(mariadb: Sandbox, variant: str) -> None:
    options, lines = recorded(variant)
    encoded = prepared(mariadb, variant.partition("-")[0], oltp=options)
    with logged(mariadb) as said:
        run(encoded, 20)
    due = [line for line in lines if not line.startswith("Prepare")]
    first = next(n for n, (kind, text) in enumerate(said) if f"{kind} {without_values(text)}" == due[0])
    got = [f"{kind} {without_values(text)}" for kind, text in said[first:] if kind != "Prepare"]
    whole = len(got) // len(due) * len(due)
    assert whole >= 20 * len(due)
    assert got[:whole] == due * (whole // len(due))
    used = {f"Prepare {text}" for kind, text in said if kind == "Prepare"}
    assert used <= set(lines), "sysbench prepares also what its options then leave out"


def test_every_workload_was_recorded() -> None:
    assert {path.stem for path in RECORDED.glob("*.txt")} >= set(OLTP_NAMES)


def test_the_recorded_words_are_still_sysbenchs(mariadb: Sandbox, tmp_path: Path) -> None:
    prepared(mariadb, "oltp_read_write")
    words = ["--table-size=100", "--threads=1", "--events=1", "--time=0", "run"]
    with logged(mariadb) as said:
        sysbench(mariadb.endpoint, tmp_path, "oltp_read_write", *words)
    _, lines = recorded("oltp_read_write")
    events = [f"{kind} {without_values(text)}" for kind, text in said if kind != "Prepare"]
    assert events == [line for line in lines if not line.startswith("Prepare")]


def test_ranges_and_ids_belong_together(mariadb: Sandbox) -> None:
    counts = OltpSpec(range_size=7, delete_inserts=2)
    with logged(mariadb) as said:
        run(prepared(mariadb, "oltp_read_write", oltp=counts, tables=3), 30)
    words = [text for kind, text in said if kind == "Execute"]
    ranges = [(int(low), int(high)) for low, high in re.findall(r"BETWEEN (\d+) AND (\d+)", "\n".join(words))]
    assert ranges
    assert all(high == low + 6 and 1 <= low <= SIZE for low, high in ranges)
    pairs = 0
    for one, other in itertools.pairwise(words):
        deleted = re.fullmatch(r"DELETE FROM (sbtest\d) WHERE id=(\d+)", one)
        if deleted:
            pairs += 1
            assert other.startswith(f"INSERT INTO {deleted[1]} (id, k, c, pad) VALUES ({deleted[2]}, ")
    assert pairs >= 60
    points = [re.sub(r"=\d+", "", text) for text in words if text.startswith("SELECT c") and "=" in text]
    groups = [set(points[n : n + 10]) for n in range(0, len(points) - 9, 10)]
    assert all(len(group) == 1 for group in groups), "ten point selects share a table"
    assert len(set(points)) == 3


@pytest.mark.parametrize("build", BUILDS)
def test_writes_leave_what_they_must(servers: dict[str, Sandbox], build: str) -> None:
    server = servers[build]
    whole = (SIZE, SIZE * (SIZE + 1) // 2)
    result = run(prepared(server, "oltp_write_only", threads=4, tables=2), 200)
    assert [one.statement for one in result.statements] == [
        *("BEGIN", "UPDATE of k", "UPDATE of c", "DELETE", "INSERT", "COMMIT")
    ]
    assert [rows(server, "COUNT(*), SUM(id)", table) for table in (1, 2)] == [whole, whole]
    assert result.commits == result.events

    bare = OltpSpec(skip_trx=True)
    result = run(prepared(server, "oltp_write_only", threads=1, oltp=bare), 50)
    assert result.commits == pytest.approx(4 * result.events, abs=4)

    before = rows(server, "SUM(k)")[0]
    load = run(spec(server, "oltp_update_index", threads=2), 100)
    assert rows(server, "SUM(k)")[0] - before >= load.events

    run(prepared(server, "oltp_insert", threads=2), 100)
    count, low, high = rows(server, "COUNT(*), MIN(id), MAX(id)")
    assert low == 1
    assert count >= SIZE + 100
    assert high >= count, "the server has numbered them"
    assert rows(
        server, f"SUM(k NOT BETWEEN 1 AND {SIZE}), SUM(LENGTH(c) <> 119), SUM(LENGTH(pad) <> 59)"
    ) == (*(0, 0, 0),)

    run(prepared(server, "oltp_delete", threads=2), 100)
    assert rows(server, "COUNT(*)")[0] < SIZE

    for reading in ("oltp_read_only", "oltp_point_select"):
        result = run(prepared(server, reading, threads=2), 50)
        assert rows(server, "COUNT(*), SUM(id)") == whole
        assert result.commits == 0, "nothing was changed"


def test_ids_that_the_client_makes_are_scattered_over_all_integers(mariadb: Sandbox) -> None:
    options = OltpSpec(auto_inc=False)
    result = run(prepared(mariadb, "oltp_insert", threads=4, oltp=options), 2000)
    count, negative, small = rows(mariadb, "COUNT(*), SUM(id < 0), SUM(ABS(id) < 1 << 24)")
    assert count >= result.events
    assert negative == pytest.approx(count / 2, rel=0.2)
    assert small < count / 20
    run(spec(mariadb, "oltp_insert", threads=4, oltp=options), 500)  # it begins elsewhere than the first


def test_tables_without_a_primary_key_and_without_the_index_are_made_and_used(mariadb: Sandbox) -> None:
    options = OltpSpec(secondary=True, create_secondary=False, auto_inc=False)
    assert run(prepared(mariadb, "oltp_read_write", oltp=options), 10).errors == ()
    definition = str(mariadb.query("SHOW CREATE TABLE sbtest.sbtest1")[0][1])
    assert "KEY `xid` (`id`)" in definition
    assert "PRIMARY" not in definition
    assert "k_1" not in definition
    assert "AUTO_INCREMENT" not in definition
    assert rows(mariadb, "COUNT(*), MAX(id)") == (SIZE, SIZE)


@pytest.mark.parametrize("auto_inc", ["on", "off"])
@pytest.mark.parametrize("secondary", ["on", "off"])
def test_sysbenchs_tables_and_ours_are_the_same(
    mariadb: Sandbox, tmp_path: Path, auto_inc: str, secondary: str
) -> None:
    options = OltpSpec(auto_inc=auto_inc == "on", secondary=secondary == "on")
    words = ["--table-size=100", f"--auto-inc={auto_inc}", f"--secondary={secondary}", "--events=20"]
    prepared(mariadb, "oltp_read_write", oltp=options)
    ours = mariadb.query("SHOW CREATE TABLE sbtest.sbtest1")
    for action in ("run", "cleanup", "prepare"):
        sysbench(mariadb.endpoint, tmp_path, "oltp_read_write", *words, action)
    theirs = mariadb.query("SHOW CREATE TABLE sbtest.sbtest1")
    assert ours == theirs
    assert run(spec(mariadb, "oltp_read_write", oltp=options), 20).errors == ()


@pytest.mark.parametrize(
    ("change", "workload", "message"),
    [
        ("ADD COLUMN more INT", "oltp_read_write", ""),
        ("DROP COLUMN pad", "oltp_read_write", "column pad is absent, char(60) was due"),
        ("MODIFY c TEXT", "oltp_read_write", "column c is text, char(120) was due"),
        ("MODIFY id BIGINT", "oltp_read_write", "column id is bigint(20), int was due"),
        ("MODIFY id INT NOT NULL", "oltp_insert", "no AUTO_INCREMENT, which auto_inc = on needs"),
        ("MODIFY id INT NOT NULL", "oltp_read_write", ""),
        ("MODIFY id INT NOT NULL, DROP PRIMARY KEY", "oltp_delete", "has no index on id"),
    ],
)
def test_tables_of_another_shape_are_named(
    mariadb: Sandbox, change: str, workload: str, message: str
) -> None:
    encoded = prepared(mariadb, workload)
    mariadb.query(f"ALTER TABLE sbtest.sbtest1 {change}")
    if not message:
        assert run(encoded, 5).errors == ()
        return
    with pytest.raises(_core.CoreError) as raised:
        _core.LoadRun(encoded)
    assert raised.value.kind == "measurement"
    assert "table sbtest.sbtest1" in raised.value.message
    assert message in raised.value.message


def test_fewer_rows_or_tables_than_asked_for_are_named(mariadb: Sandbox) -> None:
    prepared(mariadb, "oltp_read_write", tables=2)
    for changes, message in (
        ({"tables": 3}, "table sbtest.sbtest3 does not exist; the load needs sbtest1 to sbtest3"),
        ({"table_size": 200}, "table sbtest.sbtest1 has ids up to 100; a table_size of 200"),
    ):
        with pytest.raises(_core.CoreError, match=message):
            _core.LoadRun(spec(mariadb, "oltp_read_write", **changes))


def test_the_workload_prepares_and_runs_by_its_options(mariadb: Sandbox) -> None:
    workload = build_workload(
        "oltp_read_write", {"tables": 1, "table_size": 50, "point_selects": 1, "rand_type": "zipfian"}
    )
    assert isinstance(workload, OltpWorkload)
    mariadb.query("DROP DATABASE IF EXISTS sbtest")
    workload.prepare(mariadb)
    assert rows(mariadb, "COUNT(*)") == (50,)
    hot, cold = rows(mariadb, "SUM(k <= 5), SUM(k > 45)")
    assert hot > cold, "k is drawn by the distribution"
