"""Running: what this process is doing, told to whoever of its user's asks; and finding those that do.

Process layer. A command that runs something has a `LiveStatus`; the layers above note their state there: a
few assignments, which nobody reads until somebody asks. Who asks connects to a socket in `live` in flushlab's
home, which only its user can, and is sent a `record.Running`. A process that is gone answers nobody, however
it ended, so nothing has to be cleaned up to be right. Nothing here ever stops a command.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import stat
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.errors import FlushlabError
from flushlab.machine import home_part
from flushlab.machine.home import home_path
from flushlab.process.identity import machine
from flushlab.record import LoadSeen, Ratio, seen_together
from flushlab.record.running import (
    FillProgress,
    LoadSecond,
    Running,
    RunningKind,
    RunningMark,
    ShownRatio,
    WatchedServer,
)

FOLDER = "live"
ANSWER_S = 5.0
"""Who has not answered by then does not count as running; on a busy machine a second is no reason."""
LEFT_BEHIND = 16
"""So many sockets may lie there before somebody looks for dead ones; each is an empty file."""
SETTLED_S = 10.0
"""A socket that refuses is younger than this only if its process is about to listen."""
MOST_BYTES = 4 << 20
SECONDS_KEPT = 60
MARKS_KEPT = 240
LOADS_KEPT = 32
"""So many loads' totals are kept apart: more than servers run at once."""


class LiveStatus:
    def __init__(self, running: Running) -> None:
        self._now = running
        self._seconds: deque[LoadSecond] = deque(maxlen=SECONDS_KEPT)
        self._marks: deque[RunningMark] = deque(maxlen=MARKS_KEPT)
        self._number = 0
        self._loads: dict[int, LoadSeen] = {}
        self._servers: dict[str, WatchedServer] = {}
        self._driven_s: dict[str, float] = {}
        self._driven: tuple[str, float] | None = None
        self._until_s: float | None = None
        self._names: Mapping[str, str] = {}

    @property
    def is_seen(self) -> bool:
        return self is not _NOBODYS

    def current(self) -> Running:
        while True:
            try:
                seconds, marks = tuple(self._seconds), tuple(self._marks)
                servers, loads = tuple(self._servers.values()), tuple(self._loads.values())
                break
            except RuntimeError:  # they changed meanwhile
                continue
        now, driven, spent = time.monotonic(), self._driven, {**self._driven_s}
        if driven is not None:
            spent[driven[0]] = spent.get(driven[0], 0.0) + now - driven[1]
        return msgspec.structs.replace(
            self._now,
            seconds=seconds,
            marks=marks,
            servers=tuple(
                msgspec.structs.replace(one, driven_s=spent.get(one.key, one.driven_s)) for one in servers
            ),
            pids=tuple(pid for one in servers for pid in one.pids),
            totals=_together(loads),
            left_s=None if self._until_s is None else max(0.0, self._until_s - now),
        )

    def is_about(self, *, campaign: str = "", server: str = "", workload: str = "") -> None:
        known = {"campaign": campaign, "server": server, "workload": _shown(workload)}
        self._note(**{name: value for name, value in known.items() if value})

    def names(self, names: Mapping[str, str]) -> None:
        self._names = names

    def trial(self, *, stage: str, block: int, arm: str, left_s: float | None) -> None:
        arm = self._called(arm)
        if stage != self._now.stage:
            self._mark("stage", stage)
        self._until_s = None if left_s is None else left_s + time.monotonic()
        self._note(stage=stage, round=block, arm=arm, trial=self._now.trial + 1)

    def result(self, arm: str, result: float) -> None:
        self._note(trial_results={**self._now.trial_results, self._called(arm): result})

    def ratios(
        self, found: Mapping[str, Ratio], objective: Literal["throughput", "p99", "latency"], *, early: bool
    ) -> None:
        shown = tuple(
            ShownRatio(
                arm=self._called(arm),
                low=one.low,
                mid=one.estimate,
                high=one.high,
                early=early,
                objective=objective,
            )
            for arm, one in found.items()
        )
        if shown != self._now.ratios:
            self._note(ratios=shown)

    @contextmanager
    def running_server(self, server: WatchedServer, *, trial: bool = False) -> Iterator[None]:
        self.server_started(server)
        if trial:
            self._mark("trial", self._called(server.arm))
        try:
            yield
        finally:
            self.server_ended(server.key)

    def server_started(self, server: WatchedServer) -> None:
        self._servers[server.key] = msgspec.structs.replace(server, arm=self._called(server.arm))

    def server_ended(self, key: str) -> None:
        self._servers.pop(key, None)
        self._driven_s.pop(key, None)

    @contextmanager
    def driving(self, key: str, arm: str) -> Iterator[None]:
        began = time.monotonic()
        arm = self._called(arm)
        self._note(arm=arm)
        self._mark("slice", arm)
        self._driven = key, began
        try:
            yield
        finally:
            self._driven = None
            self._driven_s[key] = self._driven_s.get(key, 0.0) + time.monotonic() - began

    def second(
        self, per_second: float, unit: str, *, p50_ms: float | None = None, p99_ms: float | None = None
    ) -> None:
        if unit != self._now.unit:
            self._note(unit=unit)
        self._number += 1
        self._seconds.append(
            LoadSecond(
                number=self._number,
                arm=self._now.arm,
                per_second=per_second,
                p50_ms=p50_ms,
                p99_ms=p99_ms,
            )
        )

    def load(self, load: int, totals: LoadSeen) -> None:
        self._loads.pop(load, None)
        self._loads[load] = totals
        if len(self._loads) > LOADS_KEPT:
            (_, first), (_, second), *others = self._loads.items()
            self._loads = {0: _together([first, second]), **dict(others)}

    def fill(self, progress: FillProgress) -> None:
        before = self._now.fill
        rows = {**(before.rows_by_table if before else {}), progress.table: progress.rows}
        self._note(fill=msgspec.structs.replace(progress, rows_by_table=rows))

    def _called(self, arm: str) -> str:
        return self._names.get(arm, arm)

    def _note(self, **news: object) -> None:
        self._now = msgspec.structs.replace(self._now, **news)

    def _mark(self, kind: Literal["stage", "trial", "slice"], text: str) -> None:
        number = self._marks[-1].number + 1 if self._marks else 1
        self._marks.append(RunningMark(number=number, at=time.time(), kind=kind, text=text))


