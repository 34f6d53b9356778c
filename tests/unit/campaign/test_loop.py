from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import msgspec
import pytest

from flushlab.campaign import Budget, Watcher, loop, run
from flushlab.campaign.loop import blame, check_other_load, reasons
from flushlab.errors import MeasurementError
from flushlab.experiment.protocol import BlockAhead, Conversation, Request, Standing
from flushlab.process.running import publish_status
from flushlab.record import Arm, OtherLoad, Ratio, Slice, Trial
from flushlab.record.running import Running
from flushlab.store import Store
from tests.unit.records import trial


class Scripted:
    """An experiment that asks for the named arms, one after the other."""

    def __init__(self, *arms: str) -> None:
        self.told: list[str] = []
        self._conversation = Conversation(self._story(arms))

    def _story(self, arms: tuple[str, ...]) -> Generator[Request, Trial, None]:
        for number, arm in enumerate(arms):
            answer = yield Request(arm=Arm(name=arm, settings={}), stage="screen", block=number)
            self.told.append(answer.arm.name)

    def ask(self) -> Request | None:
        return self._conversation.ask()

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        return ()

    def tell(self, record: Trial) -> None:
        self._conversation.tell(record)

    @property
    def standing(self) -> Standing:
        return Standing(stage=None, done=len(self.told), total=0)


def answer(request: Request) -> Trial:
    return trial(arm=request.arm, stage=request.stage, block=request.block, seconds={"window": 10.0})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        opened.create_campaign("c", "tune", b"{}")
        yield opened


def test_every_trial_is_saved_before_the_next_question(store: Store) -> None:
    saved_when_asked = []

    def run_trial(request: Request) -> Trial:
        saved_when_asked.append(store.campaign("c").trials)
        return answer(request)

    ending = run(
        Scripted("a", "b", "c"),
        run_trial,
        known=store.trials,
        store=store,
        campaign_id="c",
        budget=Budget(trials=9),
        watcher=Watcher(),
    )
    assert (ending, saved_when_asked) == ("done", [0, 1, 2])


@pytest.mark.parametrize(
    ("error", "name"), [(KeyboardInterrupt(), "Ctrl-C"), (KeyboardInterrupt("SIGTERM"), "SIGTERM")]
)
def test_a_signal_keeps_what_was_measured_and_is_named(
    store: Store, error: KeyboardInterrupt, name: str
) -> None:
    def run_trial(request: Request) -> Trial:
        if request.arm.name == "b":
            raise error
        return answer(request)

    experiment, said = Scripted("a", "b", "c"), list[str]()
    ending = run(
        experiment,
        run_trial,
        known=store.trials,
        store=store,
        campaign_id="c",
        budget=Budget(trials=9),
        watcher=Watcher(said.append),
    )
    assert (ending, experiment.told, store.campaign("c").trials) == ("interrupted", ["a"], 1)
    assert said[-1] == f"ending: {name}"


def test_a_resumed_campaign_repeats_only_the_trial_that_was_lost(store: Store) -> None:
    for killed in ("b", "d"):
        ran: list[str] = []

        def run_trial(request: Request, killed: str = killed, ran: list[str] = ran) -> Trial:
            ran.append(request.arm.name)
            if request.arm.name == killed:
                raise SystemExit  # stands for SIGKILL: nothing after it runs
            return answer(request)

        with pytest.raises(SystemExit):
            run(
                Scripted(*"abcd"),
                run_trial,
                known=store.trials,
                store=store,
                campaign_id="c",
                budget=Budget(trials=9),
                watcher=Watcher(),
            )
    assert ran == ["b", "c", "d"]
    assert [t.arm.name for t in store.trials("c")] == ["a", "b", "c"]


@pytest.mark.parametrize("budget", [Budget(trials=2), Budget(seconds=20.0)])
def test_budget_counts_trials_of_earlier_sessions(store: Store, budget: Budget) -> None:
    store.save("c", trial(arm=Arm(name="a", settings={}), stage="screen", block=0, seconds={"window": 10.0}))
    experiment = Scripted("a", "b", "c")
    ending = run(
        experiment, answer, known=store.trials, store=store, campaign_id="c", budget=budget, watcher=Watcher()
    )
    assert (ending, experiment.told) == ("budget spent", ["a", "b"])


def test_a_campaign_takes_all_the_time_since_the_command_began(store: Store) -> None:
    began = time.monotonic() - 100
    run(
        Scripted("a", "b"),
        answer,
        known=store.trials,
        store=store,
        campaign_id="c",
        budget=Budget(),
        watcher=Watcher(),
        began=began,
    )
    elapsed = time.monotonic() - began
    first, second = store.trials("c")
    assert 90 <= first.seconds["before"] <= elapsed - 10, "the trial says that it took 10 of the 100 seconds"
    assert "before" not in second.seconds
    assert second.seconds["between"] == 0.0, "it says that it took longer than it did"
    assert 100 <= first.spent_s <= elapsed


def test_the_time_before_the_first_trial_is_spent_too(store: Store) -> None:
    experiment = Scripted("a", "b", "c")
    ending = run(
        experiment,
        answer,
        known=store.trials,
        store=store,
        campaign_id="c",
        budget=Budget(seconds=60.0),
        watcher=Watcher(),
        began=time.monotonic() - 60,
    )
    assert (ending, experiment.told) == ("budget spent", ["a"])


