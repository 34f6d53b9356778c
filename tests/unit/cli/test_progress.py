from __future__ import annotations

import pytest

from flushlab.campaign.watcher import Spent, Watcher
from flushlab.cli.progress import CampaignProgress
from flushlab.experiment.protocol import Objective, Request, Standing
from flushlab.record import Arm, Ratio, Slice
from tests.unit.records import trial


def told(budget_s: float | None, done: int, total: int, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said when a trial of 10 s has ended, after `done` others of 10 s."""
    standing = Standing(stage="arms", done=done, total=total)
    shown = CampaignProgress()
    with shown.campaign(budget_s):
        request = Request(arm=Arm(name="A", settings={}), stage="arms", block=1)
        shown.starting(request, standing, Spent(10.0 * done, 10.0 * done, done))
        ended = trial(arm=request.arm, stage="arms", seconds={"window": 10.0})
        shown.ended(ended, standing, Spent(10.0 * done, 10.0 * done, done).and_of(ended))
    return capsys.readouterr().err


def test_the_time_left_is_estimated_from_the_trials_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    assert "about 3 min left" in told(None, 1, 20, capsys)


def test_a_budget_says_how_much_is_left_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "at most 40 s left" in told(60.0, 1, 20, capsys)


def test_after_the_last_trial_nothing_is_left_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert "left" not in told(None, 19, 20, capsys)


def test_preparing_the_data_does_not_make_the_rest_look_long() -> None:
    first = trial(seconds={"before": 9.0, "prepare": 300.0, "window": 10.0, "between": 1.0})
    spent = Spent().and_of(first).and_of(trial(seconds={"window": 10.0, "between": 1.0}))
    assert (spent.seconds, spent.repeated_s, spent.trials) == (331.0, 22.0, 2)


def test_what_follows_the_last_trial_is_part_of_the_time_left() -> None:
    lines: list[str] = []
    watcher = Watcher(lines.append)
    standing = Standing(stage="confirm", done=18, total=20, after=2.5)
    watcher.ended(trial(seconds={"window": 10.0}), standing, Spent(190.0, 190.0, 19))
    assert "about 35 s left" in lines[0]


def test_of_short_blocks_of_slices_one_is_told_for_all_that_end_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    watcher, now, standing = Watcher(lines.append), [0.0], Standing(stage="arms", done=1, total=9)
    watcher.names({"base": "mine", "fast": "fast"})
    monkeypatch.setattr("flushlab.campaign.watcher.time.monotonic", lambda: now[0])
    part = Slice(round=0, start_s=0.0, seconds=1.0, events=50)
    for block in range(13):
        for name, result in (("fast", 5000.0), ("base", 50.0)):
            request = Request(arm=Arm(name=name, settings={}), stage="arms", block=block)
            watcher.starting(request, standing, Spent())
            done = trial(arm=request.arm, stage="arms", block=block, result=result, slices=(part,))
            watcher.ended(done, standing, Spent())
            now[0] += 1.0
    assert lines == [
        "arms 0 · mine 50.00, fast 5,000 transactions/s",
        "arms 5 · mine 50.00, fast 5,000 transactions/s",
        "arms 10 · mine 50.00, fast 5,000 transactions/s",
    ]


@pytest.mark.parametrize(
    ("arms", "told"),
    [(1, "a0{long} 100 transactions/s"), (2, "2 arms, 100 to 101 transactions/s")],
)
def test_a_block_of_slices_whose_line_is_long_is_told_whatever_a_resumed_one_has_left(
    arms: int, told: str
) -> None:
    lines, long = list[str](), "x" * 120
    watcher, standing = Watcher(lines.append), Standing(stage="arms", done=1, total=9)
    part = Slice(round=0, start_s=0.0, seconds=1.0, events=50)
    for number in range(arms):
        arm = Arm(name=f"a{number}{long}", settings={})
        done = trial(arm=arm, stage="arms", block=0, result=100.0 + number, slices=(part,))
        watcher.ended(done, standing, Spent())
    watcher.starting(Request(arm=Arm(name="x", settings={}), stage="arms", block=1), standing, Spent())
    assert lines == [f"arms 0 · {told.format(long=long)}"]


def test_a_slice_that_fails_is_told_at_once() -> None:
    lines: list[str] = []
    failed = trial(outcome="failed", reason="the server died")
    Watcher(lines.append).ended(failed, Standing(stage="bench", done=1, total=9), Spent())
    assert lines == ["bench 1 · base: failed: the server died"]


@pytest.mark.parametrize(
    ("objective", "best", "result"),
    [
        ("throughput", "best so far 1.50× as fast", "10,000 transactions/s"),
        ("p99", "best so far 1.50× lower p99 latency", "1.90 ms p99 latency"),
    ],
)
def test_lines_name_what_is_compared(objective: Objective, best: str, result: str) -> None:
    lines: list[str] = []
    gain = Ratio(estimate=1.5, low=1.4, high=1.6)
    standing = Standing(stage="confirm", done=1, total=9, best=gain, objective=objective)
    Watcher(lines.append).ended(trial(arm=Arm(name="x", settings={})), standing, Spent())
    assert lines == [f"bench 1 · x: {result} ({best})"]
