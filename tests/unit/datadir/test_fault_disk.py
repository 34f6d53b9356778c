from __future__ import annotations

import os
import platform
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.datadir import fault_disk
from flushlab.datadir.fault_disk import FileSystemName
from flushlab.errors import HarnessError, StartFailed, StorageError, UsageError
from flushlab.machine.cgroup import ControlGroup, Version
from tests.waiting import PATIENCE_S


def group(monkeypatch: pytest.MonkeyPatch, top: Path, limit: str, version: Version = 1) -> Path:
    """This process in a control group with a limit; where processes at the top are written down."""
    own = top / "own"
    own.mkdir()
    for folder, bytes_ in ((top, str(1 << 62)), (own, limit)):
        (folder / "memory.limit_in_bytes").write_text(bytes_)
    found = ControlGroup(version=version, top=top, path=own)
    monkeypatch.setattr(fault_disk, "group_of_self", lambda _controller: found)
    return top / "cgroup.procs"


def test_the_program_of_a_disk_leaves_a_memory_limit_in_which_it_would_wait_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = group(monkeypatch, tmp_path, "314572800")
    fault_disk.leave_memory_limit(4711)
    assert top.read_text() == "4711"


@pytest.mark.parametrize(("limit", "version"), [(str(1 << 62), 1), ("314572800", 2)])
def test_it_stays_where_nothing_makes_it_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, version: Version
) -> None:
    top = group(monkeypatch, tmp_path, limit, version)
    (tmp_path / "own" / "memory.max").write_text(limit)
    fault_disk.leave_memory_limit(4711)
    assert not top.exists()


def test_a_file_system_whose_tools_are_missing_names_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _program: None)
    with pytest.raises(UsageError, match=r"mkfs\.xfs is not installed") as missing:
        fault_disk.require_fault_disk("xfs")
    assert missing.value.hint == "Debian: apt-get install xfsprogs"


def test_a_limit_that_cannot_be_left_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group(monkeypatch, tmp_path, "314572800").mkdir()
    with pytest.raises(HarnessError, match="cannot leave the memory limit"):
        fault_disk.leave_memory_limit(4711)


def test_a_disk_that_does_not_open_leaves_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise HarnessError("it cannot be served")

    monkeypatch.setattr(fault_disk, "require_fault_disk", lambda *_: None)
    monkeypatch.setattr(fault_disk.FaultDisk, "_open", fail)
    (kept := tmp_path / "kept").mkdir()
    with pytest.raises(HarnessError, match="cannot be served"):
        fault_disk.FaultDisk(tmp_path, 64 << 20, record=True, record_in=kept).open()
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize("error", [None, StartFailed("no server"), OSError("no file")])
def test_what_happens_on_a_disk_that_has_itself_failed_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    disk = fault_disk.FaultDisk(tmp_path, 64 << 20)
    status = fault_disk.DiskStatus(
        root=1, flusher=True, records=0, reads=9, writes=9, written_bytes=9, flushes=9, failed=0
    )
    monkeypatch.setattr(disk, "status", lambda: status)
    with pytest.raises(type(error)) if error else nullcontext(), fault_disk.trusted(disk):
        if error:
            raise error
    status = msgspec.structs.replace(status, failed=2)
    told = pytest.raises(StorageError, match="2 writes to a disk of flushlab's failed")
    with told, fault_disk.trusted(disk):
        if error:
            raise error
    disk.require_served(2)


@pytest.mark.parametrize(
    ("release", "fs", "refused"),
    [
        ("6.1.0-28-amd64", "btrfs", True),
        ("6.7.0", "btrfs", False),
        ("6.18.1-arch", "btrfs", False),
        ("10.0", "btrfs", False),
        ("5.10.0", "xfs", False),
    ],
)
def test_images_of_btrfs_need_a_kernel_that_mounts_several(
    monkeypatch: pytest.MonkeyPatch, release: str, fs: FileSystemName, refused: bool
) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    with pytest.raises(UsageError, match=r"need Linux 6\.7") if refused else nullcontext():
        fault_disk.require_images(fs)


def test_a_command_that_does_not_end_is_given_up_though_something_holds_its_output(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    pid_file.touch()
    seconds = 0.1
    while not pid_file.read_text():  # on a machine that stands still, the shell has not come to it
        seconds *= 2
        with pytest.raises(subprocess.TimeoutExpired):
            fault_disk._outcome(["sh", "-c", f"sleep 3600 & echo $! > {pid_file}; wait"], seconds)
    os.kill(int(pid_file.read_text()), signal.SIGKILL)  # it holds the output still, and nobody waited for it
    assert fault_disk._outcome(["sh", "-c", "echo no disk >&2; exit 32"], PATIENCE_S) == (32, "no disk\n")


def test_a_disk_whose_connection_does_not_close_ends_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = fault_disk.FaultDisk(tmp_path, 64 << 20)
    closed: list[str] = []
    guard: Any = SimpleNamespace(close=lambda: closed.append("guard"))
    disk._guard = guard

    def fails() -> None:
        raise BufferError("cannot close exported pointers exist")

    monkeypatch.setattr(disk, "_hang_up", fails)
    with pytest.raises(BufferError):
        disk.close()
    disk.close()
    assert closed == ["guard"]
