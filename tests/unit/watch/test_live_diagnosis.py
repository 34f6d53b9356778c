"""Live diagnosis: what it is from, how often it is made, and what is counted over time."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from flushlab.telemetry.live.questions import LIVE_STATES_S, STATES, TRANSACTIONS, live_questions, questions
from flushlab.telemetry.live.status import ServerStatus
from flushlab.watch.live_diagnosis import FIRST_S, WINDOW_S, LiveDiagnosis, LiveHost
from tests.unit.diagnosis.test_window import answers
from tests.unit.diagnosis.watched import COMMITTING, MYSQL97, client, writer

BEGAN_S = 1000.0


def told(live: LiveDiagnosis, until_s: int, since_s: int = 0) -> None:
    """Two connections that commit for the first 40 s, then execute; a third is its client's turn."""
    for quarter in range(4 * since_s, 4 * until_s + 1):
        second = quarter // 4
        state = COMMITTING if second < 40 else "updating"
        states = (writer(1, state), writer(2, state), client(3), writer(3))[: 3 + (quarter % 4 == 3)]
        asked = {STATES: float(quarter)}
        seen = msgspec.structs.replace(answers(float(second)), states=states, transactions=(), asked_s=asked)
        live.note(seen, BEGAN_S + quarter / 4)


def test_nothing_is_judged_before_there_is_enough() -> None:
    live = LiveDiagnosis()
    told(live, int(FIRST_S) - 1)
    assert live.latest is None
    told(live, int(FIRST_S) + 1, int(FIRST_S))
    assert live.latest is not None
    assert live.latest.diagnosis.answer.startswith("Writes are bound: commits wait")


def test_only_the_last_half_minute_counts() -> None:
    live = LiveDiagnosis()
    told(live, 80)
    assert live.latest is not None
    evidence = live.latest.diagnosis.evidence
    assert evidence.seconds == WINDOW_S
    assert "commit" not in evidence.time.connections
    assert live.latest.now == pytest.approx({"statement": 2.25, "client": 1.0})


def test_the_time_of_waits_only_grows_and_each_second_is_counted_once() -> None:
    live = LiveDiagnosis()
    told(live, 80)
    assert live.latest is not None
    found = live.latest.wait_s
    assert found["commit"] == pytest.approx(2.0 * 40, abs=1.0)
    assert found["client"] == pytest.approx(80, abs=2.0)
    again = dict(found)
    told(live, 82, 81)
    assert live.latest is not None and all(live.latest.wait_s[one] >= again[one] for one in again)


def test_a_server_that_answers_seldom_has_as_much_time_of_waits() -> None:
    """A step without a sample is stood for by the next one."""
    live = LiveDiagnosis()
    for second in range(0, 81, 4):
        seen = msgspec.structs.replace(
            answers(float(second)),
            states=(writer(1, COMMITTING), writer(2, COMMITTING)),
            transactions=(),
            asked_s={STATES: float(second)},
        )
        live.note(seen, BEGAN_S + second)
    assert live.latest is not None
    assert live.latest.wait_s["commit"] == pytest.approx(160, rel=0.1)
    assert live.latest.now == pytest.approx({"commit": 2.0})


def test_a_server_that_began_anew_is_judged_anew() -> None:
    live = LiveDiagnosis()
    told(live, 20)
    assert live.latest is not None
    before = live.latest.wait_s
    anew = answers(21.0, uptime=1.0)
    live.note(anew, BEGAN_S + 21)
    live.note(anew, BEGAN_S + 21.25)
    assert live.latest is None
    told(live, 21 + int(FIRST_S) + 2, 22)
    assert live.latest is not None
    assert live.latest.wait_s["commit"] > before["commit"]


def test_another_server_is_another_window() -> None:
    live = LiveDiagnosis()
    told(live, 20)
    live.note(msgspec.structs.replace(answers(21.0), key="db2:3306"), BEGAN_S + 21)
    assert live.latest is None
    told(live, 20)
    live.forget()
    assert live.latest is None


def test_a_server_whose_status_is_unknown_is_not_judged() -> None:
    live = LiveDiagnosis()
    for second in range(20):
        live.note(ServerStatus(key="x", identity=MYSQL97), BEGAN_S + second)
    assert live.latest is None


def test_judging_that_takes_long_is_done_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(
        "flushlab.watch.live_diagnosis.time.thread_time", lambda: float(next(clock))
    )  # a second each
    live = LiveDiagnosis()
    told(live, int(FIRST_S) + 1)
    first = live.latest
    assert first is not None
    told(live, 40, int(FIRST_S) + 2)
    assert live.latest is first
    told(live, 62, 41)
    assert live.latest is not first


def test_a_watched_server_is_asked_for_the_states_of_its_connections_too() -> None:
    variables = {"performance_schema": "ON"}
    more = live_questions(MYSQL97, variables)
    assert more[: len(questions(MYSQL97, variables))] == questions(MYSQL97, variables)
    assert {(STATES, LIVE_STATES_S), (TRANSACTIONS, 5.0)} <= {(one.name, one.every_s) for one in more}


LONG_S = 1e6
"""Of a stretch, whatever looking costs."""
NO_PROCESS = 1 << 22


def test_a_stretch_is_seen_when_it_is_over(tmp_path: Path) -> None:
    live, variables = LiveHost(), {"datadir": str(tmp_path)}
    live.note(os.getpid(), variables, 0.0)
    live.note(os.getpid(), variables, 1.0)
    assert live.latest is None
    live.note(os.getpid(), variables, LONG_S)
    assert live.latest is not None and live.latest.pid == os.getpid()
    assert live.latest.places[0].path == str(tmp_path)


def test_of_a_server_that_is_elsewhere_or_gone_nothing_is_seen(tmp_path: Path) -> None:
    live, variables = LiveHost(), {"datadir": str(tmp_path)}
    for pid in (None, NO_PROCESS):
        for turn in range(3):
            live.note(os.getpid(), variables, turn * LONG_S)
        assert live.latest is not None
        live.note(pid, variables, 3 * LONG_S)
        assert live.latest is None


def test_the_machine_joins_the_diagnosis(tmp_path: Path) -> None:
    live = LiveDiagnosis()
    for second in (0.0, LONG_S, LONG_S + 1, 2 * LONG_S):
        seen = answers(second)
        own = msgspec.structs.replace(seen, variables=dict(seen.variables) | {"datadir": str(tmp_path)})
        live.note(own, second, os.getpid())
    assert live.latest is not None
    host = live.latest.diagnosis.evidence.host
    assert host is not None and host.pid == os.getpid()
