"""A second: what the document says of the server, of what runs and of the machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.record import Arm
from flushlab.record.running import FillProgress, LoadSecond, Running, RunningMark
from flushlab.store import Store
from flushlab.watch import sampler
from flushlab.watch import watch as watch_module
from flushlab.watch.poller import PollResult
from flushlab.watch.sampler import Sample, Sampler
from flushlab.watch.threads import Meter, Ring
from flushlab.watch.watch import past
from tests.unit.records import trial
from tests.unit.telemetry.live.told import seen
from tests.unit.watch.judged import JUDGED
from tests.waiting import wait_until

PATIENCE_S = 600.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a while makes nothing old, and leaves no gap."""
    monkeypatch.setattr(sampler, "STALE_S", PATIENCE_S)
    monkeypatch.setattr(sampler, "GAP_S", PATIENCE_S)


RUNNING = Running(kind="compare", campaign="c", pid=7, began=1.0, arm="A", stage="arms", unit="rows/s")


def taken(known: PollResult, running: Running | None = None) -> Sample:
    return Taker(known, running).take()


class Taker:
    def __init__(self, known: PollResult, running: Running | None = None) -> None:
        self.known, self.running, self.ring = known, running, Ring(1)
        self._sampler = Sampler(self.ring, lambda: self.known, lambda: self.running, tuple, Meter())

    def take(self) -> Sample:
        self._sampler.take()
        return msgspec.json.decode(self.ring.after(None)[0][1], type=Sample)


def up(at_s: float | None = None, **more: Any) -> PollResult:
    now = time.monotonic() if at_s is None else at_s
    return PollResult(up=True, since=5.0, before=seen(at_s=now - 2), seen=seen(at_s=now, **more))


def test_a_server_that_answers() -> None:
    sample = taken(up())
    assert (sample.server.up, sample.server.name, sample.server.since) == (True, "mysql@9.7.4", 5.0)
    assert (sample.unit, sample.throughput) == ("statements/s", 0.0)
    assert (sample.dirty, sample.wait_timeout, sample.max_connections) == (0.05, 28800, 151)
    assert [one.count for one in sample.connections] == [120, 3]


def test_what_bounds_writes_is_in_the_sample() -> None:
    found = taken(msgspec.structs.replace(up(), judged=JUDGED)).diagnosis
    assert found is not None and found.answer == JUDGED.diagnosis.answer
    assert found.waits == {"commit": 11.0, "client": 2.5}
    first, *_, last = found.findings
    assert (first.name, first.strength) == ("commit_sync", "binds")
    assert first.mid is not None and first.at_most is not None and first.seen
    assert (last.strength, last.seen) == ("hint", ())
    assert taken(up()).diagnosis is None
    assert (
        taken(msgspec.structs.replace(up(time.monotonic() - PATIENCE_S - 1), judged=JUDGED)).diagnosis is None
    )


def test_a_server_that_is_gone_says_since_when_and_why() -> None:
    known = PollResult(up=False, since=9.0, why="Can't connect", seen=seen(at_s=time.monotonic()))
    sample = taken(known)
    assert (sample.server.up, sample.server.since, sample.server.why) == (False, 9.0, "Can't connect")
    assert sample.server.name == "mysql@9.7.4"
    assert (sample.throughput, sample.redo.checkpoint_age, sample.connections) == (None, None, ())


def test_what_was_told_long_ago_is_not_shown_as_present() -> None:
    assert taken(up(time.monotonic() - PATIENCE_S - 1)).dirty is None


def test_load_of_flushlabs_own_wins_and_each_second_is_told_once() -> None:
    seconds = (
        LoadSecond(number=1, arm="A", per_second=10.0, p50_ms=1.0, p99_ms=2.0),
        LoadSecond(number=2, arm="A", per_second=30.0, p50_ms=3.0, p99_ms=4.0),
    )
    taker = Taker(up(), msgspec.structs.replace(RUNNING, seconds=seconds))
    first = taker.take()
    assert (first.throughput, first.unit, first.p50_ms, first.p99_ms) == (20.0, "rows/s", 3.0, 4.0)
    assert taker.take().throughput is None
    assert first.running is not None and first.running.arm == "A"