def _together(loads: Sequence[LoadSeen]) -> LoadSeen:
    whole = seen_together(loads)
    if not loads:
        return whole
    return msgspec.structs.replace(whole, backlog=loads[-1].backlog, lag_p99_us=loads[-1].lag_p99_us)


_boards: list[LiveStatus] = []


def live_status() -> LiveStatus:
    return _boards[-1] if _boards else _NOBODYS


def current_status() -> Running | None:
    return _boards[-1].current() if _boards else None


@contextmanager
def publish_status(
    kind: RunningKind, *, server: str = "", workload: str = "", floor: str = ""
) -> Iterator[LiveStatus]:
    """A bench within a probe, for example, is part of the probe."""
    if _boards:
        yield _boards[-1]
        return
    about = Running(
        kind=kind, server=server, workload=_shown(workload), floor=floor, pid=os.getpid(), began=time.time()
    )
    status = LiveStatus(about)
    _boards.append(status)
    answering = _StatusServer.open(status)
    try:
        yield status
    finally:
        _boards.remove(status)
        if answering is not None:
            answering.close()


_NOBODYS = LiveStatus(Running(kind="test", pid=0, began=0.0))


def _shown(workload: str) -> str:
    kind, colon, words = workload.partition(":")
    return f"{kind}: {(words.split() or [''])[0]}" if colon and kind == "command" else workload


class _StatusServer:
    def __init__(self, status: LiveStatus, listening: socket.socket, place: Path) -> None:
        self._status, self._listening, self._place = status, listening, place
        self._thread = threading.Thread(target=self._run, name="running", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, status: LiveStatus) -> _StatusServer | None:
        with suppress(OSError, FlushlabError):
            folder = home_part(FOLDER)
            if len(list(folder.iterdir())) > LEFT_BEHIND:
                find()  # it removes those of killed processes
            place = folder / f"{_here()}-{os.getpid()}-{secrets.token_hex(4)}"
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                os.fchmod(listening.fileno(), 0o600)  # unix(7): the file gets the socket's mode
                with near(place) as path:
                    listening.bind(path)
                listening.listen(8)
            except BaseException:
                listening.close()
                raise
            return cls(status, listening, place)
        return None

    def close(self) -> None:
        with suppress(OSError):
            self._place.unlink()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(2)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            try:
                asking, _ = self._listening.accept()
            except OSError:
                return
            with asking, suppress(OSError):
                asking.settimeout(ANSWER_S)
                asking.sendall(msgspec.json.encode(self._status.current()))


class RunningProcess(msgspec.Struct, frozen=True):
    place: Path
    running: Running


def find() -> list[RunningProcess]:
    places: list[Path] = []
    with suppress(OSError):
        places = sorted((home_path() / FOLDER).iterdir())
    processes = [RunningProcess(place, running) for place in places if (running := ask(place)) is not None]
    return sorted(processes, key=lambda process: -process.running.began)


def ask(place: Path) -> Running | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ANSWER_S)
        try:
            with near(place) as path:
                asking.connect(path)
            answer = b""
            while piece := asking.recv(1 << 16):
                answer += piece
                if len(answer) > MOST_BYTES:
                    return None
            return msgspec.json.decode(answer, type=Running)
        except ConnectionRefusedError:
            with suppress(OSError):
                if _is_left(place):
                    place.unlink()
            return None
        except (OSError, msgspec.DecodeError):
            return None


def _is_left(place: Path) -> bool:
    """True for the socket of a killed process; a living one refuses for an instant, too, at its beginning."""
    facts = place.lstat()
    old = time.time() - facts.st_mtime > SETTLED_S
    return stat.S_ISSOCK(facts.st_mode) and old and place.name.startswith(f"{_here()}-")


def _here() -> str:
    name = machine() or os.uname().nodename
    return "".join(letter if letter.isalnum() else "-" for letter in name)[:40]


@contextmanager
def near(place: Path) -> Iterator[str]:
    """A short path of a socket: unix(7) has room for 107 bytes."""
    folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)
