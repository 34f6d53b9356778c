"""Series, tunings and failovers on somebody's own cluster, which is as it was afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flushlab.campaign import series, tune
from flushlab.campaign.bench import bench
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.pool.remote import RemotePool
from flushlab.campaign.pool.remote_use import free_connections
from flushlab.errors import BelowFloor, UsageError
from flushlab.record import Arm, Value
from flushlab.server.remote import put_back
from flushlab.server.remote.login import from_nodes
from flushlab.server.remote.server import open_group
from flushlab.trial import sliced
from flushlab.trial.runner import NotSwitched
from flushlab.workload import engine
from flushlab.workload.protocol import Timing
from tests.integration.cluster.conftest import ALLOWED, UPSERT, left
from tests.integration.cluster.own import FLUSH, Own
from tests.waiting import wait_until

QUICK = Timing(warm_up_s=0.1, max_warm_up_s=0.1)
PLAN = """
title = "What is tried on somebody's own cluster"
blocks = 2
window = 0.5
best = false
[workload]
name = "upsert"
threads = 2
tables = 1
table_size = 50
[base]
settings = { innodb_doublewrite = "OFF", innodb_flush_log_at_trx_commit = 1 }
[[arm]]
name = "relaxed"
text = "Commits are written, not synced."
settings = { innodb_flush_log_at_trx_commit = 2 }
[[arm]]
name = "restarted"
text = "What needs a restart."
settings = { innodb_log_buffer_size = "64M" }
[[arm]]
name = "larger"
text = "Tables of its own."
workload = { table_size = 60 }
"""


@pytest.fixture
def slices(own: Own, monkeypatch: pytest.MonkeyPatch) -> set[tuple[Value, ...]]:
    """Short slices; the trx_commit values of the nodes in them."""
    monkeypatch.setattr(RemotePool, "slice_s", 0.2)
    monkeypatch.setattr(series, "parse_timing", lambda seconds: replace(QUICK, seconds=seconds))
    monkeypatch.setattr(tune, "SIDE_BY_SIDE", replace(QUICK, seconds=0.2))
    seen, become = set[tuple[Value, ...]](), sliced._KeptServer.become

    def became(kept: sliced._KeptServer, arm: Arm) -> NotSwitched | None:
        refused = become(kept, arm)
        seen.add(tuple(own.flushes))
        return refused

    monkeypatch.setattr(sliced._KeptServer, "become", became)
    return seen


def test_a_series_leaves_out_what_takes_a_restart_and_puts_all_back(
    own: Own, slices: set[tuple[Value, ...]], tmp_path: Path
) -> None:
    before, said = own.databases, list[str]()
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)

    def run(**more: Any) -> CampaignFacts:
        return series.series(plan, dsn=own.dsn(), progress=said.append, **more)

    foreseen = run(dry_run=True).forecast
    assert foreseen is not None and foreseen.resources.servers == 0
    assert (
        len(
            [what for what in foreseen.writes.values() if f"{FLUSH} is 1 or 2, in alternating slices" in what]
        )
        == 2
    )
    with pytest.raises(UsageError, match=f"{FLUSH}: settings of your own server are left alone"):
        run(allow_writes=True)
    assert (slices, own.databases, left()) == (set(), before, [])

    done = run(**ALLOWED)
    why = {arm.name: arm.reason for arm in done.arms}
    assert [arm.name for arm in done.arms if arm.outcome == "measured"] == ["relaxed"]
    assert why["restarted"].startswith("innodb_log_buffer_size needs a restart")
    assert "other tables" in why["larger"]
    assert "innodb_doublewrite=OFF" in next(one.text for one in done.warnings if one.slug == "base-left-out")
    assert any(line.startswith("--allow-set-global: for about") for line in said)
    assert slices == {(1, 1), (2, 2)}
    assert (own.flushes, own.databases, left()) == ([1, 1], before, [])


def test_a_tuning_tries_what_the_cluster_takes_while_it_runs_and_sets_nothing(
    own: Own, slices: set[tuple[Value, ...]]
) -> None:
    before = own.databases
    kept = (
        "binlog_cache_size",
        "wsrep_slave_threads",
        "wsrep_provider_gcs_fc_limit",
        "wsrep_provider_evs_user_send_window",
    )
    asked = {"dsn": own.dsn(), "floor": "second", "fixed": kept, "trials": 20, "seed": 1, **UPSERT}
    foreseen = tune.tune(**asked, dry_run=True).forecast
    assert foreseen is not None
    assert [one.name for one in foreseen.arms] == [f"{FLUSH}=2"]
    assert (slices, own.databases) == (set(), before)

    done = tune.tune(**asked, **ALLOWED)
    assert done.server.nodes == 2
    assert done.base.result is not None and done.control is not None and done.control.result is not None
    assert (done.base.settings[FLUSH], done.base.recovery_s) == (1, None)
    not_tried = [one.text for one in done.warnings if one.slug == "not-tried"]
    assert any("innodb_io_capacity=" in text and "shows later" in text for text in not_tried)
    assert slices == {(1, 1), (2, 2)}
    assert (own.flushes, own.databases, left()) == ([1, 1], before, [])

    own.set_flushes(0)
    with pytest.raises(BelowFloor, match="below the floor strict"):
        tune.tune(**{**asked, "fixed": (*kept, FLUSH), "floor": "strict"}, **ALLOWED)


def test_a_node_that_takes_no_writes_and_a_cluster_that_is_busy_are_left_alone(own: Own) -> None:
    before = own.databases
    own.cluster.nodes[1].query("SET GLOBAL read_only = ON")
    try:
        with pytest.raises(UsageError, match="takes no writes: read_only is ON"):
            bench(dsn=own.dsn(), **UPSERT, **ALLOWED)
    finally:
        own.cluster.nodes[1].query("SET GLOBAL read_only = OFF")
    with open_group(from_nodes(own.dsn())) as server:
        free = free_connections(server)
    with pytest.raises(UsageError, match=rf"{free + 1} connections are needed, .* others use"):
        bench(dsn=own.dsn(), **{**UPSERT, "threads": free + 1}, **ALLOWED)
    assert own.databases == before


def test_a_load_goes_on_when_a_node_dies(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = own.cluster.nodes
    wait = engine._wait

    def killed(load: Any, *more: Any) -> None:
        first.kill()
        wait_until(lambda: status(second, "wsrep_cluster_size") == "1", "the other one goes on")
        commits = int(status(second, "wsrep_local_commits"))
        wait_until(lambda: int(status(second, "wsrep_local_commits")) > commits, "the load goes on there")
        wait(load, *more)

    second.query("SET GLOBAL wsrep_provider_options = 'pc.ignore_sb=YES; evs.suspect_timeout=PT1S'")
    before = own.databases
    monkeypatch.setattr(engine, "_wait", killed)
    said = list[str]()
    try:
        trial = bench(
            dsn=own.dsn(),
            settings={FLUSH: 2},
            duration=1.0,
            cluster_load="failover",
            progress=said.append,
            **UPSERT,
            **ALLOWED,
        )
        assert [one.node for one in trial.lost_nodes] == [1]
        assert "node-lost" in {one.slug for one in trial.warnings}
        assert [node.node for node in trial.nodes] == [2]
        assert trial.deltas == {}
        assert second.read_back([FLUSH]) == {FLUSH: 1}
        assert {str(name) for (name,) in second.query("SHOW DATABASES")} == before
        assert any("could not be put back" in line for line in said)
    finally:
        own.start_again(monkeypatch)
        second.query("SET GLOBAL wsrep_provider_options = 'pc.ignore_sb=NO; evs.suspect_timeout=PT5S'")
    assert [path.parent.name for path in left()] == [put_back.FOLDER]


def status(node: Any, name: str) -> str:
    return str(node.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])
