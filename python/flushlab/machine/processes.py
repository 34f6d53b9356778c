"""Processes: whose connection it is, who waits for a processor, and who reads and writes."""

from __future__ import annotations

import ipaddress
import re
import socket
import stat
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath

import msgspec

from flushlab.machine import proc_stat
from flushlab.machine.mounts import read_or_empty

_CREDENTIALS = struct.Struct("3i")
"""struct ucred: pid, uid, gid."""
_SERVERS = ("mysqld", "mariadbd")
_WORDS = 6
"""Of a command line that may name its program: a loader and its options may precede it."""

Address = tuple[str, int]


def peer_pid(connection: socket.socket) -> int | None:
    """The process that listens on, or holds, the other end; None if it is not on this machine, or not seen.

    Of a unix socket it is the process that called listen(2). Of TCP, root and the process's own user see who
    holds the other end. Anybody sees its user: if only one server runs as that user, it is this one.
    """
    if connection.family == socket.AF_UNIX:
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(told)[0]
        return pid or None
    tables = (read_or_empty(Path("/proc/net", name)) for name in ("tcp", "tcp6"))
    end = peer_end(tables, local=connection.getsockname(), remote=connection.getpeername())
    if end is None:
        return None
    servers = [process for process in _processes() if _is_of(process, end[1]) and is_server(process)]
    return _holder(end[0]) or (servers[0] if len(servers) == 1 else None)


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]


def _is_of(process: int, uid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}").stat().st_uid == uid
    return False


def _holder(inode: int) -> int | None:
    for process in _processes():
        with suppress(OSError):
            files = Path(f"/proc/{process}/fd").iterdir()
            if any(str(file.readlink()) == f"socket:[{inode}]" for file in files):
                return process
    return None


def is_server(pid: int) -> bool:
    return any(PurePath(word).name.startswith(_SERVERS) for word in command_line(pid)[:_WORDS])


def command_line(pid: int) -> tuple[str, ...]:
    with suppress(OSError):
        return tuple(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").split("\0"))
    return ()


def peer_end(
    texts: Iterable[str], *, local: tuple[object, ...], remote: tuple[object, ...]
) -> tuple[int, int] | None:
    wanted = _known(remote), _known(local)
    for text in texts:
        for line in text.splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and (_parsed(fields[1]), _parsed(fields[2])) == wanted:
                return (int(fields[9]), int(fields[7])) if fields[9] != "0" else None
    return None


def _known(end: tuple[object, ...]) -> Address:
    return _plain(str(end[0]).partition("%")[0]), int(str(end[1]))


def _parsed(field: str) -> Address:
    host, _, port = field.partition(":")
    words = bytes.fromhex(host)
    ordered = b"".join(struct.pack("!I", word) for (word,) in struct.iter_unpack("=I", words))
    return _plain(ordered), int(port, 16)


def _plain(address: str | bytes) -> str:
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


_KERNEL = "2"
"""kthreadd, the parent of all kernel threads."""


class ProcessIo(msgspec.Struct, frozen=True, kw_only=True):
    written: Mapping[tuple[int, str], int]
    names: Mapping[tuple[int, str], str]
    unseen: int = 0


class Writer(msgspec.Struct, frozen=True):
    name: str
    pids: tuple[int, ...]
    bytes_written: int


def process_io() -> ProcessIo:
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
    """Bytes that a process caused to be written, less those that were given up again."""
    fields = dict(re.findall(r"^(\w+): (\d+)$", text, re.MULTILINE))
    if "write_bytes" not in fields:
        raise ValueError("no write_bytes")
    return int(fields["write_bytes"]) - int(fields.get("cancelled_write_bytes", "0"))


def writers(first: ProcessIo, last: ProcessIo) -> tuple[Writer, ...]:
    found = defaultdict[str, list[tuple[int, int]]](list)
    for key, after in last.written.items():
        grown = after - first.written.get(key, 0)
        if grown > 0:
            found[last.names[key]].append((grown, key[0]))
    every = [
        Writer(name, tuple(pid for _, pid in sorted(parts, reverse=True)), sum(grown for grown, _ in parts))
        for name, parts in found.items()
    ]
    return tuple(sorted(every, key=lambda writer: -writer.bytes_written))


def has_files_open(pid: int, device: int) -> bool | None:
    """True if a process has regular files open on a file system (`st_dev`); None if it cannot be seen."""
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


def run_delays(pid: int) -> dict[int, float]:
    found = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, ValueError, IndexError):
                found[int(thread.name)] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    return found


def waiting(before: dict[int, float], after: dict[int, float], seconds: float) -> float | None:
    both = before.keys() & after.keys()
    if not both or seconds <= 0:
        return None
    return sum(max(0.0, after[one] - before[one]) for one in both) / seconds
