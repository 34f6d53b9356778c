"""Somebody's own cluster, reached over TCP: filled, measured and compared, and as it was afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from flushlab import _core
from flushlab.bulk.fill import fill
from flushlab.campaign import series
from flushlab.campaign.bench import bench
from flushlab.campaign.compare import compare
from flushlab.campaign.pool.remote import RemotePool
from flushlab.errors import MeasurementError, ServerError, UsageError
from flushlab.record import Arm, Value
from flushlab.server.remote import made_tables
from flushlab.server.remote.login import from_nodes
from flushlab.server.remote.server import RemoteServer, member, members, require_whole
from flushlab.trial import sliced
from flushlab.trial.runner import NotSwitched
from flushlab.workload.protocol import Timing
from tests.integration.cluster.conftest import ALLOWED, UPSERT, left
from tests.integration.cluster.own import FLUSH, Own


@pytest.mark.parametrize("interrupted", [False, True])
def test_commits_of_every_node_are_relaxed_while_rows_come_and_put_back(own: Own, interrupted: bool) -> None:
    rows, database = (100_000, "stopped") if interrupted else (100, "own")
    during: list[Value] = []

    def say(line: str) -> None:
        if line.startswith("loading by"):
            during.extend(own.flushes)
            if interrupted:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
        fill("users", rows=rows, dsn=own.dsn(database), create=True, allow_set_global=True, progress=say)
    assert (during, own.flushes, left()) == ([2, 2], [1, 1], [])
    ((there,),) = own.cluster.query(f"SELECT COUNT(*) FROM {database}.users")
    assert (there < rows) is interrupted


def test_all_nodes_may_be_named_and_none_may_be_missing(own: Own) -> None:
    with ExitStack() as stack:
        named = [stack.enter_context(RemoteServer(one)) for one in from_nodes(own.dsn(nodes=2))]
        assert len(members(named, stack)) == 2
        with pytest.raises(UsageError, match="1 of the cluster's 2 nodes can be reached"):
            require_whole([member(named[0])])


def test_a_bench_sets_and_tells_of_every_node_and_leaves_nothing(own: Own) -> None:
    before, during = own.databases, list[Value]()

    def say(line: str) -> None:
        if line.startswith("running"):
            during.extend(own.flushes)
            assert own.databases - before == {"upsert"}

    asked: dict[str, Any] = {"dsn": own.dsn(), "settings": {FLUSH: 2}, "cluster_load": "spread"}
    for seconds in (1, 5, 30):  # until each node has come to something, on a machine with little time
        during.clear()
        trial = bench(**asked, duration=seconds, progress=say, **UPSERT, **ALLOWED)
        if all(node.commits for node in trial.nodes) and trial.nodes:
            break
    assert trial.server is not None and trial.server.nodes == 2
    assert all(node.commits for node in trial.nodes) and len(trial.nodes) == 2
    assert (trial.settings[FLUSH], during) == (2, [2, 2])
    assert (own.flushes, own.databases, left()) == ([1, 1], before, [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "upsert writes, and your own server is only read"),
        ({"workload": "oltp_point_select", "tables": 9}, "there is no table sbtest.sbtest"),
        (
            {"allow_writes": True, "settings": {FLUSH: 2}},
            f"{FLUSH}: settings of your own server",
        ),
        ({**ALLOWED, "settings": {"innodb_doublewrite": "OFF"}}, "innodb_doublewrite: it needs a restart"),
        ({"allow_writes": True, "threads": 1000}, "1000 connections are needed, and max_connections is"),
    ],
)
def test_what_was_not_allowed_is_not_done(own: Own, given: dict[str, Any], message: str) -> None:
    before = own.databases
    with pytest.raises(UsageError, match=message):
        bench(dsn=own.dsn(), **{**UPSERT, **given})
    assert (own.flushes, own.databases, left()) == ([1, 1], before, [])


def test_tables_that_somebody_else_makes_meanwhile_stay(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, theirs = _core.prepare_tables, "upsert_primary2"

    def meanwhile(spec: bytes) -> None:
        own.cluster.query(f"CREATE TABLE upsert.{theirs} (theirs INT PRIMARY KEY)")
        prepare(spec)

    monkeypatch.setattr(_core, "prepare_tables", meanwhile)
    try:
        with pytest.raises(ServerError, match="already exists") as raised:
            bench(dsn=own.dsn(), **{**UPSERT, "tables": 2}, **ALLOWED)
        assert "they were left alone" in str(raised.value.hint)
        assert own.tables_of("upsert") == [theirs]
        with pytest.raises(MeasurementError, match="but not upsert_primary1") as other:
            bench(dsn=own.dsn(), **{**UPSERT, "tables": 2}, **ALLOWED)
        assert "server reset" not in str(other.value.hint)
        assert own.tables_of("upsert") == [theirs]
    finally:
        own.cluster.query("DROP DATABASE IF EXISTS upsert")
    assert left() == []


def test_ctrl_c_drops_no_table_of_the_same_name_that_somebody_else_has_made(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, table = _core.prepare_tables, "upsert.upsert_primary1"

    def interrupted(spec: bytes) -> None:
        prepare(spec)
        own.cluster.query(f"DROP TABLE {table}")
        own.cluster.query(f"CREATE TABLE {table} (theirs INT PRIMARY KEY)")
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(_core, "prepare_tables", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            bench(dsn=own.dsn(), **{**UPSERT, "tables": 2}, **ALLOWED)
        assert own.tables_of("upsert") == ["upsert_primary1"]
        assert own.cluster.query(f"SHOW COLUMNS FROM {table}")[0][0] == "theirs"
    finally:
        own.cluster.query("DROP DATABASE IF EXISTS upsert")
    assert left() == []


@pytest.mark.parametrize("theirs", [[], ["theirs"]])
def test_the_next_command_drops_what_a_killed_one_has_made_and_nothing_else(
    own: Own, theirs: list[str]
) -> None:
    program = f"""