def test_others_that_come_and_go_are_told_of_once_while_servers_alternate() -> None:
    said = list[str]()
    watcher = Watcher(said.append)
    part = Slice(round=0, start_s=0.0, seconds=0.5, events=100)
    for share in [0.0] * 20 + [0.6] * 40 + [0.0] * 40:
        watcher.look_around(trial(slices=(part,), foreign_cpu_share=share))
    come, gone = said
    assert come.startswith("other programs use 27% of the CPU time")
    assert gone == "other programs are quiet again"
    watcher.look_around(trial(foreign_cpu_share=1.0))
    assert len(said) == 2, "a trial on a fresh server that was disturbed says so itself"


class Proving(Scripted):
    """One that has proven something once an arm was told of."""

    @property
    def standing(self) -> Standing:
        best = Ratio(estimate=1.5, low=1.4, high=1.6) if self.told else None
        return Standing(stage="screen", done=len(self.told), total=3, best=best, objective="p99")


def test_whoever_watches_is_told_of_trials_results_and_what_interim_analyses_have_proven(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(tmp_path))
    seen: list[Running] = []

    def run_trial(request: Request) -> Trial:
        seen.append(noted.current())
        return answer(request)

    watcher = Watcher()
    watcher.names({"b": "flush=2"})
    with publish_status("tune") as noted, watcher.campaign(80.0):
        run(
            Proving("a", "b"),
            run_trial,
            known=store.trials,
            store=store,
            campaign_id="c",
            budget=Budget(trials=9),
            watcher=watcher,
        )
        end = noted.current()
    first, second = seen
    assert (first.stage, first.round, first.arm, first.trial, first.ratios) == ("screen", 1, "a", 1, ())
    assert (second.round, second.arm, second.trial_results) == (2, "flush=2", {"a": 10_000.0})
    assert second.left_s is not None and 0 < second.left_s <= 70
    (ratio,) = second.ratios
    assert (ratio.arm, ratio.low, ratio.mid, ratio.early) == ("best so far", 1.4, 1.5, True)
    assert ratio.objective == "p99"
    assert end.trial_results == {"a": 10_000.0, "flush=2": 10_000.0}


QUIET = OtherLoad(seconds=3.0, cpu_share=0.02, steal_share=0.01, disk_share=0.0)
BUSY = OtherLoad(seconds=3.0, cpu_share=0.62, steal_share=0.12, disk_share=0.4)
NOWHERE = Path("/")


def seeing(*seen: OtherLoad) -> Callable[[float, Path], OtherLoad]:
    left = list(seen)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(loop.SWITCH, raising=False)
    monkeypatch.setattr(loop, "PAUSE_S", 0.0)


def test_a_quiet_machine_is_said_in_one_line() -> None:
    lines: list[str] = []
    assert check_other_load(NOWHERE, Watcher(lines.append), wait=False, watch=seeing(QUIET)) == QUIET
    assert lines == ["machine: quiet (others: CPU 2%, disk 0%, steal 1%)"]


def test_a_busy_machine_is_said_with_the_way_out_and_measured_all_the_same() -> None:
    lines: list[str] = []
    assert check_other_load(NOWHERE, Watcher(lines.append), wait=False, watch=seeing(BUSY)) == BUSY
    (line,) = lines
    assert line.startswith(
        "warning: the machine is busy: other programs use 62% of the CPU time, the disk is busy for 40% of "
        "the time, the hypervisor takes 12% of the CPU time. "
    )
    assert "--wait-for-quiet" in line


@pytest.mark.parametrize(
    ("field", "share"), [("cpu_share", 0.26), ("steal_share", 0.11), ("disk_share", 0.26)]
)
def test_each_kind_of_load_alone_makes_it_busy(field: str, share: float) -> None:
    assert not reasons(QUIET)
    assert f"{share:.0%}" in reasons(msgspec.structs.replace(QUIET, **{field: share}))
    assert not reasons(msgspec.structs.replace(QUIET, disk_share=None))


def test_waiting_checks_again_until_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "TELL_S", 0.0)
    lines: list[str] = []
    seen = check_other_load(NOWHERE, Watcher(lines.append), wait=True, watch=seeing(BUSY, BUSY, QUIET))
    assert seen is not None
    assert seen.waited_s > 0
    assert lines[0].startswith("waiting for a quiet machine, at most 30 min: other programs use 62%")
    assert lines[1].startswith("still waiting after ")
    assert lines[-1].startswith("machine: quiet after ")


def test_waiting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MOST_WAIT_S", 0.0)
    with pytest.raises(MeasurementError, match="not quiet within") as raised:
        check_other_load(NOWHERE, Watcher(), wait=True, watch=seeing(BUSY))
    assert raised.value.exit_code == 4
    assert raised.value.hint


def test_ctrl_c_ends_the_waiting() -> None:
    looks = iter([BUSY])

    def watch(*_: object) -> OtherLoad:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        check_other_load(NOWHERE, Watcher(), wait=True, watch=watch)


def test_the_check_can_be_switched_off_but_waiting_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loop.SWITCH, "off")
    lines: list[str] = []
    assert check_other_load(NOWHERE, Watcher(lines.append), wait=False, watch=seeing(BUSY)) is None
    assert lines == []
    assert check_other_load(NOWHERE, Watcher(lines.append), wait=True, watch=seeing(BUSY, QUIET)) is not None


def test_a_machine_that_was_busy_is_blamed_where_trials_cannot_tell() -> None:
    assert blame(40, 0, BUSY).startswith(
        "The machine was busy before the first trial: other programs used 62% of the CPU time"
    )
    assert blame(40, 31, BUSY) == "The machine was too busy: 31 of 40 trials disturbed"
    assert blame(40, 0, QUIET) == blame(40, 0, None) == ""
