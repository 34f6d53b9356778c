from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.errors import ServerDied, ServerError
from flushlab.experiment.protocol import Request
from flushlab.record import Arm, LoadResult, Stage, Trial, Value
from flushlab.trial import runner as trial_runner
from flushlab.trial.measurement import SIZES, Draft
from flushlab.trial.runner import ArmRunner, ArmSwitching, RemoteRunner
from flushlab.trial.sliced import SlicedRunner, _KeptServer, _Part, is_observed
from flushlab.workload.options import EngineOptions
from flushlab.workload.protocol import Measured, Timing
from tests.fakes.server import FakeServer
from tests.unit.trial.groups import FakeGroup
from tests.waiting import PATIENCE_S


class SlicedLoad:
    """A load whose slices take no time."""

    def slice(self, seconds: float, window: Callable[[], None], lead_s: float = 0.0) -> LoadResult:
        window()
        window()
        return LoadResult(seconds=seconds, events=50, throughput=100.0, per_second=(), latency_us=None)


@pytest.mark.parametrize(("slept_s", "counts"), [(0.3, True), (3600.0, False)])
def test_a_slice_in_which_the_machine_slept_does_not_count(
    slept_s: float, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([1000.0, 1000.5 + slept_s])
    monkeypatch.setattr(time, "clock_gettime", lambda _: next(clock))
    server: Any = FakeServer()
    load: Any = SlicedLoad()
    draft = Draft(arm=Arm(name="a", settings={}), stage="arms", block=0, variant=0)
    part = _Part(draft, _KeptServer(server, "a", ArmSwitching(server, {})), load)
    part.take(7, 0.5, [os.getpid()], began=time.monotonic())
    (one,) = part.slices
    assert (one.round, one.seconds, one.events) == (7, 0.5, 50)
    assert one.dropped is not counts


FLUSH = "innodb_flush_log_at_trx_commit"
ARMS = tuple(Arm(name=f"flush {value}", settings={FLUSH: value}) for value in (1, 2))


def run(runner: SlicedRunner, arm: Arm, block: int = 3) -> Trial:
    return runner.run(Request(arm=arm, stage="arms", block=block, beside=ARMS))


class Load(EngineOptions, frozen=True, kw_only=True):
    """A load that is asked for its draws alone."""

    def driving(self, server: Any) -> Any:
        server.seeds.append(self.seed)
        return self


class Shared:
    """Arms that share one group of servers: it notes what every slice found set, by arm."""

    least_slice_s = 0.5
    warm_up_s = 0.0
    slice_s = 0.5
    warnings = ()

    has_telemetry = True
    sliceable = ArmRunner.sliceable

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, dies: Callable[[int], bool] = lambda _: False
    ) -> None:
        self.groups: list[FakeGroup] = []
        self.seen: list[list[int]] = []
        self.dies = dies
        self.timing = Timing(seconds=1.0)
        self.workloads = (Load(),)
        monkeypatch.setattr(trial_runner, "SlicedLoad", lambda *_: self)

    def prepare(self, arm: Arm, *, variant: int = 0) -> None:
        """There is nothing to prepare."""

    def switching(self, server: FakeGroup, started: Mapping[str, Value]) -> ArmSwitching:
        """The settings of a group that was started."""
        return ArmSwitching(server, started)

    def is_lost(self) -> bool:
        """Another group can be started."""
        return False

    def start(self, arm: Arm, *, variant: int = 0) -> FakeGroup:
        others = FakeServer(), FakeServer()
        self.groups.append(FakeGroup(*others, answers={SIZES: []}))
        return self.groups[-1]

    def slice(self, seconds: float, window: Callable[[], None], lead_s: float) -> LoadResult:
        window()
        window()
        group = self.groups[-1]
        self.seen.append(group.values(FLUSH))
        if self.dies(len(self.seen)):
            group.others[1].die("no quorum")
        return LoadResult(seconds=seconds, events=50, throughput=100.0, per_second=(), latency_us=None)

    def measured(self, results: list[LoadResult]) -> Measured:
        return Measured(
            result=100.0, unit="transactions/s", higher_is_better=True, warm_up_s=0.0, window_s=1.0
        )

    def stop(self) -> None:
        """There is nothing to stop."""

    def trials(self, *, block: int = 3) -> dict[str, Trial]:
        """A block of three arms without telemetry; what is discarded is asked for again, as a series does."""
        arms = tuple(Arm(name=f"flush {value}", settings={FLUSH: value}) for value in (0, 1, 2))
        runner: Any = self
        found = dict[str, Trial]()
        with SlicedRunner(lambda _: runner, 1, lambda _: "one") as shared:
            for _ in range(3):
                due = tuple(arm for arm in arms if arm.name not in found)
                for number, arm in enumerate(due):
                    beside = due[number:]
                    trial = shared.run(Request(arm=arm, stage="arms", block=block, beside=beside))
                    if trial.outcome != "discarded":
                        found[arm.name] = trial
        return found


