"""The record of this machine's node, and the proof that a process is of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from flushlab.errors import FleetError
from flushlab.fleet import local_node
from flushlab.fleet.local_node import MARK, NodeRecord
from flushlab.machine import ownership
from flushlab.process.identity import identify, machine, myself, world


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_node, "state", lambda: tmp_path)


def record(folder: Path, keeper: int) -> NodeRecord:
    found = identify(keeper)
    assert found is not None
    return NodeRecord(
        role="head",
        fleet="127.0.0.1:9377",
        address="127.0.0.1",
        listens=False,
        token=ownership.new_token(),
        world=world(),
        machine=machine(),
        keeper=found,
        folder=str(folder),
    )


def sleeper(token: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"],
        env={**os.environ, MARK: token},
        stdout=subprocess.PIPE,
    )


def test_a_record_comes_back(tmp_path: Path) -> None:
    written = record(tmp_path, os.getpid())
    local_node.write(written)
    assert local_node.read() == written
    assert local_node.fleet_folder().stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("world", ["{boot} pid:[1]", "another-boot pid:[1]"])
@pytest.mark.parametrize("machine", ["0 elsewhere", ""])
def test_the_files_of_another_machine_in_a_shared_home_are_left_alone(
    tmp_path: Path, world: str, machine: str
) -> None:
    own = record(tmp_path, os.getpid())
    where = world.format(boot=own.world.split()[0])
    others = msgspec.structs.replace(own, world=where, machine=machine)
    local_node.write(others)
    with pytest.raises(FleetError, match="are another machine's"):
        local_node.stop()
    assert local_node.read() == others


def test_a_later_process_with_the_same_number_is_not_the_keeper(tmp_path: Path) -> None:
    written = record(tmp_path, os.getpid())
    assert written.is_alive
    later = NodeRecord(
        **{field: getattr(written, field) for field in NodeRecord.__struct_fields__ if field != "keeper"},
        keeper=type(myself())(pid=os.getpid(), start_ticks=myself().start_ticks - 1),
    )
    assert not later.is_alive


def test_stop_ends_what_has_the_mark_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "ray"
    with sleeper("0" * 32) as other:
        keeper = sleeper("1" * 32)
        written = record(folder, keeper.pid)
        with sleeper(written.token) as left:
            for one in (other, keeper, left):
                assert one.stdout is not None
                one.stdout.readline()
            ownership.make(str(folder), {"what": "files of Ray", "name": "ray", "token": written.token})
            local_node.write(written)
            keeper.kill()
            keeper.wait()
            assert local_node.stop() == written
            assert left.wait(10) != 0
        assert other.poll() is None
        other.kill()
    keeper.stdout.close() if keeper.stdout else None
    assert not folder.exists()
    assert local_node.read() is None


def test_a_folder_with_another_mark_stays(tmp_path: Path) -> None:
    folder = tmp_path / "ray"
    folder.mkdir()
    with sleeper("2" * 32) as keeper:
        local_node.write(record(folder, keeper.pid))
        keeper.kill()
        keeper.wait()
        local_node.stop()
    assert folder.exists()


def test_one_command_at_a_time() -> None:
    with local_node.locked(), pytest.raises(FleetError, match="another command"), local_node.locked():
        pass


def test_loopback_stays_loopback_and_a_listening_fleet_has_tls(tmp_path: Path) -> None:
    own = local_node.variables(tmp_path, listens=False)
    assert (own["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"], own["RAY_USE_TLS"], own["RAY_AUTH_MODE"]) == (
        "0",
        "0",
        "token",
    )
    shared = local_node.variables(tmp_path, listens=True)
    assert shared["RAY_USE_TLS"] == "1"
    assert shared["RAY_TLS_SERVER_KEY"] == str(tmp_path / "machine.key")


def test_secrets_reach_ray_as_files_only(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("c0ffee")
    assert "c0ffee" not in " ".join(local_node.variables(tmp_path, listens=True).values())
