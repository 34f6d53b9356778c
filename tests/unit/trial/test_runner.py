"""A running server takes an arm's settings; recoveries are timed from the kill under load."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from flushlab.errors import FlushlabError, MeasurementError, ServerDied, ServerError, StartFailed
from flushlab.record import Arm, Value
from flushlab.trial.measurement import Draft
from flushlab.trial.runner import ArmSwitching, TrialRunner
from flushlab.workload.protocol import Timing
from tests.fakes.server import FakeServer
from tests.unit.trial.groups import FakeGroup

FLUSH, SYNC = "innodb_flush_log_at_trx_commit", "sync_binlog"


def arm(**settings: Value) -> Arm:
    return Arm(name="arm", settings=settings)


def test_an_arms_settings_reach_every_node_and_the_next_arm_puts_them_back() -> None:
    group = FakeGroup()
    switching = ArmSwitching(group, {})
    assert switching.become(arm(innodb_flush_log_at_trx_commit=2, sync_binlog=7)) is None
    assert (group.values(FLUSH), group.values(SYNC)) == ([2, 2, 2], [7, 7, 7])
    assert switching.become(arm(sync_binlog=1)) is None
    assert (group.values(FLUSH), group.values(SYNC)) == ([1, 1, 1], [1, 1, 1])


def test_nothing_is_set_for_an_arm_that_the_server_has_already() -> None:
    group = FakeGroup()
    switching = ArmSwitching(group, {SYNC: 0})
    for settings in ({SYNC: 0}, {SYNC: 0, FLUSH: 2}, {SYNC: 0, FLUSH: 2}, {SYNC: 0}):
        assert switching.become(Arm(name="arm", settings=settings)) is None
    sets = [sql for sql in group.statements if sql.startswith("SET")]
    assert sets == [f"SET GLOBAL {FLUSH} = %s", f"SET GLOBAL {FLUSH} = %s"]


def test_a_node_that_makes_something_else_of_a_value_makes_the_trial_invalid() -> None:
    group = FakeGroup(FakeServer(), FakeServer(rounds={FLUSH: lambda _: 1}))
    refused = ArmSwitching(group, {}).become(arm(innodb_flush_log_at_trx_commit=2))
    assert refused is not None
    assert refused.outcome == "invalid"
    assert refused.reason.startswith(f"node 3: {FLUSH} was set to 2 but the server reports 1")


def test_what_one_node_refuses_is_refused_with_its_words_and_put_back_on_the_others() -> None:
    group = FakeGroup(FakeServer(refuses={SYNC: "not on this node"}), FakeServer())
    switching = ArmSwitching(group, {})
    refused = switching.become(arm(sync_binlog=7))
    assert refused == ("refused", "node 2: sync_binlog=7: not on this node")
    assert switching.become(arm()) is None
    assert group.values(SYNC) == [0, 0, 0]


def test_what_needs_a_restart_is_refused_where_arms_share_a_server() -> None:
    refused = ArmSwitching(FakeServer(), {}).become(arm(log_bin="ON"))
    assert refused is not None
    assert refused.outcome == "refused"
    assert "while the server runs" in refused.reason


@pytest.mark.parametrize("name", [FLUSH, SYNC])
def test_a_node_that_keeps_commits_otherwise_makes_a_trial_invalid_though_nobody_asked(name: str) -> None:
    values: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 0, "log_bin": "OFF"}
    group = FakeGroup(FakeServer(values=values), FakeServer(values={**values, name: 2}), values=values)
    draft = Draft(arm=arm(), stage="arms", block=0, variant=0)
    default = values[name]
    assert draft.read_back(group) == f"{name} is {default} on node 1, but 2 on node 3"


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
