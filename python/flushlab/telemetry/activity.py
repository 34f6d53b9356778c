"""File activity: syncs and bytes of a window, per class of the server's files.

Telemetry layer. The kernel counts the syncs where a tracepoint is possible (`tracepoint`). Elsewhere the
server's own counters are used (for the binary log, performance_schema's). They count the syncs that the
server requested, not the syncs that reached the file system. Bytes come from the server's counters. A value
that neither source reports is None, never a guess. docs/explanation/effects.md explains the rest.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path, PurePath
from typing import Literal

import msgspec

from flushlab.errors import ServerError
from flushlab.record import FILE_CLASSES, FileActivity
from flushlab.server.protocol import Server
from flushlab.telemetry.files import REMOVED, OpenFile, classify, inside, names, names_in, open_files
from flushlab.telemetry.tracepoint import EVENTS, SyncCounter, SyncKey

Inode = tuple[tuple[int, int], int]
"""Device and number: what a file is, under whatever name."""

_JUDGED = ("redo", "binlog", "doublewrite", "data", "undo")


class Watched(msgspec.Struct):
    """Filled when the window closes.

    Attributes:
        fsyncs: per class, as the kernel counted them; empty where it could not.
        fsyncs_by_file: per file, named as `files.inside` does, and for those `REMOVED`; None
            where the kernel could not count those of every class.
        in_memory: classes whose open files all lie in memory.
        binlog_rotations: files of the binary log that were begun in the window.
    """

    fsyncs: dict[str, int] = {}
    fsyncs_by_file: dict[str, int] | None = None
    flags: dict[str, tuple[str, ...]] = {}
    in_memory: tuple[str, ...] = ()
    has_binlog: bool = False
    binlog_bytes: int | None = None
    binlog_rotations: int = 0
    page_bytes: int | None = None


@contextmanager
def watch(server: Server, into: Watched) -> Iterator[None]:
    """A server that cannot be seen leaves little. Raises ServerDied if it is gone at either end."""
    called = names(server)
    binlogs, into.has_binlog = _binary_logs(server), bool(called.binlog)
    page = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_page_size'")
    into.page_bytes = int(page[0][1]) if page else None
    pid = server.pid
    at_start = open_files(pid, called) if pid is not None else None
    if pid is None or at_start is None:
        yield
    else:
        with counting(pid, at_start) as counter:
            before = counter.read() if counter is not None else None
            yield
            after = counter.read() if counter is not None else None
            files = at_start + (open_files(pid, called) or [])
            into.flags = _flags(files)
            into.in_memory = tuple(
                sorted(into.flags.keys() - {one.kind for one in files if not one.in_memory})
            )
            if before is not None and after is not None:
                delta = {key: count - before.get(key, 0) for key, count in after.items()}
                datadir = str(server.query("SELECT @@datadir")[0][0])
                on_disk = _on_disk(pid, datadir, delta, files)
                counts = per_class(delta, pid, files, {at: classify(p, called) for at, p in on_disk.items()})
                into.fsyncs = {kind: n for kind, n in counts.items() if not escapes(into.flags.get(kind, ()))}
                if into.fsyncs.keys() == counts.keys():
                    into.fsyncs_by_file = per_file(delta, pid, files, on_disk, datadir)
    into.binlog_bytes, into.binlog_rotations = _growth(binlogs, _binary_logs(server))


def per_class(
    delta: Mapping[SyncKey, int], pid: int, files: Iterable[OpenFile], on_disk: Mapping[Inode, str]
) -> dict[str, int]:
    """Classes without a file are left out; syncs of removed files are of the class `other`."""
    kinds: dict[Inode, str] = {**on_disk, **{(file.device, file.inode): file.kind for file in files}}
    return {**dict.fromkeys(kinds.values(), 0), **_by_name(delta, pid, kinds, "other")}


def per_file(
    delta: Mapping[SyncKey, int],
    pid: int,
    files: Iterable[OpenFile],
    on_disk: Mapping[Inode, str],
    datadir: str,
) -> dict[str, int]:
    paths = {**on_disk, **{(file.device, file.inode): file.path for file in files}}
    names = {
        at: REMOVED if path.endswith(" (deleted)") else inside(datadir, path) for at, path in paths.items()
    }
    return {file: count for file, count in _by_name(delta, pid, names, REMOVED).items() if count}


def _by_name(
    delta: Mapping[SyncKey, int], pid: int, names: Mapping[Inode, str], unnamed: str
) -> Counter[str]:
    counts = Counter[str]()
    for key, count in delta.items():
        name = names.get((key.device, key.inode), unnamed if key.pid == pid else None)
        if name is not None:
            counts[name] += count
    return counts


def file_activity(
    watched: Watched, deltas: Mapping[str, int], redo_bytes: int | None, binlog: FileActivity | None = None
) -> dict[str, FileActivity]:
    counted = binlog if watched.has_binlog else None
    syncs = watched.fsyncs or _syncs_told(deltas) | ({"binlog": counted.fsyncs} if counted else {})
    page = watched.page_bytes
    pages, doubled = deltas.get("Innodb_pages_written"), deltas.get("Innodb_dblwr_pages_written")
    written: dict[str, int | None] = {
        "redo": deltas.get("Innodb_os_log_written", redo_bytes),
        "binlog": counted.bytes if watched.binlog_bytes is None and counted else watched.binlog_bytes,
        "doublewrite": doubled * page if doubled is not None and page else None,
        "data": pages * page if pages is not None and page else None,
    }
    return {
        kind: FileActivity(fsyncs=syncs.get(kind), bytes=written.get(kind), flags=watched.flags.get(kind, ()))
        for kind in FILE_CLASSES
        if kind in watched.flags
        or syncs.get(kind) is not None
        or written.get(kind) is not None
        or (kind == "binlog" and watched.has_binlog)
    }


def counted_by(watched: Watched, deltas: Mapping[str, int]) -> Literal["kernel", "server"] | None:
    if watched.fsyncs:
        return "kernel"
    return "server" if _syncs_told(deltas) else None


def _syncs_told(deltas: Mapping[str, int]) -> dict[str, int]:
    """The server's count of its syncs: MySQL counts those of the redo log; MariaDB since 10.8 does not."""
    redo, all_files = deltas.get("Innodb_os_log_fsyncs"), deltas.get("Innodb_data_fsyncs")
    if redo is None:
        return {}
    return {"redo": redo} if all_files is None else {"redo": redo, "data": max(0, all_files - redo)}


