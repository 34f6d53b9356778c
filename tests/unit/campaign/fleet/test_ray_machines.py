from __future__ import annotations

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.fleet.health import Needs
from flushlab.campaign.fleet.machines import Failure, Opening, Stopped, Task
from flushlab.campaign.fleet.sending import Delivered
from flushlab.campaign.fleet.worker import MachineFacts
from flushlab.errors import FleetError, HarnessError, NoSpace, UsageError
from flushlab.experiment.protocol import BlockAhead
from flushlab.fleet.recipient import Needed
from flushlab.progress import silent
from flushlab.version import __version__
from tests.unit.report.campaigns import tune_request

pytest.importorskip("ray")

from ray.exceptions import GetTimeoutError, RayActorError, RayError, TaskCancelledError

from flushlab.campaign.fleet import ray_machines, ray_workers
from flushlab.campaign.fleet.ray_machines import RayMachines
from flushlab.campaign.fleet.ray_workers import Node


class Call:
    """A method of an actor, whose answer is known; it comes after so many looks."""

    def __init__(self, answer: bytes | Exception, looks: int = 0) -> None:
        self.answer, self.looks, self.made = answer, looks, 0

    def remote(self, *_: object) -> Call:
        self.made += 1
        return self


def get(call: Call, timeout: float = 0.0) -> bytes:
    call.looks -= 1
    if call.looks >= 0:
        raise GetTimeoutError
    if isinstance(call.answer, Exception):
        raise call.answer
    return call.answer


def all_ready(calls: list[Call], **_: object) -> tuple[list[Call], list[Call]]:
    return calls, []


def machines(
    monkeypatch: pytest.MonkeyPatch, place: str = "", **opened: bytes | Exception
) -> tuple[RayMachines, list[str]]:
    """Machines whose workers answer so when they are opened."""
    context = SimpleNamespace(gcs_address=place)
    fake = SimpleNamespace(
        get=get, wait=all_ready, kill=lambda *_, **__: None, get_runtime_context=lambda: context
    )
    for module in (ray_machines, ray_workers):
        monkeypatch.setattr(module, "ray", fake)
    monkeypatch.setattr(ray_machines, "_installed", lambda node: None)
    said = list[str]()
    found = RayMachines(said.append, Needs(MachineFacts.here()))
    facts = Call(msgspec.json.encode(MachineFacts.here()))
    for name, answer in opened.items():
        actor: Any = SimpleNamespace(facts=facts, open=Call(answer), __ray_ready__=Call(b""))
        found._claimed[name] = ray_machines._Claimed(Node(name, name), actor)
    return found, said


def lost() -> Exception:
    error: Exception = RayError("The node died.\nmore of it")
    return error


def nothing(*_: object) -> Any:
    pytest.fail("entered")


def test_a_machine_that_is_lost_as_it_opens_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    two, said = machines(monkeypatch, m1=b"null", m2=lost())
    assert two.open(Opening(nothing, b"")) == ("m1",)
    assert said == ["left out: machine m2 was lost as it opened: The node died."]


def test_a_worker_that_does_not_answer_is_sent_something_so_that_a_lost_connection_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two, _ = machines(monkeypatch, m1=b"null", m2=lost())
    monkeypatch.setattr(two._first, "look", lambda: True)
    actors = [one.actor for one in two._claimed.values()]
    actors[1].open.looks = 3
    assert two.open(Opening(nothing, b"")) == ("m1",)
    assert [one.__ray_ready__.made for one in actors] == [0, 3]


def test_workers_that_run_blocks_are_sent_something_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0

    def none_ready(calls: list[Call], timeout: float, **_: object) -> tuple[list[Call], list[Call]]:
        nonlocal now_s
        now_s += timeout
        return [], calls

    two, _ = machines(monkeypatch, m1=b"null", m2=b"null")
    monkeypatch.setattr(two._first, "look", lambda: False)
    monkeypatch.setattr(vars(ray_machines)["ray"], "wait", none_ready)
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    actors = [one.actor for one in two._claimed.values()]
    actors[0].run = Call(b"[]")
    two.submit("m1", 7, Task(block=BlockAhead(stage="arms", block=0, arms=())))
    for _ in range(60):
        assert two.wait(1.0) == []
    assert [one.__ray_ready__.made for one in actors] == [60 / ray_machines.PULSE_S, 0]


@pytest.mark.parametrize(("asked", "is_ordered"), [({}, True), ({"is_ordered": False}, False)])
def test_workers_take_calls_in_order_unless_they_are_asked_not_to(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, bool], is_ordered: bool
) -> None:
    options = dict[str, object]()
    started: Any = SimpleNamespace(remote=lambda *_: "worker")
    remote: Any = SimpleNamespace(options=lambda **given: options.update(given) or started)
    monkeypatch.setattr(ray_workers, "ray", SimpleNamespace(remote=lambda _: remote))
    assert ray_workers.worker_on("ab" * 28, object, **asked) == "worker"
    assert options["allow_out_of_order_execution"] is not is_ordered


def test_a_machine_that_is_claimed_takes_blocks_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()

    def started(*_: object, is_ordered: bool = True) -> object:
        asked.append(is_ordered)
        return object()

    monkeypatch.setattr(ray_machines, "worker_on", started)
    two, _ = machines(monkeypatch, m1=b"null")
    two._try_to_claim(Node("m2", "m2"))
    assert asked == [False], "or a block that is cancelled early takes the machine along"


def test_a_machine_that_loses_its_worker_before_it_opens_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    two, said = machines(monkeypatch, m1=b"null", m2=b"null")
    two._claimed["m2"].actor.facts = Call(RayActorError(error_msg="its node died"))
    assert two.open(Opening(nothing, b"")) == ("m1",)
    assert said == ["left out: machine m2 was lost: its worker has ended, or the machine is gone"]


