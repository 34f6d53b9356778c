"""Nodes that do not come back: for want of something, in time, or because of what a crash has left."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.crashed.killed import KilledCluster, bring_back
from flushlab.crashed.recording import CrashedServer
from flushlab.crashed.recovered_server import NotBack
from flushlab.datadir import DataRoot
from flushlab.errors import (
    FlushlabError,
    LibraryMissing,
    MeasurementError,
    NoMemory,
    NoSpace,
    PortTaken,
    ServerDied,
    ServerError,
    StartFailed,
)
from flushlab.record import CrashPoint, Storage
from flushlab.server import SandboxSpec
from flushlab.server.galera.bootstrap import NoPosition
from tests.unit.builds import MARIADB

POINT = CrashPoint(at=0, kind="random", seed=1)


def ends_with(error: Exception) -> Any:
    """A cluster of three whose nodes do not come back."""

    def start_again() -> None:
        raise error

    return SimpleNamespace(nodes=[None] * 3, start_again=start_again)


def unfinished() -> StartFailed:
    error = StartFailed("the server was not ready after 900 s")
    error.unfinished = True
    return error


@pytest.mark.parametrize(
    "error",
    [
        NoSpace("the disk is full"),
        NoMemory("the memory is"),
        PortTaken("4567 is taken"),
        LibraryMissing("libaio.so.1 is missing"),
        ServerError("the cluster did not come together"),
        unfinished(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_nodes_lack_and_what_takes_too_long_is_no_loss(error: FlushlabError) -> None:
    with pytest.raises(type(error)) as told:
        bring_back(ends_with(error), [1, 2, 3])
    assert told.value is error


@pytest.mark.parametrize(
    "error",
    [
        StartFailed("its log says:\n2026-11-25 2:00:00 0 [ERROR] InnoDB: page 7 is torn"),
        ServerDied("its log says:\n2026-11-25 2:00:00 0 [ERROR] InnoDB: page 7 is torn"),
        NoPosition("InnoDB: page 7 is torn"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_nodes_that_cannot_start_on_what_is_left_do_not_come_back(error: FlushlabError) -> None:
    with pytest.raises(NotBack, match="page 7 is torn"):
        bring_back(ends_with(error), [1, 2, 3])


@pytest.fixture
def killed(tmp_path: Path) -> KilledCluster:
    spec = CrashedServer(
        spec=SandboxSpec(MARIADB, nodes=3),
        data_root=DataRoot(path=tmp_path, storage=Storage()),
        seconds=1.0,
    )
    return KilledCluster(spec, lambda _: None, tmp_path, "all")  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "error",
    [OSError(5, "Input/output error"), ServerError("no answer"), MeasurementError("the load stopped")],
)
def test_a_crash_that_cannot_be_judged_is_unknown_with_its_reason_once_the_load_ran(
    killed: KilledCluster, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(_: CrashPoint) -> None:
        killed._ran = True
        raise error

    monkeypatch.setattr(killed, "_crash_nodes", fails)
    crash = killed.kill(POINT)
    assert (crash.outcome, crash.reasons) == ("unknown", (str(error),))


def test_a_cluster_that_cannot_be_had_at_all_is_an_error(
    killed: KilledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise NoSpace("a cluster of 3 nodes needs 684 MiB")

    monkeypatch.setattr(killed, "_alive", full)
    with pytest.raises(NoSpace):
        killed.kill(POINT)
