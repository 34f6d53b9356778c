"""Fault disk: a disk that records every write and flush, can be slow, and shows what a crash leaves of it.

Datadir layer; flushlab's end of `fault_disk_main.py`. The program serves one file over FUSE, as the backing
file of a loop device with one of the kernel's file systems. So fsync and journals are real, not imitated.

- `FaultDisk` is the live disk. Its record is in a folder that outlives it.
- `FaultImage` is the disk's content after a crash, mounted. The same record, number, failure and seed give
  the same content.

The program has a guard, as servers have: after SIGKILL of flushlab, or of all its processes, no mount, no
loop device and no process remain. The FUSE file system is mounted nowhere, and the loop device clears itself.
The run record contains the only mount.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import platform
import re
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from flushlab.datadir.recording import Recording
from flushlab.errors import FlushlabError, HarnessError, NoSpace, StorageError, UsageError
from flushlab.machine import ownership
from flushlab.machine.cgroup import group_of_self, memory_limit_bytes
from flushlab.process import Guard, GuardedProcess, Reach, discard, make_lasting
from flushlab.process.running import near
from flushlab.record import DiskProfile, Failure
from flushlab.undo import Closing, undo_all
from flushlab.units import counted

LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A
LO_FLAGS_AUTOCLEAR, LO_FLAGS_DIRECT_IO = 4, 16
_CONFIG = struct.Struct("=II 52x I 240x")
"""struct loop_config of linux/loop.h: fd, block_size and, of info, lo_flags."""
_TRIES = 20


@contextmanager
def loop_device(file: Path, sector_bytes: int) -> Iterator[Path]:
    """A loop device on a file, which it reads and writes past the page cache.

    It stays while something is mounted from it. A HarnessError if there is none to be had.
    """
    try:
        backing = os.open(file, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        raise HarnessError(f"the disk's file cannot be opened: {error.strerror}") from error
    try:
        device, path = _configured(backing, sector_bytes)
    finally:
        os.close(backing)
    try:
        if Path(f"/sys/block/{path.name}/loop/dio").read_text().strip() != "1":
            raise HarnessError(f"{path} does not do direct I/O on the disk's file")
        yield path
    finally:
        os.close(device)


def _configured(backing: int, sector_bytes: int) -> tuple[int, Path]:
    config = _CONFIG.pack(backing, sector_bytes, LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO)
    try:
        for _ in range(_TRIES):
            path = Path("/dev/loop-control")
            with path.open("rb+", buffering=0) as control:
                path = Path(f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}")
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:  # somebody else was faster
                    raise
            else:
                return device, path
    except OSError as error:
        raise HarnessError(
            f"no loop device can be had from {path}: {error.strerror}",
            hint="containers often have none; try on the host",
        ) from error
    raise HarnessError(
        f"no loop device was free in {_TRIES} tries", hint="other programs take them; try again"
    )


FileSystemName = Literal["ext4", "xfs", "btrfs"]

_MAIN = Path(__file__).with_name("fault_disk_main.py")
_READY_S = 120.0
_POLL_S = 0.002
_COMMAND_S = 300.0
_DYING_S = 2.0
"""How long a command that was killed is waited for."""
_BUSY_S = 20.0
"""How long a server that was just killed may still hold the mount."""

_MKFS: dict[FileSystemName, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096", "-i", "65536", "-E", "nodiscard,lazy_journal_init=1"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K"),
}
_PACKAGES: dict[FileSystemName, str] = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}
_OPTIONS: dict[FileSystemName, str] = {
    "ext4": "noatime,noinit_itable",  # no thread of the kernel's that would be in the record
    "xfs": "noatime,nouuid",  # of several images of one disk, and the disk itself, at a time
    "btrfs": "noatime",
}
LEAST_BYTES: dict[FileSystemName, int] = {"ext4": 16 << 20, "xfs": 300 << 20, "btrfs": 120 << 20}
_HOST_HINT = (
    "it needs FUSE, loop devices and the right to mount, which containers often lack; try on the host"
)


class NotMounted(HarnessError):
    """The kernel does not mount what is on a disk."""


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    flush_us: float = 0.0
    write_us: float = 0.0


class DiskStatus(msgspec.Struct, frozen=True, kw_only=True):
    root: int
    flusher: bool
    records: int
    reads: int
    writes: int
    written_bytes: int
    flushes: int
    failed: int
    error: str | None = None


def require_fault_disk(fs: FileSystemName = "ext4") -> None:
    if os.geteuid() != 0:
        raise UsageError(
            f"a disk of its own needs root; flushlab runs as user {os.geteuid()}",
            hint="run flushlab as root (servers still run as an unprivileged user)",
        )
    if shutil.which(_MKFS[fs][0]) is None:
        raise UsageError(f"{_MKFS[fs][0]} is not installed", hint=f"Debian: apt-get install {_PACKAGES[fs]}")
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not os.access(device, os.R_OK | os.W_OK):
            raise HarnessError(f"no separate disk can be made here: {device} is missing", hint=_HOST_HINT)


def require_images(fs: FileSystemName) -> None:
    """Refuses btrfs before Linux 6.7, which mounts no other file system with the same identity."""
    release = platform.release()
    if fs == "btrfs" and tuple(int(part) for part in re.findall(r"\d+", release)[:2]) < (6, 7):
        raise UsageError(
            f"crashes on btrfs need Linux 6.7, which mounts copies of one file system side by side; this is"
            f" {release}",
            hint="take --fs ext4 or --fs xfs",
        )


class _Disk(Closing):
    def __init__(self, folder: Path, fs: FileSystemName) -> None:
        self.folder = folder
        self.fs: FileSystemName = fs
        self.name = f"flushlab-disk-{secrets.token_hex(4)}"
        self.own = folder / self.name
        self.mount = self.own / "mount"
        self.device = ""
        self.record = folder / f"{self.name}.record"
        self._outlives = False
        self._guard: Guard | None = None
        self._process: GuardedProcess | None = None
        self._socket: socket.socket | None = None
        self._lines = b""
        self._map: mmap.mmap | None = None

    @property
    def position_file(self) -> Path:
        """8 bytes, little endian, that may be mapped: how many records were answered. A record counts before
        its answer goes out."""
        return self.record / "position"

    def position(self) -> int:
        if self._map is None:
            with self.position_file.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
        return int.from_bytes(self._map[:8], "little")

    def status(self) -> DiskStatus:
        return self._tell("status")

    def fail_flush(self) -> None:
        self._tell("fail_flush", after=0)

    def be_full(self, on: bool = True) -> None:
        self._tell("full", on=on)

    def be_slow(self, profile: DiskProfile | None, way: Delay | None = None) -> None:
        """Answers as slowly as that from now on, less what the way takes in any case."""
        self._tell("delays", delays=_delays(profile, way))

    def write_out(self) -> None:
        _run(["sync", "-f", str(self.mount)], "the disk's file system cannot be written out")

    def require_served(self, failing: int = 0) -> None:
        failed = self.status().failed - failing
        if failed > 0:
            free = shutil.disk_usage(self.folder).free
            raise StorageError(
                f"{counted(failed, 'write')} to a disk of flushlab's failed; where it lies, in {self.folder},"
                f" {free >> 20} MiB are free",
                hint="make room there, or name another folder with --data-root",
            )

    def close(self) -> None:
        """Unmounts it and ends its program; does nothing the second time.

        What still has files open on it for 20 s keeps a dead file system.
        """
        if self._guard is None:
            return
        guard, self._guard = self._guard, None
        undo_all([partial(_unmount, self.mount), self._hang_up, guard.close])

    def _hang_up(self) -> None:
        for opened in (self._socket, self._map):
            if opened is not None:
                opened.close()
        self._socket = self._map = None

    def _open(self, spec: dict[str, Any], size: int, *, is_new: bool) -> None:
        require_fault_disk(self.fs)
        self._guard = Guard(self.name, (self.own,), (self.mount,))
        try:
            self.mount.mkdir()
            text = msgspec.json.encode({"control": "control", "size": size, "overlay": ".", **spec})
            (self.own / "spec").write_bytes(text)
            self._process = self._guard.spawn(
                [sys.executable, "-I", "-S", str(_MAIN)],
                log=self.own / "log",
                cwd=self.own,
                environment={},
                reach=Reach(None),
                before_exec=leave_memory_limit,
                outlives_guard=self._outlives,
                serves_disk=True,
            )
            self._connect()
            self._mount_it(is_new=is_new)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self.record.exists():
                remove_record(self.record)
            raise

    def _mount_it(self, *, is_new: bool) -> None:
        assert self._process is not None
        file = Path(f"/proc/{self._process.pid}/fd/{self.status().root}/{self.name}")
        with loop_device(file, sector_bytes=512) as device:
            self.device = device.name
            if is_new:
                _run([*_MKFS[self.fs], str(device)], "the disk's file system cannot be made")
            mount = ["mount", "-t", self.fs, "-o", _OPTIONS[self.fs], str(device), str(self.mount)]
            try:
                _run(mount, "the disk's file system cannot be mounted")
            except HarnessError as error:
                self.require_served()
                raise NotMounted(error.message, hint=error.hint) from error

    def _connect(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _READY_S
        with near(self.own / "control") as control:
            while True:
                caller = socket.socket(socket.AF_UNIX)
                try:
                    caller.connect(control)
                    break
                except (FileNotFoundError, ConnectionRefusedError):
                    caller.close()
                if not self._process.alive() or time.monotonic() >= deadline:
                    said = (self.own / "log").read_text(errors="replace").strip().splitlines()
                    raise HarnessError(
                        f"the disk cannot be served: {said[-1] if said else 'its program does not answer'}",
                        hint=_HOST_HINT,
                    )
                time.sleep(_POLL_S)
        caller.settimeout(_COMMAND_S)
        self._socket = caller

    def _tell(self, what: str, **words: Any) -> DiskStatus:
        assert self._socket is not None, "the disk is not open"
        try:
            self._socket.sendall(msgspec.json.encode({"do": what, **words}) + b"\n")
            while b"\n" not in self._lines:
                chunk = self._socket.recv(65536)
                if not chunk:
                    raise ConnectionResetError("it has ended")
                self._lines += chunk
        except OSError as error:
            raise HarnessError(f"the program of the disk {self.name} does not answer: {error}") from error
        line, _, self._lines = self._lines.partition(b"\n")
        status = msgspec.json.decode(line, type=DiskStatus)
        if status.error is not None:
            raise HarnessError(f"the disk {self.name}: {status.error}")
        return status

    def _make_record(self, size_bytes: int) -> None:
        folder = self.record.parent
        if (free := shutil.disk_usage(folder).free) < size_bytes:
            raise NoSpace(
                f"the record in {folder} needs at least {size_bytes >> 20} MiB,"
                f" and {free >> 20} MiB are free",
                hint="make room there, or name a folder elsewhere with --data-root or --save-recording",
            )
        try:
            make_lasting(self.record, "disk-record", fs=self.fs)
        except OSError as error:
            raise StorageError(f"the record {self.record} cannot be made: {error.strerror}") from error


class FaultDisk(_Disk):
    """A disk of its own, with a file system on it.

    If `punctual`, its program runs before whatever else runs on the machine, so that a slow disk is as slow
    as that, and no slower. `record_in` of None is `folder`.
    """

    def __init__(
        self,
        folder: Path,
        size: int,
        fs: FileSystemName = "ext4",
        emulate: DiskProfile | None = None,
        *,
        record: bool = False,
        record_in: Path | None = None,
        punctual: bool = False,
        outlives: bool = False,
    ) -> None:
        super().__init__(folder, fs)
        self.record = (record_in or folder) / self.record.name
        self.size_bytes = size // 4096 * 4096
        self._emulate = emulate
        self._punctual = punctual
        self._outlives = outlives
        self._records = record

    def open(self) -> Self:
        least = LEAST_BYTES[self.fs]
        if self.size_bytes < least:
            size = f"a disk of {self.size_bytes >> 20} MiB is too small for {self.fs}"
            raise UsageError(f"{size}: the minimum is {least >> 20} MiB")
        require_fault_disk(self.fs)
        if self._records:
            self._make_record(self.size_bytes // 16)
        spec = {
            "base": "zeros",
            "record": str(self.record) if self._records else None,
            "delays": _delays(self._emulate),
            "punctual": self._punctual,
        }
        with self._forgetting():
            self._open(spec, self.size_bytes, is_new=True)
        return self

    def __enter__(self) -> Self:
        return self.open()

    def keep(self, name: str) -> None:
        assert self._guard is not None, "a disk is kept once, while it is open"
        assert self._outlives, "a disk that is to be kept is made so"
        self._guard.release(goes_with=name)
        self._guard = None
        self._hang_up()

    def start_recording(self) -> None:
        self.write_out()
        self._tell("record")


class FaultImage(_Disk):
    def __init__(
        self,
        record: Path,
        at: int,
        fail: Failure,
        seed: int,
        folder: Path,
        fs: FileSystemName | None = None,
        *,
        own_record: bool = False,
    ) -> None:
        mark = ownership.read_mark(str(record)) or {}
        recorded: FileSystemName = next((name for name in _MKFS if name == mark.get("fs")), "ext4")
        super().__init__(folder, fs or recorded)
        self.source = record.absolute()
        self.at = at
        self.fail = fail
        self.seed = seed
        self._own_record = own_record

    def open(self) -> Self:
        base, size = {"image": self._spec()}, Recording(self.source).size_bytes
        if self._own_record:
            self._make_record(0)
        own = str(self.record) if self._own_record else None
        with self._forgetting():
            self._open({"base": base, "record": own, "punctual": False}, size, is_new=False)
        return self

    def show(self, at: int, fail: Failure, seed: int) -> None:
        _unmount(self.mount)
        if _is_mount(self.mount):
            raise HarnessError(f"{self.mount} is in use")
        self.at, self.fail, self.seed = at, fail, seed
        self._tell("image", image=self._spec())
        self._mount_it(is_new=False)

    def _spec(self) -> dict[str, Any]:
        if self.fail.kind == "process":
            raise UsageError(
                "a killed process leaves no image of the disk", hint="kill it on the disk itself"
            )
        failure = msgspec.to_builtins(self.fail)
        return {"record": str(self.source), "at": self.at, "failure": failure, "seed": self.seed}

    def __enter__(self) -> Self:
        return self.open()


@contextmanager
def trusted(disk: FaultDisk | FaultImage) -> Iterator[None]:
    """What happens on a disk counts, unless the disk itself has failed: then that is raised instead."""
    try:
        yield
    except (FlushlabError, OSError):
        disk.require_served()
        raise
    disk.require_served()


def leave_memory_limit(pid: int) -> None:
    """Takes the program of a disk out of a memory limit of cgroup v1.

    A process that reaches such a limit waits until pages are written. If the pages belong to the disk that
    the process serves, it waits for itself, together with all users of the disk. This was seen on Linux 6.18
    with 300 MB and 100 busy processes. Version 2 has no such wait, and the kernel exempts a program that it
    knows as a disk's.
    """
    group = group_of_self("memory")
    if group is None or group.version == 2 or memory_limit_bytes(group) is None:
        return
    try:
        (group.top / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise HarnessError(
            f"the program of a disk cannot leave the memory limit of {group.path}: {error.strerror}",
            hint="it could wait for itself there; run flushlab outside of this control group",
        ) from error


def record_owner(record: Path) -> str:
    mark = ownership.read_mark(str(record)) or {}
    return mark.get("arm", "") if mark.get("what") == "disk-record" else ""


def remove_record(record: Path) -> None:
    discard(record, what="disk-record")


def _delays(profile: DiskProfile | None, way: Delay | None = None) -> dict[str, Any] | None:
    if profile is None:
        return None
    delays: dict[str, Any] = msgspec.to_builtins(profile)
    del delays["name"]
    way = way or Delay()
    for request, way_us in (("flush", way.flush_us), ("write", way.write_us)):
        if delays[request]:
            delays[request]["way_us"] = way_us
    return delays


def _run(command: list[str], failed: str) -> None:
    try:
        status, errors = _outcome(command, _COMMAND_S)
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"{failed}: {command[0]} did not end in {error.timeout:.0f} s") from error
    except OSError as error:
        raise HarnessError(f"{failed}: {error}") from error
    if status != 0:
        said = errors.strip().splitlines() or [f"exit status {status}"]
        raise HarnessError(f"{failed}: {said[0]}")


def _outcome(command: list[str], seconds: float) -> tuple[int, str]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C is for flushlab, which waits for it
    )
    try:
        _, errors = process.communicate(timeout=seconds)
    except BaseException:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_DYING_S)
        raise
    finally:
        if process.stderr:
            process.stderr.close()
    return process.returncode, errors


def _is_mount(point: Path) -> bool:
    try:
        return point.is_mount()
    except OSError:
        return True


def _unmount(point: Path) -> None:
    deadline = time.monotonic() + _BUSY_S
    while _is_mount(point):
        try:
            status, _ = _outcome(["umount", str(point)], _BUSY_S)
        except subprocess.TimeoutExpired:
            return
        if status == 0 or time.monotonic() > deadline:
            return
        time.sleep(_POLL_S * 10)
