"""What `server start` is asked for, before anything is started."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from flushlab.build.galera import Galera
from flushlab.errors import HarnessError, UsageError
from flushlab.process import myself, run_folder
from flushlab.process.identity import ProcessIdentity
from flushlab.process.run_record import RunRecord, claim
from flushlab.record import DiskProfile, Storage
from flushlab.server import Sandbox, SandboxSpec, start
from flushlab.server import start as stopping
from flushlab.server.sandbox import kept
from flushlab.server.sandbox.node import Membership, NodeAddress
from flushlab.server.sandbox.option_files import SandboxPaths
from flushlab.server.start import require_unused, sandbox, stop, stopped_names
from tests.unit.builds import MARIADB, build


def test_a_slow_disk_is_the_servers_own_and_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    profiles: list[DiskProfile] = []

    def stop(spec: SandboxSpec, _: object) -> None:
        assert spec.slow_disk is not None
        profiles.append(spec.slow_disk.profile)
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "require_fault_disk", lambda: None)
    monkeypatch.setattr(start, "find_build", lambda *_, **__: MARIADB)
    monkeypatch.setattr(Sandbox, "start", stop)
    with pytest.raises(KeyboardInterrupt):
        start.sandbox(disk="iops=120")
    assert [(profile.name, profile.iops) for profile in profiles] == [("iops=120", 120.0)]


def test_a_slow_disk_goes_with_no_server_that_runs() -> None:
    with pytest.raises(UsageError, match="already running, on its own disk") as told:
        start.sandbox(server="sandbox:one", disk="gp3")
    assert told.value.hint == "remove --disk"


def test_a_node_that_does_not_end_leaves_no_other_running(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    def halt(name: str) -> None:
        stopped.append(name)
        if name != "trio-1":
            raise HarnessError(f"{name} survived SIGKILL")

    monkeypatch.setattr(kept, "halt", halt)
    monkeypatch.setattr(stopping, "node_names", lambda _: ["trio-1", "trio-2", "trio-3"])
    with pytest.raises(HarnessError, match="trio-3 survived") as failed:
        stopping.stop("trio", keep_data=True)
    assert stopped == ["trio-3", "trio-2", "trio-1"]
    assert failed.value.__notes__ == ["trio-2 survived SIGKILL"]


DEAD = ProcessIdentity(pid=1, start_ticks=1 << 60)
GALERA = Galera(provider="/g/libgalera_smm.so", folders=("/g/bin",), id="galera-1")


def keep(name: str, *, cluster: str | None = None, server: ProcessIdentity = DEAD) -> None:
    """A kept sandbox as it is written down."""
    paths = SandboxPaths(name=name, folder=run_folder() / name, data_folder=run_folder() / name)
    claim(msgspec.structs.replace(RunRecord.mine(name, paths.folder), kind="kept", server=server))
    paths.folder.mkdir(parents=True)
    number = int(name[-1]) if cluster else 0
    places = tuple(NodeAddress(address=f"127.1.1.{n}") for n in range(1, 4))
    kept.save(
        kept.Saved(
            name=name,
            build=build("mariadb", 10, 11),
            paths=paths,
            settings={},
            arguments=(),
            storage=Storage(filesystem="ext4"),
            port=3306,
            membership=Membership(cluster=cluster, number=number, places=places, galera=GALERA)
            if cluster
            else None,
        )
    )


@pytest.fixture
def trio(private_home: Path) -> Path:
    for number in (1, 2, 3):
        keep(f"trio-{number}", cluster="trio")
    return private_home


def names() -> list[str]:
    return [one.saved.name for one in kept.statuses()]


def refused(name: str) -> UsageError:
    with pytest.raises(UsageError) as raised:
        require_unused(name)
    return raised.value


@pytest.mark.usefixtures("private_home")
@pytest.mark.usefixtures("trio")
def test_a_stopped_cluster_keeps_its_name() -> None:
    error = refused("trio")
    assert error.message == "a cluster named 'trio' already exists; it is stopped, and its data are kept"
    assert error.hint == "start it as it was: flushlab server start --name trio; or choose another name"
    assert refused("trio-2").message == "trio-2 is a node of the cluster trio"
    require_unused("trio-4")
    with pytest.raises(UsageError, match="a cluster named 'trio' already exists"):
        sandbox(name="trio", kept=True, settings={"sync_binlog": 1})


@pytest.mark.usefixtures("private_home")
def test_a_cluster_of_which_a_node_runs_is_not_called_stopped() -> None:
    keep("duo-1", cluster="duo")
    keep("duo-2", cluster="duo", server=myself())
    assert refused("duo").message == "a cluster named 'duo' already exists and runs"


@pytest.mark.usefixtures("private_home")
def test_a_sandbox_keeps_its_name_whether_it_runs_or_not() -> None:
    keep("stopped")
    keep("running", server=myself())
    assert "flushlab server start --name stopped" in str(refused("stopped").hint)
    assert refused("running").message == "a sandbox named 'running' already exists and runs"
    with pytest.raises(UsageError, match="a sandbox named 'stopped' already exists"):
        sandbox(name="stopped", kept=True, cluster=3)


@pytest.mark.usefixtures("private_home")
@pytest.mark.usefixtures("trio")
def test_a_cluster_is_stopped_by_its_name_and_a_node_of_it_is_not() -> None:
    with pytest.raises(UsageError, match="trio-2 is a node of the cluster trio"):
        stop("sandbox:trio-2")
    assert stopped_names() == ["trio"]
    assert names() == ["trio-1", "trio-2", "trio-3"]
    stop("cluster:trio")
    assert names() == []
