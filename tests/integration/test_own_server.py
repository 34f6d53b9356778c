"""Campaigns on somebody's own MySQL, which is no cluster: what an account sees, and that all is as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flushlab.campaign import series, tune
from flushlab.campaign.bench import bench
from flushlab.campaign.pool.remote import RemotePool
from flushlab.errors import UsageError
from flushlab.machine import state_path
from flushlab.record import Value
from flushlab.server import Sandbox
from flushlab.server.remote import made_tables, put_back
from flushlab.workload.protocol import Timing
from tests.conftest import StartSandbox

FLUSH = "innodb_flush_log_at_trx_commit"
COMMITS = (FLUSH, "sync_binlog")
UPSERT: dict[str, Any] = {"workload": "upsert", "threads": 2, "tables": 1, "table_size": 50}
ALLOWED: dict[str, Any] = {"allow_writes": True, "allow_set_global": True}
QUICK = Timing(warm_up_s=0.1, max_warm_up_s=0.1)
PLAN = """
title = "What is tried on somebody's own server"
blocks = 2
window = 0.5
best = false
[workload]
name = "upsert"
threads = 2
tables = 1
table_size = 50
[[arm]]
name = "relaxed"
text = "Commits are written, not synced."
settings = { innodb_flush_log_at_trx_commit = 2, sync_binlog = 100 }
[[arm]]
name = "restarted"
text = "What needs a restart."
settings = { innodb_flush_method = "O_DSYNC" }
"""


@dataclass(frozen=True)
class Owned:
    """A server, and an account of its owner's."""

    server: Sandbox

    def dsn(self, user: str) -> str:
        return f"mysql://{user}:secret@127.0.0.1:{self.server.endpoint.port}/"

    @property
    def state(self) -> tuple[dict[str, Value], set[str], list[Path]]:
        """How it commits, its databases, and what the next flushlab would have to undo."""
        folders = (state_path() / name for name in (put_back.FOLDER, made_tables.FOLDER))
        return (
            dict(self.server.read_back(COMMITS)),
            {str(name) for (name,) in self.server.query("SHOW DATABASES")},
            [path for folder in folders for path in folder.glob("*")],
        )


@pytest.fixture(scope="module")
def mysql(shared_sandbox: StartSandbox) -> Sandbox:
    server = shared_sandbox(
        "mysql@8.0", settings={"log_bin": "ON", "sync_binlog": 1, FLUSH: 1, "server_id": 7}, kept=True
    )
    for user, rights in (("owner", "ALL"), ("guest", "SELECT, INSERT, UPDATE, CREATE, DROP, PROCESS")):
        server.query(f"CREATE USER {user}@'%' IDENTIFIED WITH mysql_native_password BY 'secret'")
        server.query(f"GRANT {rights} ON *.* TO {user}@'%'")
    return server


@pytest.fixture
def owned(mysql: Sandbox, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owned]:
    """The server, as its owner left it."""
    monkeypatch.setattr(RemotePool, "slice_s", 0.2)
    monkeypatch.setattr(series, "parse_timing", lambda seconds: replace(QUICK, seconds=seconds))
    monkeypatch.setattr(tune, "SIDE_BY_SIDE", replace(QUICK, seconds=0.2))
    found = Owned(mysql)
    before = found.state
    yield found
    assert found.state == before