def test_every_slice_on_a_shared_server_has_its_arms_settings_on_every_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared(monkeypatch)
    trials = shared.trials()
    assert [trials[f"flush {value}"].settings[FLUSH] for value in (0, 1, 2)] == [0, 1, 2]
    assert sorted(shared.seen) == [[value] * 3 for value in (0, 0, 1, 1, 2, 2)]
    assert len(shared.groups) == 1
    assert len(set(shared.groups[0].seeds)) == 3, "with the same draws, the second arm would change nothing"
    assert not shared.groups[0].alive()


class Theirs(FakeGroup):
    """Somebody's own servers, which have been given other settings than they had."""

    def __init__(self, now: int) -> None:
        super().__init__(answers={SIZES: []}, values={FLUSH: now})
        self.before = {FLUSH: 1}
        self.name = "db1, db2, db3"

    kill = close = lambda self: None


def remote(shared: Shared, group: Theirs) -> Any:
    """The runner of somebody's own servers."""
    shared.groups.append(group)
    there: Any = group
    workloads: Any = shared.workloads
    return RemoteRunner(workloads, shared.timing, lambda _: None, server=there)


def test_somebodys_server_is_set_anew_whatever_it_has_and_never_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared, group = Shared(monkeypatch), Theirs(now=2)
    of_group = remote(shared, group)
    base = Arm(name="base", settings={})
    with SlicedRunner(lambda _: of_group, 1, lambda _: "one") as runner:
        trial = runner.run(Request(arm=base, stage="arms", block=3, beside=(base,)))
    assert trial.outcome == "measured", trial.reason
    assert {tuple(seen) for seen in shared.seen} == {(1, 1, 1)}
    assert group.alive()


