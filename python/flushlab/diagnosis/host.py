"""Host: the machine's side of a window, where the server runs on this machine.

`HostWatch` counts from when it is made; `finish` concludes. Nothing is asked of the server, nothing is
changed, and nothing takes root: whatever cannot be read is named in `Host.unseen`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from flushlab import machine
from flushlab.machine import FileSystem, Pressure, cgroup, file_system_of, is_open_to_all
from flushlab.machine.describe import DiskUse, disk_counters, disk_use
from flushlab.machine.mounts import mounts
from flushlab.machine.processes import command_line, has_files_open, process_io, run_delays, waiting, writers
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings.catalog import canonical
from flushlab.settings.check import CheckedFile, check
from flushlab.settings.durability.files import LOCATIONS
from flushlab.settings.optionfile import option_value
from flushlab.units import counted

_PLACES: Mapping[str, str] = {
    "data": "datadir",
    "redo log": "innodb_log_group_home_dir",
    "binary log": "log_bin_basename",
    "doublewrite": "innodb_doublewrite_dir",
    "undo": "innodb_undo_directory",
}
"""What lies there, and the variable that says where."""
_KINDS: Mapping[cgroup.IoKind, str] = {
    "riops": "reads/s",
    "wiops": "writes/s",
    "rbps": "bytes read/s",
    "wbps": "bytes written/s",
}
_MOST_WRITERS, _MOST_PROCESSES = 5, 8


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A file system that the server writes to.

    Attributes:
        holds: `data`, `redo log`, …
        path: of the first of them.
        filesystem: as the kernel names it.
        options: mount options.
        disk: whole disk; null if none can be seen.
        model: of the disk; empty if it tells none.
        volatile_cache: the disk has one; null if unknown.
        scheduler: of the disk.
    """

    holds: tuple[str, ...]
    path: str
    filesystem: str
    options: tuple[str, ...] = ()
    disk: str | None = None
    model: str = ""
    volatile_cache: bool | None = None
    scheduler: str | None = None


class HeldLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of the server's control group on a disk.

    Attributes:
        disk: name.
        unit: `writes/s`, `bytes written/s`, …
        limit, used: per second.
    """

    disk: str
    unit: str
    limit: int
    used: float


class OtherWriter(msgspec.Struct, frozen=True, kw_only=True):
    """Other processes of one name that wrote in the window.

    Attributes:
        name: of the program.
        pids: the one that wrote most comes first.
        bytes_per_s: that they caused to be written to any disk.
        on_data: one of them has files open on the file system of the data; null if that cannot be seen.
    """

    name: str
    pids: tuple[int, ...]
    bytes_per_s: float
    on_data: bool | None


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The server's machine during the window.

    Attributes:
        pid: of the server; null if files tell of the machine.
        cpus: of the machine; 0 if unknown.
        memory_bytes: that the server may use; 0 if unknown.
        pressure: on processors, I/O and memory.
        cpu_waiting: mean number of the server's threads that waited for a processor; null if unknown.
        places: where the server writes, the data first.
        disks: under these places.
        cpu_quota: processors that the server's control group may use; null without a limit.
        cpu_throttled_share: of the quota's periods, 0 to 1.
        cpu_stopped_share: of the wall time in which the quota let none of the server's threads run, at least;
            0 to 1.
        io_limits: of the server's control group.
        bytes_per_s: that the server caused to be written; null if it cannot be seen.
        writers: other processes, the most first.
        storage: for the durability rules.
        launch: arguments that turn syncs off, preloaded libraries.
        unseen: in words.
    """

    pid: int | None
    cpus: int
    memory_bytes: int
    pressure: Pressure
    cpu_waiting: float | None = None
    places: tuple[Place, ...] = ()
    disks: tuple[DiskUse, ...] = ()
    cpu_quota: float | None = None
    cpu_throttled_share: float | None = None
    cpu_stopped_share: float | None = None
    io_limits: tuple[HeldLimit, ...] = ()
    bytes_per_s: float | None = None
    writers: tuple[OtherWriter, ...] = ()
    storage: Storage = Storage(visible=False)
    launch: Launch = Launch()
    unseen: tuple[str, ...] = ()

    @property
    def data_disk(self) -> DiskUse | None:
        name = self.places[0].disk if self.places else None
        return next((one for one in self.disks if one.disk == name), None)


