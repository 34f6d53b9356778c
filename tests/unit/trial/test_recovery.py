"""Recovery after SIGKILL: what is a verdict about it, and what is none."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from flushlab.errors import FlushlabError, MeasurementError, ServerDied, ServerError, StartFailed
from flushlab.record import Arm
from flushlab.trial.runner import TrialRunner
from flushlab.workload.protocol import Timing

ARM = Arm(name="fast", settings={"sync_binlog": 0})


class Server:
    """A server that dies when it is told to, and comes back or not."""

    def __init__(self, back: FlushlabError | None = None) -> None:
        self.back, self.is_alive = back, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def alive(self) -> bool:
        return self.is_alive

    def kill(self) -> None:
        self.is_alive = False

    def start_again(self) -> None:
        assert not self.is_alive
        if self.back is not None:
            raise self.back


class Load:
    """A load that ends before its window does, or lives through it and complains of the dead server."""

    name = "upsert"

    def __init__(self, early: FlushlabError | None = None, *, measures: bool = True) -> None:
        self.early, self.measures = early, measures

    def run(self, server: Any, timing: Timing, window: AbstractContextManager[None]) -> None:
        if self.early is not None:
            raise self.early
        if self.measures:
            with window:
                pass
            raise ServerDied("the server is gone")


def runner(server: Server | FlushlabError, load: Load) -> TrialRunner:
    def start(arm: Arm, *, variant: int) -> Server:
        if isinstance(server, FlushlabError):
            raise server
        return server

    found: Any = SimpleNamespace(workloads=(load,), timing=Timing(), start=start)
    return cast(TrialRunner, found)


def seconds(server: Server | FlushlabError, load: Load) -> float:
    return TrialRunner.recovery_s(runner(server, load), ARM)


def test_a_server_that_was_killed_under_load_and_came_back_has_recovered() -> None:
    assert seconds(Server(), Load()) >= 0


def test_a_server_that_does_not_come_back_is_a_verdict() -> None:
    with pytest.raises(ServerError, match="a page is torn"):
        seconds(Server(StartFailed("a page is torn")), Load())


@pytest.mark.parametrize(
    ("server", "load", "said"),
    [
        (
            Server(),
            Load(MeasurementError("1213: Deadlock found")),
            "before the server was killed: 1213: Dead",
        ),
        (Server(), Load(ServerDied("it crashed")), "before the server was killed: it crashed"),
        (Server(), Load(measures=False), "the load ended before the server was killed"),
        (StartFailed("no port"), Load(), "the server to be killed did not start: no port"),
    ],
)
def test_what_went_wrong_before_the_kill_is_no_verdict(
    server: Server | FlushlabError, load: Load, said: str
) -> None:
    with pytest.raises(MeasurementError, match=said):
        seconds(server, load)
