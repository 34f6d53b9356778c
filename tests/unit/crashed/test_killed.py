"""Kills after which the server cannot be judged."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from flushlab.crashed import killed
from flushlab.crashed.judge import AckNote, RecoveredServer
from flushlab.crashed.killed import KilledServer
from flushlab.crashed.recording import CrashedServer, CrashingLoad, LoadOutcome
from flushlab.datadir import DataRoot
from flushlab.errors import PortTaken, ServerError, StartFailed
from flushlab.record import Crash, CrashPoint, Storage
from flushlab.server import Sandbox, SandboxSpec
from tests.unit.builds import MARIADB

SLOW = StartFailed("the server was not ready after 900 s; its log says:\nApplying batch")
SLOW.unfinished = True


class Server:
    """It comes back, or not."""

    def __init__(self, start: Exception | None) -> None:
        self._start, self.lives, self.storage = start, True, None

    def start_again(self) -> None:
        if self._start:
            raise self._start
        self.lives = True

    def kill(self) -> None:
        self.lives = False

    def alive(self) -> bool:
        return self.lives


def kill(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    start: Exception | None = None,
    ask: Exception | None = None,
) -> tuple[Crash, KilledServer]:
    """One kill, after which one of the two fails."""

    def run(server: Server, *_: object) -> LoadOutcome:
        server.kill()
        return LoadOutcome([AckNote(1, 1, 0, 1)], 2, 1.0, over=False, lasted_s=1.0)

    def fail(*_: object) -> None:
        assert ask is not None
        raise ask

    monkeypatch.setattr(killed, "run_until_killed", run)
    monkeypatch.setattr(killed, "ask", fail)
    servers: list[Any] = [Server(start)]
    monkeypatch.setattr(Sandbox, "start", lambda *_, **__: nullcontext(servers[0]))
    spec = CrashedServer(
        spec=SandboxSpec(MARIADB),
        data_root=DataRoot(path=folder, storage=Storage()),
        seconds=1.0,
    )
    killing = KilledServer(spec, lambda _: CrashingLoad(None, None), folder)
    crash = killing.kill(CrashPoint(at=0, kind="random", seed=1))
    servers[0] = Server(None)
    return crash, killing


@pytest.mark.parametrize(
    ("start", "ask", "why"),
    [
        (SLOW, None, "the server was not ready after 900 s"),
        (PortTaken("port 3307 is in use"), None, "port 3307 is in use"),
        (None, ServerError("it does not answer within 900 s"), "it does not answer within 900 s"),
        (None, OSError(24, "Too many open files"), "[Errno 24] Too many open files"),
    ],
)
def test_a_kill_that_cannot_be_judged_is_unknown_with_the_reason_and_another_server_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: Exception | None, ask: Exception | None, why: str
) -> None:
    crash, killing = kill(monkeypatch, tmp_path, start=start, ask=ask)
    assert (crash.outcome, crash.acknowledged, crash.lost, crash.reasons) == ("unknown", 1, 0, (why,))
    monkeypatch.setattr(killed, "ask", lambda *_: RecoveredServer(None))
    assert killing.kill(CrashPoint(at=0, kind="random", seed=2)).outcome == "sound"


def test_a_server_that_does_not_come_back_has_lost_everything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crash, _ = kill(monkeypatch, tmp_path, start=StartFailed("it ended"))
    assert (crash.outcome, crash.lost) == ("not_started", 1)
