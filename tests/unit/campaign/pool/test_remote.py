"""What somebody's own server may be used for, before one is reached."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.campaign.bench import bench
from flushlab.campaign.compare import compare
from flushlab.campaign.pool import remote_use
from flushlab.campaign.pool.protocol import Use
from flushlab.campaign.pool.remote import RemotePool, RemoteTarget, driving
from flushlab.campaign.series import series
from flushlab.campaign.target import target_of
from flushlab.campaign.tune import require_sensible, tune
from flushlab.errors import UsageError
from flushlab.record import Endpoint
from flushlab.server.remote.login import Address
from flushlab.server.remote.rights import Needs
from flushlab.spec.kinds import TuneSpec
from flushlab.spec.parts import RemoteAccess, ServerSpec, WorkloadSpec
from flushlab.workload.parse import build_workload
from tests.unit.records import trial
from tests.unit.settings.servers import MYSQL84

DSN = "mysql://me@127.0.0.1:1"
TWO = ["base", "sync_binlog=0"]
COMMANDS = [
    pytest.param(bench, id="bench"),
    pytest.param(lambda **given: compare(TWO, **given), id="compare"),
    pytest.param(lambda **given: tune(**given), id="tune"),
]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dsn": DSN, "cluster": 3}, "--cluster is for servers that flushlab starts, but --dsn names a"),
        ({"dsn": DSN, "server": "mysql@8.0"}, "--server is for servers that flushlab starts"),
        ({"host": "db1", "server": "mysql@8.0"}, "--server is for servers that flushlab starts, but --host"),
        ({"dsn": DSN, "port": 3307}, "--dsn and --port cannot be combined"),
        ({"host": "db1", "socket": "a.sock"}, "--socket and --host cannot be combined"),
        ({"dsn": DSN, "ssl_mode": "required"}, "--ssl-mode is for servers that flushlab starts"),
        ({"dsn": DSN, "defaults_file": "my.cnf"}, "--dsn and --defaults-file cannot be combined"),
        ({"dsn": "db1"}, "--dsn is not a DSN"),
        ({"allow_writes": True}, "--allow-writes needs your own server"),
        ({"allow_set_global": True}, "--allow-set-global needs your own server"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_flags_of_other_servers_are_refused(command: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        command(**given)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("command", "given", "flag"),
    [(tune, {"crash": True}, "--crash"), (tune, {"fresh": True}, "--fresh"),
     (lambda **given: series("throwaway", **given), {"base": "my.cnf"}, "--base")],
)  # fmt: skip
def test_what_needs_servers_of_flushlabs_own_is_refused(
    command: Any, given: dict[str, Any], flag: str
) -> None:
    with pytest.raises(UsageError, match=f"{flag} is for servers that flushlab starts"):
        command(dsn=DSN, **given)


def test_option_files_are_not_for_a_server_that_has_its_own(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\n")
    with pytest.raises(UsageError, match=r"my\.cnf cannot be compared on your own server"):
        compare(["base", str(file)], dsn=DSN)


@pytest.mark.parametrize(("remote", "refused"), [(RemoteAccess(dsn=DSN), False), (RemoteAccess(), True)])
def test_whether_your_server_is_a_cluster_is_found_out_there(remote: RemoteAccess, refused: bool) -> None:
    spec = TuneSpec(remote=remote, workload=WorkloadSpec(options={"cluster_load": "spread"}))
    needs_nodes = pytest.raises(UsageError, match="--cluster-load spread needs a cluster")
    with needs_nodes if refused else nullcontext():
        require_sensible(spec, target_of(spec))


def test_a_campaign_goes_on_where_it_ran_or_not_at_all() -> None:
    there = TuneSpec(remote=RemoteAccess(dsn="mysql://USER:PASSWORD@db1:3306,db2:3306"))
    here, now = TuneSpec(), TuneSpec(remote=RemoteAccess(dsn=DSN))
    with pytest.raises(UsageError, match="runs on your own server, db1:3306, db2:3306: its password is not"):
        target_of(here).resuming(there)
    with pytest.raises(UsageError, match="runs on servers that flushlab starts"):
        target_of(now).resuming(here)
    assert target_of(now).resuming(there) == target_of(now)
    started = TuneSpec(server=ServerSpec(server="mysql@8.0.36"))
    assert target_of(here).resuming(started) == target_of(started)


def test_programs_are_not_for_somebodys_server() -> None:
    server: Any = None
    with pytest.raises(UsageError, match="command: true is for servers that flushlab starts"):
        driving(build_workload("command: true", {}), server)


@pytest.mark.parametrize(("log_bin", "said"), [("OFF", True), ("ON", False)])
def test_a_single_run_says_which_of_its_settings_have_no_effect(
    monkeypatch: pytest.MonkeyPatch, log_bin: str, said: bool
) -> None:
    measured = trial({"sync_binlog": 1, "log_bin": log_bin})
    pool = SimpleNamespace(once=lambda *_: measured)
    monkeypatch.setattr(RemoteTarget, "open", lambda *_: nullcontext(pool))
    warnings = bench(dsn=DSN, allow_writes=True, allow_set_global=True, settings={"sync_binlog": 1}).warnings
    expected = ["sync_binlog: no effect without a binary log"] if said else []
    assert [one.text for one in warnings] == expected


class Node:
    """A server that answers these statements, by a part of them; it is full, or none that takes writes."""

    identity = MYSQL84
    address = SimpleNamespace(name="db1:3306")

    def __init__(self, answers: dict[str, list[tuple[Any, ...]]], most: int = 151) -> None:
        self._answers, self._most = answers, most

    def query(self, sql: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
        known = {"Threads_connected": [("Threads_connected", "1")], **self._answers}
        return next((rows for part, rows in known.items() if part in sql), [])

    def read_back(self, names: list[str]) -> dict[str, int]:
        return dict.fromkeys(names, self._most)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Node({"read\\_only": [("super_read_only", "ON")]}), "takes no writes: super_read_only is ON"),
        (Node({"SHOW REPLICA STATUS": [("", "db0", *[""] * 50)]}), "is a replica of"),
        (Node({}, most=20), "48 connections are needed, and max_connections is 20"),
        (Node({}), ""),
    ],
)
def test_a_dry_run_is_refused_what_the_run_would_be(
    monkeypatch: pytest.MonkeyPatch, node: Any, message: str, *, allowed: bool
) -> None:
    needed: list[Needs] = []
    monkeypatch.setattr(remote_use, "require_rights", lambda _, needs: needed.append(needs))
    group: Any = SimpleNamespace(
        nodes=(node,),
        address=Address(endpoint=Endpoint(user="me", password="", host="db1")),
        identity=MYSQL84,
        query=node.query,
    )
    target = RemoteTarget.of(RemoteAccess(dsn=DSN, allow_writes=allowed))
    use = Use([build_workload("upsert", {})], None, [{}], 48, None)
    with pytest.raises(UsageError, match=message) if message else nullcontext():
        RemotePool(group, target, dry_run=True).used(use, lambda _: None).__enter__()
    assert all(one.replication for one in needed), "what is not permitted yet counts as permitted"