class HostWatch:
    """Counts from when it is made until `finish`; `root` is the server's as seen from here, None if it is
    closed."""

    def __init__(self, pid: int, variables: Mapping[str, str]) -> None:
        self.pid, self._variables = pid, variables
        self._unseen: list[str] = []
        self.root = root_of(pid)
        self._folders = dict[str, tuple[Path, FileSystem]]()
        self._paths = dict[str, str]()
        self._locate()
        self._cpu, self._blkio = cgroup.group_of(pid, "cpu"), cgroup.group_of(pid, "blkio")
        self._io_began = process_io()
        self._delays_began = run_delays(pid)
        self._limits_began = self._io_limits()
        self._periods_began = cgroup.cpu_periods(self._cpu) if self._cpu else None
        self._disks_began = disk_counters()
        self._machine_began = machine.sample()

    def finish(self) -> Host:
        ended, disks, io = machine.sample(), disk_counters(), process_io()
        seconds = max(disks.at_s - self._disks_began.at_s, 1e-9)
        places, pressure = self._places(), machine.between(self._machine_began, ended)
        before, after = (
            next((count for key, count in one.written.items() if key[0] == self.pid), None)
            for one in (self._io_began, io)
        )
        self._note(pressure, io.unseen, before is None, places)
        own, device = (after or 0) - (before or 0), self._data_device()
        others = []
        for one in {one.name: one for one in writers(self._io_began, io)}.values():
            pids = tuple(pid for pid in one.pids if pid not in (self.pid, os.getpid()))
            rate = (one.bytes_written - (own if self.pid in one.pids else 0)) / seconds
            if pids and rate > 0:
                on_data = _on_device(pids[:_MOST_PROCESSES], device)
                others.append(OtherWriter(name=one.name, pids=pids, bytes_per_s=rate, on_data=on_data))
        began, periods = self._periods_began, cgroup.cpu_periods(self._cpu) if self._cpu else None
        throttled = stopped = None
        if began is not None and periods is not None and began.quota == periods.quota:
            # A group is stopped on each processor by itself.
            stopped_s = max(0.0, periods.throttled_s - began.throttled_s)
            stopped = min(1.0, stopped_s / seconds / (os.cpu_count() or 1))
            if periods.all > began.all:
                part = max(0, periods.throttled - began.throttled) / (periods.all - began.all)
                throttled = min(1.0, part)
        names = dict.fromkeys(place.disk for place in places if place.disk)
        used = (disk_use(self._disks_began, disks, name) for name in names)
        return Host(
            pid=self.pid,
            cpu_waiting=waiting(self._delays_began, run_delays(self.pid), seconds),
            cpus=os.cpu_count() or 1,
            memory_bytes=_memory_bytes(self.pid),
            pressure=pressure,
            places=places,
            disks=tuple(use for use in used if use is not None),
            cpu_quota=periods.quota if periods else None,
            cpu_throttled_share=throttled,
            cpu_stopped_share=stopped,
            io_limits=tuple(self._held(seconds)),
            bytes_per_s=None if before is None or after is None else own / seconds,
            writers=tuple(others[:_MOST_WRITERS]),
            storage=self._storage(),
            launch=self._launch(),
            unseen=tuple(dict.fromkeys(self._unseen)),
        )

    def _locate(self) -> None:
        data = self._variables.get("datadir", "")
        if not data or self.root is None:
            self._unseen.append(
                f"the server's folders: its process has mounts of its own{_only('root sees them')}"
            )
            return
        for variable in LOCATIONS:
            given = self._variables.get(variable, "")
            if not given and variable != "datadir":
                continue
            path = os.path.normpath(Path(data, given))
            if variable == "log_bin_basename":
                path = str(Path(path).parent)
            here = self.root / path.lstrip("/")
            try:
                self._folders[variable] = here, file_system_of(here, self.pid)
                self._paths[variable] = path
            except OSError as error:
                self._unseen.append(f"{variable} {path}: {error.strerror}")

    def _places(self) -> tuple[Place, ...]:
        places = dict[tuple[object, ...], Place]()
        for holds, variable in _PLACES.items():
            if variable not in self._folders:
                continue
            under = self._folders[variable][1]
            device = under.device
            key = under.filesystem, under.options, device.name if device else None
            if known := places.get(key):
                places[key] = msgspec.structs.replace(known, holds=(*known.holds, holds))
                continue
            places[key] = Place(
                holds=(holds,),
                path=self._paths[variable],
                filesystem=under.filesystem,
                options=under.options,
                disk=device.disk if device else None,
                model=device.model if device else "",
                volatile_cache=device.volatile_cache if device else None,
                scheduler=device.scheduler if device else None,
            )
        return tuple(places.values())

    def _storage(self) -> Storage:
        _, data = self._folders.get("datadir", (None, None))
        if data is None or data.filesystem == "unknown":
            return Storage(visible=False)
        _, redo = self._folders.get("innodb_log_group_home_dir", (None, data))
        apart = data.device is not None and redo.device is not None and data.device.name != redo.device.name
        return Storage(
            filesystem=data.filesystem,
            in_memory=data.in_memory,
            device=data.device.name if data.device else None,
            record_size_bytes=data.record_size_bytes,
            volatile_cache=data.device.volatile_cache if data.device else None,
            redo_on_same_device=not apart,
            in_memory_files=tuple(name for name, (_, under) in self._folders.items() if under.in_memory),
        )

    def _launch(self) -> Launch:
        """Other arguments stay out: they may hold passwords."""
        try:
            words = Path(f"/proc/{self.pid}/environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            self._unseen.append(f"preloaded libraries: the server's environment{_only(_ITS_USER)}")
            words = []
        preload = next((one.partition("=")[2] for one in words if one.startswith("LD_PRELOAD=")), None)
        arguments = (
            word for word in command_line(self.pid) if "debug" in word.partition("=")[0] and "sync" in word
        )
        return Launch(arguments=tuple(arguments), preload=preload or None)

    def _data_device(self) -> int | None:
        try:
            return self._folders["datadir"][0].stat().st_dev
        except (KeyError, OSError):
            return None

    def _io_limits(self) -> dict[tuple[str, Path, cgroup.IoKind], cgroup.IoLimit]:
        devices = (under.device for _, under in self._folders.values())
        disks = {device.disk: device for device in devices if device}
        return {
            (name, limit.folder, limit.kind): limit
            for name, device in disks.items()
            for limit in (cgroup.io_limits(self._blkio, device.disk_number) if self._blkio else ())
        }

    def _held(self, seconds: float) -> Iterator[HeldLimit]:
        for key, after in self._io_limits().items():
            before = self._limits_began.get(key)
            if before is not None and after.used >= before.used:
                used = (after.used - before.used) / seconds
                yield HeldLimit(disk=key[0], unit=_KINDS[after.kind], limit=after.per_s, used=used)

    def _note(self, pressure: Pressure, processes: int, is_server: bool, places: tuple[Place, ...]) -> None:
        if pressure.cpu_pressure_share is None:
            self._unseen.append("pressure on processors and I/O: the kernel has no /proc/pressure")
        if places and places[0].disk is None:
            self._unseen.append(f"the disk under {places[0].path}: {places[0].filesystem} names no device")
        if self._blkio is None:
            self._unseen.append("limits of the server's control group: no hierarchy is mounted")
        if is_server:
            self._unseen.append(f"bytes that the server writes: /proc/PID/io{_only(_ITS_USER)}")
        if processes > is_server:
            others = f"writes of {counted(processes - is_server, 'other process')}"
            self._unseen.append(f"{others}: /proc/PID/io{_only('root reads it')}")


def _only(others: str) -> str:
    return f" ({others if os.geteuid() else 'denied to root here'})"


_ITS_USER = "its user and root read it"


def root_of(pid: int) -> Path | None:
    try:
        own, theirs = mounts(), mounts(pid)
    except OSError:
        return None
    if {one.id for one in own} & {one.id for one in theirs}:
        return Path("/")
    root = Path(f"/proc/{pid}/root")
    return root if os.access(root, os.X_OK) else None


def _on_device(pids: tuple[int, ...], device: int | None) -> bool | None:
    if device is None:
        return None
    open_there = [has_files_open(pid, device) for pid in pids]
    return True if True in open_there else None if None in open_there else False


def _memory_bytes(pid: int) -> int:
    physical = cgroup.parse_meminfo(Path("/proc/meminfo").read_text())["MemTotal"]
    group = cgroup.group_of(pid, "memory")
    limit = cgroup.memory_limit_bytes(group) if group else None
    return physical if limit is None else min(physical, limit)


USUAL_FILES = ("/etc/my.cnf", "/etc/mysql/my.cnf", "/usr/etc/my.cnf")
"""Of the servers of distributions and vendors, in reading order."""


class ServerStart(msgspec.Struct, frozen=True, kw_only=True):
    files: tuple[str, ...]
    unread: tuple[str, ...]
    checked: CheckedFile
    arguments: Mapping[str, Value]


def read_start(
    words: Sequence[str], identity: ServerIdentity, named: Iterable[str], root: Path = Path("/")
) -> ServerStart:
    options = dict(_options(words))  # these take their value behind `=` alone, before all others
    given = options.get("defaults_file")
    if "no_defaults" in options:
        wanted: list[str] = []
    elif given:
        wanted = [given]
    else:
        extra = options.get("defaults_extra_file")
        wanted = [*USUAL_FILES, *([extra] if extra else [])]
    texts, unread = dict[str, str](), list[str]()

    def read(path: Path) -> str | None:
        try:
            return None if is_open_to_all(path) else path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError:
            unread.append(_inside(path, root))
            return None

    def load(target: str, directory: bool) -> Iterator[tuple[str, str]]:
        path = root / target.lstrip("/")
        paths = sorted(one for one in path.iterdir() if one.suffix == ".cnf") if directory else [path]
        for one in paths:
            if (text := read(one)) is not None:
                seen.add(_inside(one, root))
                yield _inside(one, root), text

    def checked_with(files: Iterable[str]) -> CheckedFile:
        found = {name: text for name in files if (text := read(root / name.lstrip("/"))) is not None}
        texts.update(found)
        seen.update(found)
        whole = "".join(f"!include {name}\n" for name in found)
        suffix = options.get("defaults_group_suffix", "")
        return check(whole, identity, path="", loader=load, suffix=suffix)

    seen = set[str]()
    checked = checked_with(wanted)
    if "no_defaults" not in options and not given:
        further = [name for name in dict.fromkeys(named) if name.startswith("/") and name not in seen]
        if further:
            checked = checked_with([*texts, *further])
    arguments = check("[mysqld]\n" + "".join(_lines(words)), identity, path="").settings
    return ServerStart(
        files=tuple(texts), unread=tuple(dict.fromkeys(unread)), checked=checked, arguments=arguments
    )


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in _behind_program(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            yield canonical(name), value if equals else "ON"


def _lines(words: Sequence[str]) -> Iterator[str]:
    for word, following in itertools.pairwise((*_behind_program(words), "--")):
        if word.startswith("--") and not canonical(word[2:]).startswith("defaults_"):
            name, equals, value = word[2:].partition("=")
            if not equals and not following.startswith("-"):
                equals, value = "=", following
            yield f"{name}{equals}{option_value(value) if value else ''}\n"


def _behind_program(words: Sequence[str]) -> Sequence[str]:
    for number, word in enumerate(words):
        if Path(word).name.startswith(("mysqld", "mariadbd")):
            return words[number + 1 :]
    return ()


def _inside(path: Path, root: Path) -> str:
    return f"/{path.relative_to(root)}"