def test_a_machine_whose_disk_is_full_as_it_opens_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    full = msgspec.json.encode(Failure.of(NoSpace("the disk is full", hint="make room")))
    two, said = machines(monkeypatch, m1=b"null", m2=full)
    assert two.open(Opening(nothing, b"")) == ("m1",)
    assert said == ["left out: machine m2: the disk is full"]


def test_a_plan_that_a_machine_refuses_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = msgspec.json.encode(Failure.of(UsageError("another binary", hint="start anew")))
    two, _ = machines(monkeypatch, m1=b"null", m2=refused)
    with pytest.raises(UsageError, match="machine m2: another binary"):
        two.open(Opening(nothing, b""))


def test_the_last_machine_that_is_lost_as_it_opens_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = machines(monkeypatch, m1=lost())
    with pytest.raises(HarnessError, match="machine m1 was lost as it opened: The node died"):
        one.open(Opening(nothing, b""))


def test_a_first_machine_that_stays_silent_while_content_is_sent_ends_the_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    def nothing_arrives(_: Call, timeout: float | None = None) -> bytes:
        nonlocal now_s
        assert timeout is not None, "waits without a limit"
        now_s += timeout
        raise GetTimeoutError

    place = "127.0.0.1:1"  # nobody listens there
    one, said = machines(monkeypatch, place, m1=b"null")
    fake: Any = vars(ray_machines)["ray"]
    monkeypatch.setattr(fake, "get", nothing_arrives)
    monkeypatch.setattr(ray_machines, "supplies_of", lambda _: SimpleNamespace(needed=Needed()))
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    one._claimed["m1"].actor.expect = Call(b"[]")
    with pytest.raises(FleetError, match="has not answered for") as raised:
        one._supply_all(Opening(nothing, b"", request=tune_request()))
    assert "resume" in (raised.value.hint or "")
    assert said == [f"the first machine of the fleet, {place}, does not answer; waiting for it"]
    assert one._first.is_silent, "so that nothing waits for it at the end"


def test_a_machine_that_is_lost_while_it_joins_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    one, said = machines(monkeypatch, m1=b"null", m2=b"null")
    joining, received = one._claimed.pop("m2"), Future[dict[str, Delivered]]()
    received.set_exception(lost())
    one._receiving.append((received, joining))
    one._open_received()
    assert said == ["left out: machine m2 was lost as it joined: The node died."]
    assert one.names == ("m1",)


def test_a_cancelled_block_leaves_its_machine_in_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = machines(monkeypatch, m1=b"null")
    asked = list[Any]()
    monkeypatch.setattr(ray_machines, "ray", SimpleNamespace(get=get, cancel=asked.append))
    call = Call(TaskCancelledError())
    one._claimed["m1"].actor.run = call
    one.submit("m1", 7, Task(block=BlockAhead(stage="arms", block=0, arms=())))
    one.cancel("m1")
    assert asked == [call]
    assert [*one._events(call)] == [Stopped("m1", 7)]
    assert one.names == ("m1",)


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        ("0.0.9", f"machine m2 has flushlab 0.0.9, and this one {__version__}"),
        ("", "machine m2 has no flushlab"),
    ],
)
@pytest.mark.parametrize(
    "answer",
    [RayActorError(error_msg="it takes no such argument"), b'{"flushlab":"0.0.9"}'],
    ids=["dies", "says"],
)
def test_a_machine_of_another_version_is_refused_by_name_whatever_its_worker_does(
    monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception, installed: str, words: str
) -> None:
    two, _ = machines(monkeypatch, m1=b"null", m2=b"null")
    two._claimed["m2"].actor.facts = Call(answer)
    monkeypatch.setattr(ray_machines, "_installed", lambda node: installed)
    with pytest.raises(UsageError) as refused:
        two.open(Opening(nothing, b""))
    assert refused.value.message == words
    assert "install the same flushlab[fleet]" in (refused.value.hint or "")


def test_a_machine_of_another_version_that_joins_later_is_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, said = machines(monkeypatch, m1=b"null")
    monkeypatch.setattr(ray_machines, "_installed", lambda node: "0.0.9")
    call = Call(b'{"flushlab":"0.0.9"}')
    actor: Any = SimpleNamespace(facts=call)
    one._joining[call] = ray_machines._Claimed(Node("m2", "m2"), actor)
    assert [*one._events(call)] == []
    assert said == [f"left out: machine m2 has flushlab 0.0.9, and this one {__version__}"]
    assert one.names == ("m1",)


def test_what_is_known_to_need_root_is_looked_for_before_a_server_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = msgspec.structs.replace(MachineFacts.here(), is_root=False)
    actor: Any = SimpleNamespace(facts=Call(msgspec.json.encode(user)))
    killed = list[Any]()
    fake = SimpleNamespace(get=get, kill=lambda one, **_: killed.append(one), wait=lambda *_, **__: None)
    actor.close = Call(b"null")
    for module in (ray_machines, ray_workers):
        monkeypatch.setattr(module, "ray", fake)
    monkeypatch.setattr(ray_machines, "nodes", lambda: [Node("m1", "m1")])
    monkeypatch.setattr(ray_machines, "worker_on", lambda *_, **__: actor)
    unfit = pytest.raises(UsageError, match="m1 runs flushlab without root, which a slow disk needs")
    with unfit, ray_machines.claimed(silent, "a slow disk"):
        pytest.fail("claimed")
    assert killed == [actor], "its worker ends"