@pytest.mark.parametrize("gone", [True, False])
def test_a_load_that_cannot_connect_is_its_arms_fault_only_while_somebodys_server_is_up(
    gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, group = Shared(monkeypatch), Theirs(now=1)
    of_group = remote(shared, group)
    loads: list[Any] = []

    def connect(*_: object) -> Any:
        loads.append(shared)
        if len(loads) == 2:
            if gone:
                group.others[0].die("it was stopped")
            raise ServerError("too many connections", hint="raise max_connections")
        return shared

    monkeypatch.setattr(trial_runner, "SlicedLoad", connect)
    with SlicedRunner(lambda _: of_group, 1, lambda _: "one") as runner:
        if gone:
            with pytest.raises(ServerError, match="too many connections"):
                run(runner, ARMS[0])
            return
        first, second = (run(runner, arm) for arm in ARMS)
    assert (first.outcome, second.outcome) == ("measured", "failed")
    assert second.hint == "raise max_connections"


def test_loads_that_ended_with_a_server_that_was_silent_for_a_while_are_not_driven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared, group = Shared(monkeypatch), Theirs(now=1)
    of_group = remote(shared, group)
    loads: list[Any] = []

    def connect(*_: object) -> Any:
        loads.append(shared)
        if len(loads) == 2:
            answers = iter([False])
            monkeypatch.setattr(group, "alive", lambda: next(answers, True))
            raise ServerError("it does not answer")
        return shared

    monkeypatch.setattr(trial_runner, "SlicedLoad", connect)
    with SlicedRunner(lambda _: of_group, 1, lambda _: "one") as runner:
        trials = [run(runner, arm) for arm in ARMS]
    assert [trial.outcome for trial in trials] == ["discarded", "failed"]
    assert shared.seen == []


def test_somebodys_server_that_dies_in_a_slice_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no new one to run the block again on; the other arms' slices would each wait for it."""
    shared, group = Shared(monkeypatch), Theirs(now=1)
    of_group = remote(shared, group)
    slices: list[Any] = []

    def dies(*_: object) -> Any:
        slices.append(1)
        group.others[0].die("it was stopped")
        raise ServerDied("db2 does not answer")

    monkeypatch.setattr(shared, "slice", dies)
    with (
        SlicedRunner(lambda _: of_group, 1, lambda _: "one") as runner,
        pytest.raises(ServerDied, match="db2 does not answer"),
    ):
        run(runner, ARMS[0])
    assert len(slices) == 1


def test_a_load_that_failed_on_a_shared_server_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Shared(monkeypatch)
    stopped: list[int] = []
    monkeypatch.setattr(shared, "stop", lambda: stopped.append(1))
    asked: Any = shared
    whole, slices = shared.slice, iter(range(100))

    def slice_(*given: Any) -> LoadResult:
        if next(slices) == 0:
            raise ServerError("connection lost")
        return whole(*given)

    monkeypatch.setattr(shared, "slice", slice_)
    with SlicedRunner(lambda _: asked, 1, lambda _: "one") as runner:
        first = [run(runner, arm) for arm in ARMS]
        assert sorted(one.outcome for one in first) == ["failed", "measured"]
        assert len(stopped) == 1, "the load that failed, and no other"
        again = [run(runner, arm, 5) for arm in ARMS]
    assert [one.outcome for one in again] == ["measured", "measured"]
    assert len(shared.groups) == 1


def test_a_node_that_dies_makes_the_block_run_again_on_a_new_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Shared(monkeypatch, dies=lambda slices: slices == 5)
    trials = shared.trials()
    assert {trial.outcome for trial in trials.values()} == {"measured"}
    assert len(shared.groups) == 2


def test_an_arm_whose_slices_kill_the_cluster_twice_is_out_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared(monkeypatch)
    shared.dies = lambda _: shared.seen[-1] == [0, 0, 0]
    trials = shared.trials()
    assert [trials[f"flush {value}"].outcome for value in (0, 1, 2)] == ["failed", "measured", "measured"]
    assert "no quorum" in trials["flush 0"].reason


def test_the_first_blocks_have_telemetry_and_then_ever_fewer() -> None:
    assert [block for block in range(40) if is_observed(block)] == [0, 1, 2, 4, 8, 16, 32]


class Alone(Shared):
    """Arms that have a server each: it notes which ones start, whether one is warm, and whose slices run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.seen_warm, self.sliced = threading.Event(), list[str]()
        self.begun, self.by_server = list[str](), dict[int, str]()
        monkeypatch.setattr(trial_runner, "SlicedLoad", self.warmed)

    def warmed(self, driving: Any, server: FakeGroup, timing: Timing) -> Any:
        self.seen_warm.set()
        name = self.by_server[id(server)]

        def slice_(*given: Any) -> LoadResult:
            self.sliced.append(name)
            return SlicedLoad().slice(*given)

        return SimpleNamespace(
            slice=slice_, measured=self.measured, stop=self.stop, least_slice_s=0.5, warm_up_s=0.0
        )

    def start(self, arm: Arm, *, variant: int = 0) -> FakeGroup:
        self.begun.append(arm.name)
        group = super().start(arm, variant=variant)
        self.by_server[id(group)] = arm.name
        return group

    def run(self, runner: SlicedRunner, *names: str, stage: Stage = "confirm", block: int = 3) -> list[Trial]:
        arms = tuple(Arm(name=name, settings={}) for name in names)
        return [
            runner.run(Request(arm=arm, stage=stage, block=block, beside=arms[number:]))
            for number, arm in enumerate(arms)
        ]


def alone(monkeypatch: pytest.MonkeyPatch) -> tuple[Alone, SlicedRunner]:
    fake: Any = Alone(monkeypatch)
    return fake, SlicedRunner(lambda _: fake, 1)


def test_a_server_is_warmed_up_while_others_start(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, runner = alone(monkeypatch)
    begin = fake.start

    def start(arm: Arm, *, variant: int = 0) -> FakeGroup:
        if arm.name == "c":
            assert fake.seen_warm.wait(PATIENCE_S), "nobody was warmed up meanwhile"
        return begin(arm, variant=variant)

    monkeypatch.setattr(fake, "start", start)
    with runner:
        trials = fake.run(runner, "a", "b", "c")
    assert [trial.outcome for trial in trials] == ["measured"] * 3, trials[2].reason


def test_the_order_of_slices_is_that_of_the_seed_whoever_is_up_first(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    for late in ("a", "b"):
        fake, runner = alone(monkeypatch)

        def start(arm: Arm, *, variant: int = 0, of: Alone = fake, late: str = late) -> FakeGroup:
            if arm.name == late:
                assert of.seen_warm.wait(PATIENCE_S), "nobody was warmed up meanwhile"
            return Alone.start(of, arm, variant=variant)

        monkeypatch.setattr(fake, "start", start)
        with runner:
            fake.run(runner, "a", "b")
        orders.append(fake.sliced)
    assert orders[0] == orders[1] != []


def test_ctrl_c_while_one_is_warmed_up_starts_no_further_server_and_ends_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, runner = alone(monkeypatch)

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(trial_runner, "SlicedLoad", interrupted)
    names = [f"arm {number}" for number in range(40)]
    begin = fake.start

    def start(arm: Arm, *, variant: int = 0) -> FakeGroup:
        time.sleep(0.01)
        return begin(arm, variant=variant)

    monkeypatch.setattr(fake, "start", start)
    with pytest.raises(KeyboardInterrupt), runner:
        fake.run(runner, *names)
    assert len(fake.begun) < len(names)
    assert not any(group.alive() for group in fake.groups)


def test_every_stage_has_servers_of_its_own_but_screening_goes_on_with_the_base_of_the_calibration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, runner = alone(monkeypatch)
    with runner:
        fake.run(runner, "base", stage="calibrate")
        fake.run(runner, "base", "a", stage="screen")
        assert sorted(fake.begun) == ["a", "base"]
        fake.run(runner, "base", "a", stage="confirm")
    assert sorted(fake.begun) == ["a", "a", "base", "base"]


def test_the_server_kept_running_for_an_arm_is_killed_under_its_load_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, runner = alone(monkeypatch)
    deaths: list[bool] = []

    def start_again(self: FakeGroup) -> None:
        deaths.append(not self.alive())

    monkeypatch.setattr(FakeGroup, "start_again", start_again, raising=False)
    with runner:
        fake.run(runner, "base", "a")
        assert runner.keeps_running({"base", "a"}) and not runner.keeps_running({"b"})
        assert runner.recovery_s(Arm(name="a", settings={})) >= 0
        assert deaths == [True]
        assert fake.begun == ["base", "a"] or fake.begun == ["a", "base"], "no further server was started"
        assert runner.keeps_running({"base"}) and not runner.keeps_running({"a"})


def test_an_arm_without_a_kept_server_recovers_on_a_fresh_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, runner = alone(monkeypatch)
    monkeypatch.setattr(fake, "recovery_s", lambda arm: 3.0, raising=False)
    with runner:
        fake.run(runner, "base")
        assert runner.recovery_s(Arm(name="a", settings={})) == 3.0
        assert not runner.keeps_running({"base"}), "it would take the memory of the fresh one"
