"""A replica's data directory, copied: what it would do by itself as a replica, and does not in a sandbox."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flushlab.build import Build
from flushlab.bulk.limits import replica_lag_s
from flushlab.datadir import DataRoot, Snapshots
from flushlab.dataset import open_dataset
from flushlab.errors import ServerError, StorageError
from flushlab.record import Value
from flushlab.server import Sandbox, SandboxSpec
from flushlab.trial.runner import Preparation
from flushlab.workload.command import CommandWorkload
from tests.conftest import StartSandbox, flavors
from tests.waiting import wait_until

FLAVORS = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", first=2)
WORKLOAD = CommandWorkload(command="true")
PERSISTS = {"mysql@8.0", "mysql@9.7"}


@dataclass
class Pair:
    """A source, and a stopped replica that has all of it."""

    source: Sandbox
    replica: Sandbox
    uuid: str

    def connections(self) -> int:
        """How many were ever made to the source."""
        return int(self.source.query("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])


def follow(replica: Sandbox, source: Sandbox) -> None:
    old = replica.build.flavor == "mariadb" or replica.build.version < (8, 4)
    words = {"source": "MASTER", "change": "MASTER", "replica": "SLAVE"} if old else {}
    named = words.get("source", "SOURCE")
    key = f", GET_{named}_PUBLIC_KEY=1" if replica.build.version[:1] in ((8,), (9,)) else ""
    replica.query(
        f"CHANGE {words.get('change', 'REPLICATION SOURCE')} TO {named}_HOST='127.0.0.1',"
        f" {named}_PORT={source.endpoint.port}, {named}_USER='replica', {named}_PASSWORD='replica'{key}"
    )
    replica.query(f"START {words.get('replica', 'REPLICA')}")


def replication_status(server: Sandbox) -> list[tuple[Any, ...]]:
    old = server.build.flavor == "mariadb" or server.build.version < (8, 4)
    return server.query("SHOW SLAVE STATUS" if old else "SHOW REPLICA STATUS")


def has_rows(server: Sandbox, table: str) -> bool:
    try:
        return server.query(f"SELECT COUNT(*) > 0 FROM {table}") == [(1,)]
    except ServerError:
        return False


@pytest.fixture(scope="module", params=FLAVORS)
def pair(request: pytest.FixtureRequest, shared_sandbox: StartSandbox) -> Pair:
    name = request.param
    source = shared_sandbox(name, settings={"log_bin": "ON", "server_id": 11})
    replica = shared_sandbox(name, settings={"server_id": 22}, connects=True)
    source.query("CREATE USER replica@'127.0.0.1' IDENTIFIED BY 'replica'")
    source.query("GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'")
    source.query("CREATE DATABASE shop")
    source.query("CREATE TABLE shop.item (id INT PRIMARY KEY)")
    source.query("INSERT INTO shop.item VALUES (1)")
    follow(replica, source)
    wait_until(lambda: has_rows(replica, "shop.item"), "the replica has the row")
    wait_until(lambda: replica_lag_s(replica) == [0], "the replica says that it is not behind")
    replica.query("CREATE EVENT shop.tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO shop.item VALUES (NULL)")
    replica.query("INSERT INTO mysql.plugin VALUES ('gone', 'gone.so')")
    if name in PERSISTS:
        replica.query("SET PERSIST innodb_flush_log_at_trx_commit = 2")
        replica.query("SET PERSIST sync_binlog = 0")
    uuid = "" if replica.build.flavor == "mariadb" else str(replica.query("SELECT @@server_uuid")[0][0])
    replica.stop()
    return Pair(source, replica, uuid)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that servers may write to."""
    with tempfile.TemporaryDirectory(prefix="flh-", dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def prepared(build: Build, datadir: Path, snapshots: Snapshots) -> Preparation:
    return Preparation(
        build=build,
        data_root=DataRoot.open(),
        dataset=open_dataset(datadir),
        snapshots=snapshots,
        progress=lambda text: None,
    )


def test_copied_replica_is_nobodys_replica_and_runs_no_event(pair: Pair, snapshots: Snapshots) -> None:
    build = pair.replica.build
    preparation = prepared(build, pair.replica.datadir, snapshots)
    before = pair.connections()
    snapshot = preparation.snapshot(WORKLOAD, {})
    server = Sandbox.start(SandboxSpec(build, snapshot=snapshot, snapshots=snapshots, connects=True))
    with server:
        assert pair.connections() == before
        assert replication_status(server) == []
        assert server.query("SELECT * FROM shop.item") == [(1,)]
        assert server.query("SELECT * FROM mysql.plugin WHERE name = 'gone'") == []
        assert server.read_back(["event_scheduler", "innodb_flush_log_at_trx_commit"]) == {
            "event_scheduler": "OFF",
            "innodb_flush_log_at_trx_commit": 1,
        }
        if pair.uuid:
            assert server.query("SELECT @@server_uuid") != [(pair.uuid,)]
        kept = {path.name: path.read_bytes() for path in server.datadir.iterdir() if path.is_file()}
    assert not [name for name, content in kept.items() if b"replica" in content and name.endswith(".info")]


def test_what_was_persisted_is_told(pair: Pair) -> None:
    persists = pair.replica.build.flavor == "mysql" and pair.replica.build.version >= (8, 0)
    assert open_dataset(pair.replica.datadir).settings() == (
        {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"} if persists else {}
    )


def test_replica_that_starts_again_in_a_sandbox_waits_to_be_told(pair: Pair) -> None:
    before = pair.connections()
    pair.replica.start_again()
    ((*status,),) = replication_status(pair.replica)
    assert status.count("No") >= 2, status  # neither its receiver nor its applier runs
    assert pair.connections() == before


@pytest.mark.usefixtures("unconfined")
def test_table_whose_file_lies_elsewhere_is_refused(sandbox: StartSandbox, elsewhere: Path) -> None:
    server = sandbox("mariadb@10.11", arguments=["--symbolic-links"])
    server.query("CREATE DATABASE shop")
    server.query(f"CREATE TABLE shop.item (id INT PRIMARY KEY) DATA DIRECTORY = '{elsewhere}'")
    server.stop()
    with pytest.raises(StorageError, match=r"stored outside the data directory, see item\.isl"):
        open_dataset(server.datadir)


@pytest.mark.usefixtures("unconfined")
def test_table_that_only_the_dictionary_knows_elsewhere_is_refused(
    sandbox: StartSandbox, elsewhere: Path, snapshots: Snapshots
) -> None:
    server = sandbox("mysql@9.7", arguments=[f"--innodb-directories={elsewhere}"])
    server.query("CREATE DATABASE shop")
    server.query(f"CREATE TABLE shop.item (id INT PRIMARY KEY) DATA DIRECTORY = '{elsewhere}'")
    server.stop()
    preparation = prepared(server.build, server.datadir, snapshots)
    with pytest.raises(StorageError, match="stored outside the data directory"):
        preparation.snapshot(WORKLOAD, {})


def test_layout_of_the_base_holds_for_the_first_start_too(
    sandbox: StartSandbox, snapshots: Snapshots
) -> None:
    layout: dict[str, Value] = {
        "lower_case_table_names": 1,
        "innodb_data_file_path": "ibdata1:20M;ibdata2:10M:autoextend",
    }
    server = sandbox("mariadb@10.11", settings=layout)
    server.query("CREATE DATABASE Shop")
    server.stop()
    preparation = prepared(server.build, server.datadir, snapshots)
    snapshot = preparation.snapshot(WORKLOAD, {**layout, "sync_binlog": 0})
    with Sandbox.start(
        SandboxSpec(server.build, snapshot=snapshot, snapshots=snapshots, settings=layout)
    ) as copy:
        assert ("shop",) in copy.query("SHOW DATABASES")


@pytest.mark.parametrize(
    "name", flavors("mariadb@10.11", "mariadb@11.8", "mariadb@11.4", "mysql@5.7", "mysql@8.0", "mysql@9.7")
)
def test_kernel_refuses_a_sandbox_every_connection(name: str, sandbox: StartSandbox) -> None:
    source, other = sandbox(name), sandbox(name, settings={"server_id": 22})
    before = source.query("SHOW GLOBAL STATUS LIKE 'Connections'")
    follow(other, source)
    wait_until(lambda: 2003 in replication_status(other)[0], "the sandbox was refused")  # CR_CONN_HOST_ERROR
    assert source.query("SHOW GLOBAL STATUS LIKE 'Connections'") == before
    assert "Seccomp:\t2" in Path(f"/proc/{other.pid}/status").read_text()