def test_a_series_says_what_takes_a_restart_and_measures_the_rest(owned: Owned, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    done = series.series(plan, dsn=owned.dsn("owner"), **ALLOWED)
    assert {arm.name: arm.outcome for arm in done.arms}["relaxed"] == "measured"
    (restarted,) = [arm for arm in done.arms if arm.name == "restarted"]
    assert restarted.comparison is None
    assert restarted.reason.startswith("innodb_flush_method needs a restart")


def test_workloads_with_tables_that_lie_apart_alternate_and_their_tables_are_dropped(
    owned: Owned, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    arms = {"other kind": 'name = "oltp_update_index"', "other size": "table_size = 60"}
    more = (f'[[arm]]\nname = "{name}"\nworkload = {{ {change} }}\n' for name, change in arms.items())
    plan.write_text(PLAN.partition("[[arm]]")[0] + "".join(more))
    done = series.series(plan, dsn=owned.dsn("owner"), **ALLOWED)
    kind, size = done.arms
    assert (kind.outcome, kind.unit) == ("measured", "transactions/s")
    assert kind.comparison is not None and kind.result
    assert (size.outcome, size.comparison) == ("skipped", None)
    assert size.reason.startswith("it needs other tables than the base")


def test_all_missing_permissions_are_named_at_once_before_anything_is_announced(owned: Owned) -> None:
    said: list[str] = []
    asked: dict[str, Any] = {"dsn": owned.dsn("owner"), "progress": said.append, **UPSERT}
    with pytest.raises(UsageError, match="settings of your own server are left alone") as both:
        bench(**asked, settings={FLUSH: 2})
    assert "upsert writes, and your own server is only read" in both.value.message
    assert {"--allow-writes", "--allow-set-global"} <= set(str(both.value.hint).split())
    with pytest.raises(UsageError, match=r"^upsert writes, and your own server is only read$"):
        bench(**asked, settings={FLUSH: 2}, allow_set_global=True)
    assert [line for line in said if "--allow-set-global" in line] == []


def test_a_tuning_tries_what_commits_and_sets_nothing(owned: Owned) -> None:
    asked: dict[str, Any] = {"dsn": owned.dsn("owner"), "trials": 100, "seed": 1, "floor": "second", **UPSERT}
    foreseen = tune.tune(**asked, dry_run=True).forecast
    assert foreseen is not None
    tried = [one.name for one in foreseen.arms]
    assert f"{FLUSH}=2" in tried
    others = {name for one in tried for name in re.findall(r"(\w+)=", one)} - {FLUSH}
    assert "sync_binlog" not in others  # every value but 1 is below the floor

    done = tune.tune(**{**asked, "trials": 30}, fixed=sorted(others), **ALLOWED)
    assert {name: done.base.settings[name] for name in COMMITS} == {FLUSH: 1, "sync_binlog": 1}
    assert done.base.result is not None and done.control is not None and done.control.result is not None
    not_tried = [one.text for one in done.warnings if one.slug == "not-tried"]
    assert any("innodb_flush_method=" in text and "needs a restart" in text for text in not_tried)


def test_the_binary_log_of_a_server_that_cannot_be_seen_is_told_or_said_to_be_hidden(owned: Owned) -> None:
    asked: dict[str, Any] = {"duration": 1, "allow_writes": True, **UPSERT, "threads": 1}
    seen = bench(dsn=owned.dsn("owner"), **asked)
    commits, binlog = (seen.load.commits or 0) if seen.load else 0, seen.file_activity["binlog"]
    assert commits > 0 and binlog.bytes is not None
    assert commits - 2 <= (binlog.fsyncs or 0) <= 1.2 * commits + 20, "sync_binlog=1, one connection"
    owned.server.query("CREATE USER blind@'%' IDENTIFIED WITH mysql_native_password BY 'secret'")
    owned.server.query("GRANT PROCESS, REPLICATION CLIENT ON *.* TO blind@'%'")
    owned.server.query("GRANT ALL ON upsert.* TO blind@'%'")
    try:
        hidden = bench(dsn=owned.dsn("blind"), **asked)
    finally:
        owned.server.query("DROP USER blind@'%'")
    assert hidden.file_activity["binlog"].fsyncs is None
    assert hidden.performance is not None and "GRANT SELECT" in hidden.performance.untold["io_by_file"]


def test_a_tuning_of_your_server_sets_nothing_below_the_floor_to_offer_it(owned: Owned) -> None:
    asked: dict[str, Any] = {"dsn": owned.dsn("owner"), **UPSERT}
    foreseen = tune.tune(**asked, dry_run=True).forecast
    assert foreseen is not None
    assert not any(FLUSH in one.name for one in foreseen.arms), "every other value is below strict"
    with pytest.raises(UsageError, match="sets nothing below the floor there"):
        tune.tune(**asked, offer="second", dry_run=True)


def test_a_tuning_with_nothing_left_to_try_says_so_and_runs_nothing(owned: Owned) -> None:
    asked: dict[str, Any] = {"floor": "strict", **UPSERT}
    foreseen = tune.tune(**asked, dsn=owned.dsn("owner"), dry_run=True).forecast
    assert foreseen is not None
    with pytest.raises(UsageError, match=r"the account .* lacks"):
        tune.tune(**asked, dsn=owned.dsn("guest"), dry_run=True)
    names = {name for one in foreseen.arms for name in re.findall(r"(\w+)=", one.name)}
    done = tune.tune(**asked, dsn=owned.dsn("guest"), fixed=sorted(names))  # which needs no permission
    assert (done.ending, done.trials) == ("done", 0)
    assert done.tuning is not None and done.tuning.tried == 0
    assert any("innodb_flush_method=" in one.text for one in done.warnings if one.slug == "not-tried")


def test_a_replica_is_not_written_to_and_who_may_not_see_that_lacks_a_right(owned: Owned) -> None:
    asked: dict[str, Any] = {"duration": 1, "allow_writes": True, **UPSERT}
    owned.server.query("CHANGE MASTER TO MASTER_HOST='db.example', MASTER_PORT=1")
    try:
        with pytest.raises(UsageError, match=r"is a replica of db\.example"):
            bench(dsn=owned.dsn("owner"), **asked)
    finally:
        owned.server.query("RESET SLAVE ALL")
    with pytest.raises(UsageError, match=r"^the account 'guest'@'%' lacks REPLICATION CLIENT$") as refused:
        bench(dsn=owned.dsn("guest"), **asked)
    assert refused.value.hint == "GRANT REPLICATION CLIENT ON *.* TO 'guest'@'%'"