@contextmanager
def counting(pid: int, files: list[OpenFile]) -> Iterator[SyncCounter | None]:
    judged = [file for file in files if file.kind in _JUDGED]
    known = bool(judged) and all(file.filesystem in EVENTS for file in judged)
    counter = SyncCounter.open(file.filesystem for file in judged) if known else None
    if counter is None:
        yield None
        return
    with closing(counter):
        folders = {file.device: _seen_from_here(pid, str(PurePath(file.path).parent)) for file in judged}
        yield counter if all(counter.proves(folder) for folder in folders.values()) else None


def _seen_from_here(pid: int, path: str) -> Path:
    return Path(f"/proc/{pid}/root{path}")


def _on_disk(pid: int, datadir: str, delta: Mapping[SyncKey, int], files: list[OpenFile]) -> dict[Inode, str]:
    known = {(file.device, file.inode) for file in files}
    if not any(
        key.pid == pid and count and (key.device, key.inode) not in known for key, count in delta.items()
    ):
        return {}
    found: dict[Inode, str] = {}
    root = _seen_from_here(pid, datadir)
    for folder, _folders, entries in os.walk(root):
        for name in entries:
            with suppress(OSError):
                path = Path(folder) / name
                facts = path.lstat()
                device = (os.major(facts.st_dev), os.minor(facts.st_dev))
                found[device, facts.st_ino] = str(PurePath(datadir) / path.relative_to(root))
    return found


def escapes(flags: tuple[str, ...]) -> bool:
    """The kernel may write O_DIRECT and O_DSYNC through with the device's FUA, without asking the file system
    for a sync (iomap_dio_rw since Linux 4.18)."""
    return "O_DIRECT" in flags and bool({"O_DSYNC", "O_SYNC"} & set(flags))


def _flags(files: Iterable[OpenFile]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for file in files:
        found.setdefault(file.kind, set()).update(file.flags)
    return {kind: tuple(sorted(flags)) for kind, flags in found.items()}


def _binary_logs(server: Server) -> dict[str, int] | None:
    try:
        return {str(row[0]): int(row[1]) for row in server.query("SHOW BINARY LOGS")}
    except ServerError:
        if not server.alive():
            raise
        return None


def _growth(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> tuple[int | None, int]:
    if before is None or after is None:
        return None, 0
    begun = len(after.keys() - before.keys())
    if before and max(before) not in after:
        return None, begun
    kept = sum(size for name, size in before.items() if name in after)
    return sum(after.values()) - kept, begun


SAMPLE_S = 5.0
"""Between two samples of the open files."""


class KernelSyncs:
    def __init__(self, pid: int, variables: Mapping[str, str]) -> None:
        self._pid, self._called = pid, names_in(variables)
        self._kinds: dict[Inode, str] = {}
        self._uncounted: set[str] = set()
        self._sampled_s = 0.0
        self._stack = ExitStack()
        found = open_files(pid, self._called)
        self._counter = self._stack.enter_context(counting(pid, found)) if found else None

    def read(self) -> dict[str, int] | None:
        counts = self._counter.read() if self._counter is not None else None
        if counts is None:
            return None
        if time.monotonic() - self._sampled_s >= SAMPLE_S:
            self._sample()
        total = Counter(dict.fromkeys(self._kinds.values(), 0))
        for key, count in counts.items():
            kind = self._kinds.get((key.device, key.inode))
            if kind is not None:
                total[kind] += count
        return {kind: count for kind, count in total.items() if kind not in self._uncounted}

    def close(self) -> None:
        self._stack.close()
        self._counter = None

    def _sample(self) -> None:
        self._sampled_s = time.monotonic()
        for file in open_files(self._pid, self._called) or ():
            self._kinds[file.device, file.inode] = file.kind
            if escapes(file.flags):
                self._uncounted.add(file.kind)