def test_a_fills_throughput_is_its_rows() -> None:
    fill = FillProgress(table="t", rows=1, total=9, bytes=1, rows_per_s=7.0, left_s=1.0, bound_by="disk")
    sample = taken(up(), msgspec.structs.replace(RUNNING, unit="", fill=fill))
    assert (sample.throughput, sample.unit) == (7.0, "rows/s")
    assert sample.fill is not None and (sample.fill.rows, sample.fill.total) == (1, 9)


def test_marks_are_told_once_and_again_by_another_process() -> None:
    marks = (RunningMark(number=1, at=1.0, kind="stage", text="arms"),)
    taker = Taker(PollResult(), msgspec.structs.replace(RUNNING, marks=marks))
    assert [mark.text for mark in taker.take().marks] == ["arms"]
    assert taker.take().marks == ()
    taker.running = msgspec.structs.replace(RUNNING, pid=8, marks=marks)
    assert [mark.text for mark in taker.take().marks] == ["arms"]


def test_a_clock_that_jumps_bends_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 5.0)
    sample = taken(up(status={"uptime": "102", "questions": "2000"}))
    assert sample.t == 5.0
    assert sample.throughput == pytest.approx(500, rel=0.01)


def test_a_machine_that_slept_leaves_a_gap_that_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    taker = Taker(PollResult())
    assert taker.take().marks == ()
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) + 3600
    monkeypatch.setattr(time, "clock_gettime", lambda _: slept)
    assert [(mark.kind, mark.text) for mark in taker.take().marks] == [("gap", "1 h")]


def test_a_sample_that_cannot_be_taken_says_why_and_the_next_one_is_taken_again() -> None:
    taker = Taker(up(), RUNNING)
    assert taker.take().failed == ""
    taker.running = msgspec.structs.replace(RUNNING, arm="\udcff")  # no encoding has it
    failed = taker.take()
    assert failed.failed.startswith("internal error: UnicodeEncodeError: ")
    assert (failed.server.up, failed.running, failed.throughput) == (False, None, None)
    assert (taker._sampler.failures, taker._sampler.running) == (1, None)
    taker.running = RUNNING
    assert (taker.take().failed, taker._sampler.failures) == ("", 1)


def test_the_thread_outlives_an_error_that_nobody_expected() -> None:
    errors = iter([RuntimeError("the disk answers nonsense")])

    def running() -> Running:
        for error in errors:
            raise error
        return RUNNING

    ring = Ring(1)
    sampler = Sampler(ring, PollResult, running, tuple, Meter())
    sampler.start()
    wait_until(lambda: len(ring.after(0)) >= 2, "a second sample is there")
    sampler.close()
    first, second = (msgspec.json.decode(data, type=Sample) for _, data in ring.after(0)[:2])
    assert first.failed == "internal error: RuntimeError: the disk answers nonsense"
    assert second.running is not None and second.running.arm == "A"


def test_a_server_that_cannot_be_asked_because_of_an_error_inside_is_said_so() -> None:
    assert taken(PollResult(failed="internal error: KeyError: 'x'")).failed == "internal error: KeyError: 'x'"


def test_the_last_hour_comes_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("c", "compare", b"{}")
        store.save("c", trial(arm=Arm(name="A", settings={}), stage="arms", block=2))
        store.save("c", trial(arm=Arm(name="B", settings={}), unit="s", higher_is_better=False))
    monkeypatch.setattr(watch_module, "existing_store", lambda: Store.existing(tmp_path / "store.sqlite"))
    first, second = past(RUNNING)
    assert (first.throughput, first.p50_ms, first.unit) == (10_000, 0.75, "transactions/s")
    assert first.running is not None and (first.running.arm, first.running.round) == ("A", 3)
    assert [mark.text for mark in second.marks] == ["B"]
    assert second.throughput is None


def test_a_store_that_cannot_be_read_has_no_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store.sqlite").write_text("nonsense" * 100)
    monkeypatch.setattr(watch_module, "existing_store", lambda: Store.existing(tmp_path / "store.sqlite"))
    assert past(RUNNING) == []