import os
from flushlab.campaign.bench import bench

def say(line: str) -> None:
    if line.startswith("running"):
        os.kill(os.getpid(), {int(signal.SIGKILL)})

bench(dsn={own.dsn()!r}, progress=say, **{UPSERT}, **{ALLOWED})
"""
    before = own.databases
    try:
        killed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert own.tables_of("upsert") == ["upsert_primary1"]
        assert [path.parent.name for path in left()] == [made_tables.FOLDER]
        for name in theirs:
            own.cluster.query(f"CREATE TABLE upsert.{name} (id INT PRIMARY KEY)")
        command = [sys.executable, "-m", "flushlab", "server", "status"]
        next_one = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "dropped what an interrupted flushlab had made: upsert.upsert_primary1" in next_one.stderr
        assert left() == []
        assert own.databases - before == ({"upsert"} if theirs else set())
        assert not theirs or own.tables_of("upsert") == theirs
    finally:
        own.cluster.query("DROP DATABASE IF EXISTS upsert")


def test_nodes_that_differ_are_not_compared(own: Own) -> None:
    own.cluster.nodes[1].query(f"SET GLOBAL {FLUSH} = 0")
    with pytest.raises(Exception, match=f"{FLUSH} is 0 on .* and 1 on"):
        bench(dsn=own.dsn(), settings={FLUSH: 2}, **UPSERT, **ALLOWED)
    assert own.flushes == [1, 0]


def test_a_comparison_switches_every_node_and_puts_all_back_after_ctrl_c_too(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemotePool, "slice_s", 0.2)
    quick = Timing(warm_up_s=0.1, max_warm_up_s=0.1)
    monkeypatch.setattr(series, "parse_timing", lambda seconds: replace(quick, seconds=seconds))
    before, seen = own.databases, list[tuple[Value, ...]]()
    become = sliced._KeptServer.become

    def became(kept: sliced._KeptServer, arm: Arm) -> NotSwitched | None:
        refused = become(kept, arm)
        seen.append(tuple(own.flushes))
        if own.flushes == [2, 2] and not resumed:
            raise KeyboardInterrupt
        return refused

    monkeypatch.setattr(sliced._KeptServer, "become", became)
    resumed = False
    where = {"dsn": own.dsn(), **ALLOWED}
    first = compare(["base", f"{FLUSH}=2"], duration=3.0, blocks=2, **where, **UPSERT)
    assert first.ending == "interrupted"
    assert (own.flushes, own.databases, left()) == ([1, 1], before, [])
    resumed = True
    done = compare(resume=first.campaign_id, **where)
    assert set(seen) == {(1, 1), (2, 2)}
    assert (own.flushes, own.databases, left()) == ([1, 1], before, [])
    (arm,) = done.arms
    assert done.ending == "done" and arm.comparison is not None
    assert "external" in {one.slug for one in done.warnings}
