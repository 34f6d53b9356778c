"""Process I/O: which processes caused writes to disks between two moments.

Machine layer; /proc/PID/io (proc(5)), which only root and the process's own user may read. Pages that are
overwritten or deleted before they reach a disk count, too.
"""

from __future__ import annotations

import stat
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from flushlab.machine import proc_stat

_KERNEL = "2"
"""kthreadd, the parent of all kernel threads."""


class ProcessIo(msgspec.Struct, frozen=True, kw_only=True):
    """Of all processes that can be seen, at one moment.

    Attributes:
        written: bytes by process id and start time.
        names: of these processes.
        unseen: processes whose I/O this user may not read.
    """

    written: Mapping[tuple[int, str], int]
    names: Mapping[tuple[int, str], str]
    unseen: int = 0


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """Processes of one name.

    Attributes:
        name: of the program.
        pids: the one that wrote most comes first.
        bytes_written: in the window.
    """

    name: str
    pids: tuple[int, ...]
    bytes_written: int


def process_io() -> ProcessIo:
    """The counters now; kernel threads write for others and are left out."""
    written, names, unseen = dict[tuple[int, str], int](), dict[tuple[int, str], str](), 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = proc_stat.fields(folder.name)
            if fields is None or fields[proc_stat.PARENT] == _KERNEL or folder.name == _KERNEL:
                continue
            key = int(folder.name), fields[proc_stat.START_TICKS]
            count = parse_io((folder / "io").read_text())
            names[key] = (folder / "comm").read_text(errors="replace").strip()
            written[key] = count  # last: it may end in between
        except PermissionError:
            unseen += 1
        except (OSError, ValueError):  # it ended meanwhile
            continue
    return ProcessIo(written=written, names=names, unseen=unseen)


def parse_io(text: str) -> int:
    """Bytes that a process caused to be written, less those that were given up again.

    Raises:
        ValueError: the text has no such line.
    """
    fields = dict(line.split(": ") for line in text.splitlines() if ": " in line)
    if "write_bytes" not in fields:
        raise ValueError("no write_bytes")
    return int(fields["write_bytes"]) - int(fields.get("cancelled_write_bytes", "0"))


def writers(first: ProcessIo, last: ProcessIo) -> tuple[Writer, ...]:
    """Who wrote from `first` to `last` by name, the most first. Those that ended are missing."""
    found = defaultdict[str, list[tuple[int, int]]](list)
    for key, after in last.written.items():
        grown = after - first.written.get(key, 0)
        if grown > 0:
            found[last.names[key]].append((grown, key[0]))
    every = [
        Writer(
            name=name,
            pids=tuple(pid for _, pid in sorted(parts, reverse=True)),
            bytes_written=sum(grown for grown, _ in parts),
        )
        for name, parts in found.items()
    ]
    return tuple(sorted(every, key=lambda one: -one.bytes_written))


def has_files_open(pid: int, device: int) -> bool | None:
    """Whether a process has regular files open on a file system (`st_dev`); None if it cannot be seen."""
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None
    for descriptor in descriptors:
        with suppress(OSError):
            facts = descriptor.stat()
            if stat.S_ISREG(facts.st_mode) and facts.st_dev == device:
                return True
    return False if descriptors else None
