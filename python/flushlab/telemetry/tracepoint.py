"""Tracepoint counter: how often each file was synced, counted inside the kernel.

Telemetry layer, Linux only. A small BPF program on the file systems' own sync tracepoints adds one per sync
to a map keyed by device, process and inode. Between syncs these tracepoints cost nothing. They fire once for
every fsync, fdatasync, msync and synchronous write that reaches the file system, whichever process requested
the sync. They do not fire for a sync that a preloaded library swallowed. Nothing runs in user space while the
program counts. (Tracing the system calls instead would slow down every system call of every process.)

Requirements: root, or CAP_BPF and CAP_PERFMON; a kernel with BPF and tracepoints; ext4 or xfs. Without them
`SyncCounter.open` returns None. `tracefs` need not be mounted: it is opened without a mount point.

Sources: bpf(2), perf_event_open(2), and Documentation/trace/events.rst of the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import struct
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

EVENTS = {"ext4": "ext4/ext4_sync_file_enter", "xfs": "xfs/xfs_file_fsync"}
"""Tracepoint of each file system that has one with device and inode."""

_SYSTEM_CALLS = {"x86_64": (298, 321), "aarch64": (241, 280)}  # perf_event_open, bpf
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # alike on all architectures
_FOLDERS = ("/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events")

_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_NEXT_KEY, _PROGRAM_LOAD = 0, 1, 2, 4, 5
_MAP_TYPE_HASH = 1
_PROGRAM_TYPE_TRACEPOINT = 5
_PERF_TYPE_TRACEPOINT = 2
_PERF_ATTRIBUTES_BYTES = 112
_PERF_FLAG_CLOEXEC = 8
_SET_BPF, _ENABLE = 0x40042408, 0x2400  # PERF_EVENT_IOC_SET_BPF, PERF_EVENT_IOC_ENABLE

_MAX_FILES = 8192
_KEY = struct.Struct("=IIQ")  # device as the kernel numbers it, process, inode
_OVERFLOW = _KEY.pack(0, 0, 0)

_libc = ctypes.CDLL(None, use_errno=True)


class SyncKey(NamedTuple):
    """Who synced what: device as (major, minor), process id (as the host numbers it), inode."""

    device: tuple[int, int]
    pid: int
    inode: int


class SyncCounter:
    def __init__(self, map_fd: int, resources: ExitStack) -> None:
        self._map = map_fd
        self._resources = resources

    @classmethod
    def open(cls, filesystems: Iterable[str]) -> Self | None:
        wanted = [EVENTS[name] for name in sorted(set(filesystems)) if name in EVENTS]
        if not wanted or platform.machine() not in _SYSTEM_CALLS:
            return None
        with ExitStack() as stack:
            try:
                folder = _events_folder()
                stack.callback(os.close, folder)
                counts = _bpf(_MAP_CREATE, struct.pack("=5I", _MAP_TYPE_HASH, _KEY.size, 8, _MAX_FILES, 0))
                stack.callback(os.close, counts)
                _element(_MAP_UPDATE, counts, _OVERFLOW)
                for event in wanted:
                    _attach(folder, event, counts, stack)
            except (OSError, ValueError):
                return None
            return cls(counts, stack.pop_all())
        raise AssertionError("ExitStack swallows nothing")

    def read(self) -> dict[SyncKey, int] | None:
        """Syncs so far; None if more files were synced than fit, so that some were not counted."""
        counts: dict[SyncKey, int] = {}
        key = b""
        while (found := _map_next_key(self._map, key)) is not None:
            key = found
            number = _element(_MAP_LOOKUP, self._map, key)
            if key == _OVERFLOW:
                if number:
                    return None
                continue
            device, pid, inode = _KEY.unpack(key)
            counts[SyncKey((device >> 20, device & 0xFFFFF), pid, inode)] = number
        return counts

    def proves(self, folder: Path) -> bool:
        """A sync of an unnamed file in `folder` is counted: evidence that none passes by unseen."""
        try:
            probe = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            facts = os.fstat(probe)
            os.fsync(probe)
        except OSError:
            return False
        finally:
            os.close(probe)
        device = (os.major(facts.st_dev), os.minor(facts.st_dev))
        seen = self.read() or {}
        # Another number for this process means a process namespace: the server's could not be told either.
        return SyncKey(device, os.getpid(), facts.st_ino) in seen

    def close(self) -> None:
        self._resources.close()


def field_offsets(text: str) -> dict[str, tuple[int, int]]:
    fields = re.findall(r"field:[^;]*?(\w+)(?:\[\d*\])?;\s*offset:(\d+);\s*size:(\d+);", text)
    return {name: (int(offset), int(size)) for name, offset, size in fields}


def program(map_fd: int, device_offset: int, inode_offset: int) -> bytes:
    """BPF instructions: add one to the map's count of (device, process, inode), or of the overflow key."""
    r0, r1, r2, r3, r4, r6, fp = 0, 1, 2, 3, 4, 6, 10
    key, one = -16, -24
    current_pid, lookup, update = 14, 1, 2  # helpers

    def ins(code: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
        return struct.pack("<BBhi", code, dst | src << 4, off, imm)

    def argument_key() -> list[bytes]:  # r1 = map; r2 = address of the key
        address = [ins(0xBF, r2, fp), ins(0x07, r2, imm=key)]
        return [ins(0x18, r1, 1, imm=map_fd), ins(0), *address]

    make_key = [
        ins(0xBF, r6, r1),
        ins(0x61, r1, r6, device_offset),
        ins(0x63, fp, r1, key),
        ins(0x85, imm=current_pid),
        ins(0x77, r0, imm=32),
        ins(0x63, fp, r0, key + 4),
        ins(0x79, r1, r6, inode_offset),
        ins(0x7B, fp, r1, key + 8),
    ]
    find = [*argument_key(), ins(0x85, imm=lookup)]
    insert = [
        ins(0x7A, fp, off=one, imm=1),
        *argument_key(),
        ins(0xBF, r3, fp),
        ins(0x07, r3, imm=one),
        ins(0xB7, r4, imm=1),  # BPF_NOEXIST
        ins(0x85, imm=update),
    ]
    overflow = [ins(0x7A, fp, off=key, imm=0), ins(0x7A, fp, off=key + 8, imm=0), *find]
    add = [ins(0xB7, r1, imm=1), ins(0xDB, r0, r1)]
    leave = [ins(0xB7, r0), ins(0x95)]
    # Another CPU may have inserted the key meanwhile, so a failed insertion looks once more before it
    # counts as an overflow.
    last = [*overflow, ins(0x15, r0, off=len(add))]
    again = [*find, ins(0x55, r0, off=len(last))]
    inserting = [*insert, ins(0x15, r0, off=len(again) + len(last) + len(add)), *again, *last]
    return b"".join([*make_key, *find, ins(0x55, r0, off=len(inserting)), *inserting, *add, *leave])


def _attach(events: int, event: str, map_fd: int, stack: ExitStack) -> None:
    fields = field_offsets(_read_at(events, f"{event}/format"))
    if fields.get("dev", (0, 0))[1] != 4 or fields.get("ino", (0, 0))[1] != 8:
        raise ValueError(f"{event} has other fields than this program reads")
    code = program(map_fd, fields["dev"][0], fields["ino"][0])
    loaded = _load(code)
    stack.callback(os.close, loaded)
    number = int(_read_at(events, f"{event}/id"))
    attributes = bytearray(_PERF_ATTRIBUTES_BYTES)
    struct.pack_into("=IIQQ", attributes, 0, _PERF_TYPE_TRACEPOINT, len(attributes), number, 1)
    cpu = min(os.sched_getaffinity(0))  # the program runs on all of them, wherever the event was opened
    opened = _system_call(_SYSTEM_CALLS[platform.machine()][0], attributes, -1, cpu, -1, _PERF_FLAG_CLOEXEC)
    stack.callback(os.close, opened)
    fcntl.ioctl(opened, _SET_BPF, loaded)
    fcntl.ioctl(opened, _ENABLE, 0)


def _load(code: bytes) -> int:
    instructions, licence = bytearray(code), bytearray(b"Apache-2.0\0")
    count = len(code) // 8
    head = struct.pack("=IIQQ", _PROGRAM_TYPE_TRACEPOINT, count, _address(instructions), _address(licence))
    return _bpf(_PROGRAM_LOAD, head + bytes(24))


def _element(command: int, map_fd: int, key: bytes, value: int = 0) -> int:
    at, count = bytearray(key), bytearray(struct.pack("=Q", value))
    _bpf(command, struct.pack("=IIQQQ", map_fd, 0, _address(at), _address(count), 0))
    return int.from_bytes(count, "little")


def _map_next_key(map_fd: int, key: bytes) -> bytes | None:
    at, following = bytearray(key), bytearray(_KEY.size)
    try:
        start = _address(at) if key else 0
        _bpf(_MAP_NEXT_KEY, struct.pack("=IIQQ", map_fd, 0, start, _address(following)))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return bytes(following)


def _events_folder() -> int:
    for folder in _FOLDERS:
        if (Path(folder) / "ext4").is_dir():
            return os.open(folder, os.O_DIRECTORY | os.O_CLOEXEC)
    context = _system_call(_FSOPEN, b"tracefs", 1)
    try:
        _system_call(_FSCONFIG, context, 6, 0, 0, 0)  # FSCONFIG_CMD_CREATE
        root = _system_call(_FSMOUNT, context, 1, 1)  # FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY
    finally:
        os.close(context)
    try:
        return os.open("events", os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    finally:
        os.close(root)


def _read_at(folder: int, path: str) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)) as file:
        return file.read()


def _bpf(command: int, attributes: bytes) -> int:
    buffer = bytearray(attributes)
    return _system_call(_SYSTEM_CALLS[platform.machine()][1], command, buffer, len(buffer))


def _address(buffer: bytearray) -> int:
    """Where a buffer lies; its owner must keep it until the system call has returned."""
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer)) if buffer else 0


def _system_call(number: int, *arguments: int | bytes | bytearray) -> int:
    values = [_address(one) if isinstance(one, bytearray) else one for one in arguments]
    passed = [ctypes.c_long(one) if isinstance(one, int) else one for one in values]
    result = int(_libc.syscall(ctypes.c_long(number), *passed))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
