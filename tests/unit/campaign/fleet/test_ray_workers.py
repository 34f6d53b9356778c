"""Workers on Ray, and whether the first machine of their fleet is heard of."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab import _core
from flushlab.errors import FleetError, HarnessError, MeasurementError, NoSpace
from flushlab.fleet.connect import FleetNode

pytest.importorskip("ray")

from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from flushlab.campaign.fleet import ray_workers
from flushlab.campaign.fleet.ray_workers import ANSWER_S, LOOK_S, MOST_S, SILENT_S, FirstMachine, RayWorker

PLACE = "10.0.0.1:9377"
NODE = FleetNode(id="ab", name="m2", address="10.0.0.2")


class Fleet:
    """A first machine at a moment of one's choice."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.answers = True
        self.said = list[str]()
        self.first = FirstMachine(
            PLACE, self.said.append, answers=lambda _: self.answers, clock=lambda: self.now_s
        )

    def look(self, at_s: float) -> bool:
        self.now_s = at_s
        return self.first.look()

    def hear(self, at_s: float) -> None:
        self.now_s = at_s
        self.first.heard()


def test_silence_ends_the_campaign_with_the_way_to_resume() -> None:
    fleet = Fleet()
    assert fleet.look(0)
    fleet.answers = False
    assert not fleet.look(LOOK_S)
    assert not fleet.look(LOOK_S + SILENT_S)
    assert fleet.first.is_silent
    assert fleet.said == [f"the first machine of the fleet, {PLACE}, does not answer; waiting for it"]
    with pytest.raises(FleetError, match="has not answered for 35 s") as raised:
        fleet.look(LOOK_S + SILENT_S + LOOK_S)
    assert "resume" in (raised.value.hint or "")


def test_a_machine_that_answers_again_is_no_longer_counted_as_silent() -> None:
    fleet = Fleet()
    for at_s, answers in ((0, False), (SILENT_S, True), (2 * SILENT_S, False), (3 * SILENT_S, False)):
        fleet.answers = answers
        assert fleet.look(at_s) == answers


def test_what_arrives_is_a_sign_of_life_but_not_beyond_the_time_that_ray_gives() -> None:
    fleet = Fleet()
    fleet.answers = False
    assert not fleet.look(0)
    fleet.hear(SILENT_S)
    assert not fleet.look(MOST_S)
    fleet.hear(MOST_S + LOOK_S)
    with pytest.raises(FleetError, match="has not answered for 45 s"):
        fleet.look(MOST_S + LOOK_S)


def test_it_is_looked_at_now_and_then_only() -> None:
    fleet = Fleet()
    assert fleet.look(0)
    fleet.answers = False
    assert fleet.look(LOOK_S / 2)
    assert not fleet.look(LOOK_S)


def test_a_place_answers_if_somebody_takes_connections_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        assert FirstMachine(place, print).look()
    assert not FirstMachine(place, lambda _: None).look()


def worker(monkeypatch: pytest.MonkeyPatch, error: Exception, **changes: Any) -> RayWorker:
    """A worker whose every call ends so."""

    def get(_: object, timeout: float | None = None) -> object:
        raise error

    monkeypatch.setattr(ray_workers, "ray", SimpleNamespace(get=get))
    actor = SimpleNamespace(act=SimpleNamespace(remote=lambda *_: "call"))
    return RayWorker(NODE, actor, FirstMachine(PLACE, print), **changes)


def core_error() -> _core.CoreError:
    error = _core.CoreError("1045: denied")
    error.message, error.kind, error.hint = "denied", "server", "a way out"
    return error


@pytest.mark.parametrize(
    ("cause", "kind", "words"),
    [
        (NoSpace("/data is full", hint="free some"), NoSpace, "machine m2: /data is full"),
        (core_error(), _core.CoreError, "machine m2: 1045: denied"),
        (ValueError("no such plan"), HarnessError, "machine m2: ValueError: no such plan"),
    ],
)
def test_an_error_keeps_its_kind_on_the_way_and_gets_the_name_of_its_machine(
    monkeypatch: pytest.MonkeyPatch, cause: Exception, kind: type[Exception], words: str
) -> None:
    found = RayTaskError("act", "", cause).as_instanceof_cause()
    with pytest.raises(kind) as raised:
        worker(monkeypatch, found).call("act")()
    assert str(raised.value) == words
    assert getattr(raised.value, "hint", None) == getattr(cause, "hint", None)


@pytest.mark.parametrize(
    ("role", "kind", "words"),
    [
        ("machine", HarnessError, "machine m2 was lost: its worker has ended, or the machine is gone"),
        ("client", MeasurementError, "client m2 was lost: its worker has ended, or the machine is gone"),
    ],
)
def test_a_lost_worker_is_told_in_flushlabs_words(
    monkeypatch: pytest.MonkeyPatch, role: Any, kind: type[Exception], words: str
) -> None:
    error: RayError = RayActorError(error_msg="its node died")
    with pytest.raises(kind, match=words):
        worker(monkeypatch, error, role=role).call("act")()


def test_a_worker_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    late = worker(monkeypatch, GetTimeoutError()).first_call("act")
    now_s = time.monotonic() + ANSWER_S
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with pytest.raises(HarnessError, match="machine m2 has not answered within 60 s"):
        late()


def test_an_answer_is_not_waited_for_once_the_first_machine_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    def no_answer(_: object, timeout: float | None = None) -> object:
        nonlocal now_s
        assert timeout is not None, "waits without a limit"
        now_s += timeout
        raise GetTimeoutError

    killed, pulses = list[object](), list[str]()
    monkeypatch.setattr(ray_workers, "ray", SimpleNamespace(get=no_answer, kill=killed.append))
    actor: Any = SimpleNamespace(
        act=SimpleNamespace(remote=lambda *_: "call"),
        __ray_ready__=SimpleNamespace(remote=lambda: pulses.append("sent")),
    )
    reached = RayWorker(NODE, actor, FirstMachine(PLACE, lambda _: None, lambda _: False, lambda: now_s))
    with pytest.raises(FleetError, match=r"10\.0\.0\.1:9377, has not answered for"):
        reached.call("act", 1, "seen")()
    assert pulses, "a connection that its side gave up is noticed only when something is sent"
    reached.kill()
    assert not killed, "Ray would wait for the first machine"


def test_workers_take_calls_in_any_order_or_one_that_is_cancelled_early_takes_the_machine_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = dict[str, object]()
    started: Any = SimpleNamespace(remote=lambda *_: "worker")
    remote: Any = SimpleNamespace(options=lambda **given: options.update(given) or started)
    monkeypatch.setattr(ray_workers, "ray", SimpleNamespace(remote=lambda _: remote))
    assert ray_workers.worker_on("ab" * 28, object) == "worker"
    assert options["allow_out_of_order_execution"]


def test_nodes_of_one_name_are_told_apart_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        {"NodeID": id_ * 8, "NodeName": name, "NodeManagerAddress": "10.0.0.1", "Alive": alive}
        for id_, name, alive in (("cd", "db", True), ("ab", "db", True), ("ef", "a", True), ("0", "b", False))
    ]
    monkeypatch.setattr(ray_workers, "ray", SimpleNamespace(nodes=lambda: found))
    assert [node.name for node in ray_workers.nodes()] == ["a", "db-ababab", "db-cdcdcd"]
