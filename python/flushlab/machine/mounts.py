"""Mounts: which file system and which block device a path lies on.

Machine layer; reads /proc and /sys, and keeps the parsing of their text apart from the reading. What the
kernel does not tell is None, never a guess: an overlay, a network file system and a ZFS data set have
no block device here.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec

IN_MEMORY = frozenset({"tmpfs", "ramfs"})
"""File systems that are gone after an OS crash."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A line of /proc/self/mountinfo, proc(5); major 0 is no device, options of cgroup v1 are controllers."""

    id: int
    device_number: tuple[int, int]
    root: str
    point: str
    filesystem: str
    source: str
    options: tuple[str, ...]


class BlockDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A block device as /sys shows it.

    `rotational` is None if unknown, or if a virtual disk says that it spins: virtio's default, whatever is
    under it. `volatile_cache` is True for `write back`.
    """

    name: str
    disk: str
    disk_number: tuple[int, int]
    scheduler: str | None
    volatile_cache: bool | None
    rotational: bool | None = None
    logical_block_bytes: int | None = None
    model: str = ""


class FileSystem(msgspec.Struct, frozen=True, kw_only=True):
    filesystem: str
    in_memory: bool = False
    device: BlockDevice | None = None
    record_size_bytes: int | None = None
    options: tuple[str, ...] = ()


def parse_mountinfo(text: str) -> list[Mount]:
    mounts = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if not separator or len(fields) < 6 or len(rest) < 3:
            continue
        major, _, minor = fields[2].partition(":")
        mounts.append(
            Mount(
                id=int(fields[0]),
                device_number=(int(major), int(minor)),
                root=_unescape(fields[3]),
                point=_unescape(fields[4]),
                filesystem=rest[0],
                source=_unescape(rest[1]),
                options=tuple(rest[2].split(",")),
            )
        )
    return mounts


def mounts(pid: int | str = "self") -> list[Mount]:
    text = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return parse_mountinfo(text)


def mount_of(path: Path, pid: int | str = "self") -> Mount | None:
    """The mount that `path` (which exists) lies on.

    Asked of the kernel by an open descriptor, so bind mounts, mounts over mounts and symbolic links come
    out right. None when /proc does not tell, as in some containers.
    """
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        info = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    number = re.search(r"^mnt_id:\s*(\d+)$", info, re.MULTILINE)
    return next((mount for mount in mounts(pid) if number and mount.id == int(number[1])), None)


def file_system_of(path: Path, pid: int | str = "self") -> FileSystem:
    mount = mount_of(path, pid)
    if mount is None:
        return FileSystem(filesystem="unknown")
    return FileSystem(
        filesystem=mount.filesystem,
        in_memory=mount.filesystem in IN_MEMORY,
        device=_device_of(mount),
        record_size_bytes=_zfs_record_size(mount),
        options=mount.options,
    )


def parse_scheduler(text: str) -> str | None:
    found = re.search(r"\[([^\]]+)\]", text)
    return found[1] if found else (text.strip() or None)


def parse_write_cache(text: str) -> bool | None:
    return {"write back": True, "write through": False}.get(text.strip())


def _rotational(disk: Path) -> bool | None:
    said = read_or_empty(disk / "queue/rotational").strip()
    made_by = (read_or_empty(disk / "device/vendor") + read_or_empty(disk / "device/model")).upper()
    # virtio's and Xen's are `vda` and `xvda`; the others emulate SCSI disks
    virtual = any(word in made_by for word in ("QEMU", "VBOX", "VMWARE", "VIRTUAL"))
    if said == "1" and (virtual or disk.name.startswith(("vd", "xvd"))):
        return None
    return {"1": True, "0": False}.get(said)


def block_device(number: tuple[int, int], sys: Path = Path("/sys")) -> BlockDevice | None:
    folder = sys / "dev/block" / f"{number[0]}:{number[1]}"
    if not folder.exists():
        return None
    own = folder.resolve()
    disk = own.parent if (own / "partition").exists() else own
    major, _, minor = read_or_empty(disk / "dev").strip().partition(":")
    return BlockDevice(
        name=own.name,
        disk=disk.name,
        disk_number=(int(major), int(minor)),
        scheduler=parse_scheduler(read_or_empty(disk / "queue/scheduler")),
        volatile_cache=parse_write_cache(read_or_empty(disk / "queue/write_cache")),
        rotational=_rotational(disk),
        logical_block_bytes=int(read_or_empty(disk / "queue/logical_block_size").strip() or 0) or None,
        model=_model(disk),
    )


def _model(disk: Path) -> str:
    """Vendor and model; of a disk made of others (LVM, RAID, encryption), those of the first."""
    if (disk / "partition").exists():
        return _model(disk.parent)
    words = [*read_or_empty(disk / "device/vendor").split(), *read_or_empty(disk / "device/model").split()]
    if words and not words[0].startswith("0x"):  # virtio has a number for its vendor, and no model
        return " ".join(words)
    below = sorted((disk / "slaves").iterdir()) if (disk / "slaves").is_dir() else []
    return _model(below[0].resolve()) if below else ""


def _device_of(mount: Mount) -> BlockDevice | None:
    if mount.device_number[0] != 0:
        return block_device(mount.device_number)
    # btrfs shows an anonymous number, and as its source the device (with several, the first) that it lies on.
    if mount.filesystem == "btrfs" and mount.source.startswith("/dev/"):
        with suppress(OSError):
            facts = Path(mount.source).stat()
            if stat.S_ISBLK(facts.st_mode):
                return block_device((os.major(facts.st_rdev), os.minor(facts.st_rdev)))
    return None


def _zfs_record_size(mount: Mount) -> int | None:
    command = shutil.which("zfs")
    if command is None or not (mount.filesystem == "zfs" or mount.filesystem.startswith("fuse")):
        return None
    try:
        done = subprocess.run(
            [command, "get", "-Hp", "-o", "value", "recordsize", mount.source],
            capture_output=True, text=True, check=False, timeout=10,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def read_or_empty(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
