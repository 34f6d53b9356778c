from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flushlab.process import all_records, identify, myself, reap, run_folder, run_record
from flushlab.process.identity import ProcessIdentity, world
from flushlab.process.run_record import RunRecord, claim
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("private_home")

DEAD = ProcessIdentity(pid=1, start_ticks=1 << 60)


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def left_behind(process: subprocess.Popen[bytes] | None = None, name: str = "it") -> RunRecord:
    folder = run_folder() / name
    folder.mkdir()
    (folder / "file").write_text("data")
    record = RunRecord(
        name=name,
        kind="owned",
        world=world(),
        owner=DEAD,
        server=identify(process.pid) if process else None,
        folders=(str(folder),),
    )
    claim(record)
    return record


def test_abandoned_sandbox_is_killed_and_removed(server: subprocess.Popen[bytes]) -> None:
    left_behind(server)
    assert reap() == ["it"]
    assert server.wait(20) == -9
    assert list(run_folder().iterdir()) == []


def test_sandbox_of_a_living_owner_is_spared(server: subprocess.Popen[bytes]) -> None:
    record = left_behind()
    (run_folder() / "it.json").write_bytes(
        msgspec.json.encode(msgspec.structs.replace(record, owner=myself()))
    )
    assert reap() == []
    assert (run_folder() / "it" / "file").is_file()


def test_kept_sandbox_is_spared(server: subprocess.Popen[bytes]) -> None:
    record = left_behind(server)
    kept = msgspec.structs.replace(record, kind="kept")
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(kept))
    assert reap() == []
    assert server.poll() is None
    assert all_records() == [kept]


def test_process_that_got_the_number_later_is_spared(server: subprocess.Popen[bytes]) -> None:
    record = left_behind(server)
    assert record.server is not None
    earlier = msgspec.structs.replace(record.server, start_ticks=record.server.start_ticks - 1)
    changed = msgspec.structs.replace(record, server=earlier)
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    assert reap() == ["it"]
    assert server.poll() is None


def test_numbers_of_an_earlier_boot_mean_nobody(server: subprocess.Popen[bytes]) -> None:
    record = left_behind(server)
    namespace = world().split()[1]
    changed = msgspec.structs.replace(record, world=f"another-boot {namespace}")
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    assert reap() == ["it"]
    assert server.poll() is None
    assert list(run_folder().iterdir()) == []


def test_sandbox_of_another_container_is_spared() -> None:
    record = left_behind()
    boot = world().split()[0]
    changed = msgspec.structs.replace(record, world=f"{boot} pid:[1]")
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    assert reap() == []
    assert (run_folder() / "it" / "file").is_file()


def test_folder_that_is_not_named_after_the_sandbox_is_never_removed(private_home: Path) -> None:
    precious = private_home / "precious"
    precious.mkdir()
    record = left_behind()
    changed = msgspec.structs.replace(record, folders=(str(precious),))
    (run_folder() / "it.json").write_bytes(msgspec.json.encode(changed))
    reap()
    assert precious.is_dir()


WRITE = """
import os
from pathlib import Path
from flushlab.process import Guard
%s = lambda *_: os._exit(9)
Guard("it").close()
"""


@pytest.mark.parametrize("last_act", ["os.link", "Path.replace"])
def test_record_whose_writer_was_killed_over_it_is_removed(last_act: str) -> None:
    done = subprocess.run([sys.executable, "-c", WRITE % last_act], check=False)
    assert done.returncode == 9
    assert any(file.name.endswith(".short-lived") for file in run_folder().iterdir())
    wait_until(lambda: not (run_folder() / "it.json").exists() or reap(), "the guard or the janitor is done")
    reap()
    assert list(run_folder().iterdir()) == []


def test_record_that_is_being_written_is_left_alone() -> None:
    left_behind()
    being_written = run_record._write_beside(all_records()[0])
    reap()
    assert being_written.is_file()


def test_what_is_no_record_is_left_alone() -> None:
    (run_folder() / "strange.json").write_text("{")
    assert reap() == []
    assert (run_folder() / "strange.json").is_file()
