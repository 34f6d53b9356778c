from __future__ import annotations

import time
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.fleet.machines import Ended, Event, Failed, Joined, Lost, Opening, Stopped, Task
from flushlab.campaign.fleet.worker import MachineFacts
from flushlab.errors import FleetError, FlushlabError, HarnessError, NoSpace, StorageError, UsageError
from flushlab.experiment.protocol import BlockAhead
from flushlab.fleet.connect import FleetNode
from flushlab.fleet.transfer import Delivered, Needed, TransferPlace
from flushlab.progress import silent
from flushlab.version import __version__
from tests.unit.report.campaigns import tune_request
from tests.waiting import wait_until

pytest.importorskip("ray")

from ray.exceptions import (
    GetTimeoutError,
    ObjectStoreFullError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
)

from flushlab.campaign.fleet import ray_machines, ray_workers
from flushlab.campaign.fleet.ray_machines import RayMachines
from flushlab.campaign.fleet.ray_workers import RayWorker

BLOCK = Task(block=BlockAhead(stage="arms", block=0, arms=()))


class Call:
    """A method of an actor, whose answer is known; it comes after so many looks."""

    def __init__(self, answer: Any = None, looks: int = 0) -> None:
        self.answer, self.looks = answer, looks
        self.made = list[tuple[Any, ...]]()

    def remote(self, *arguments: object) -> Call:
        self.made.append(arguments)
        return self


def get(call: Call, timeout: float = 0.0) -> Any:
    call.looks -= 1
    if call.looks >= 0:
        raise GetTimeoutError
    if isinstance(call.answer, Exception):
        raise call.answer
    return call.answer


def all_ready(calls: Collection[Call], **_: object) -> tuple[list[Call], list[Call]]:
    return [*calls], []


def raised(error: Exception) -> Exception:
    """An error as Ray brings it from a worker."""
    found: Exception = RayTaskError("call", "", error).as_instanceof_cause()
    return found


def lost() -> Exception:
    error: Exception = RayError("The node died.\nmore of it")
    return error


class Fleet:
    """Machines whose workers answer so when they are opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: str = "", **opened: Any) -> None:
        self.said, self.killed, self.cancelled = list[str](), list[Any](), list[Any]()
        context = SimpleNamespace(gcs_address=place)
        self.ray = SimpleNamespace(
            get=get,
            wait=all_ready,
            kill=lambda actor, **_: self.killed.append(actor.name),
            cancel=self.cancelled.append,
            put=lambda piece: piece,
            get_runtime_context=lambda: context,
        )
        for module in (ray_machines, ray_workers):
            monkeypatch.setattr(module, "ray", self.ray)
        monkeypatch.setattr(ray_machines, "_installed", lambda node: None)
        monkeypatch.setattr(ray_machines, "nodes", list)
        monkeypatch.setattr(ray_machines, "worker_on", lambda id_, *_, **__: self.actors[id_])
        self.actors: dict[str, Any] = {name: self.actor(name, answer) for name, answer in opened.items()}
        self.machines = RayMachines(self.said.append)
        monkeypatch.setattr(self.machines._first, "look", lambda: True)
        for name in opened:
            self.machines._workers[name] = self.worker(name)

    def actor(self, name: str, opened: Any = None) -> Any:
        facts = msgspec.json.encode(MachineFacts.here())  # with the time: both clocks must agree
        calls = {"facts": Call(facts), "run": Call(()), "close": Call(), "__ray_ready__": Call()}
        return SimpleNamespace(name=name, open=opened if isinstance(opened, Call) else Call(opened), **calls)

    def worker(self, name: str) -> RayWorker:
        return RayWorker(FleetNode(id=name, name=name, address=""), self.actors[name], self.machines._first)

    def supply(self, monkeypatch: pytest.MonkeyPatch, **delivered: Delivered | Exception) -> None:
        """What machines get of the content, or what becomes of its transfer."""

        def send(needed: object, workers: Collection[RayWorker], *_: object) -> dict[str, Any]:
            found = {worker.machine: delivered[worker.machine] for worker in workers}
            for one in found.values():
                if isinstance(one, StorageError) and not isinstance(one, NoSpace):
                    raise one
            return found

        monkeypatch.setattr(ray_machines, "send", send)
        monkeypatch.setattr(ray_machines, "needed_by", lambda request: Needed())
        monkeypatch.setattr(ray_machines, "request_at", lambda *given: f"request at {given[-1][0].root}")

    def join(self, monkeypatch: pytest.MonkeyPatch, name: str, actor: Any) -> list[Event]:
        """What becomes of a machine that joins a campaign that is open."""
        self.actors[name] = actor
        node = FleetNode(id=name, name=name, address="")
        monkeypatch.setattr(ray_machines, "nodes", lambda: [node])
        monkeypatch.setattr(ray_machines, "NODES_S", 0.0)
        monkeypatch.setattr(ray_machines, "QUEUE_S", 0.0)
        events = [*self.machines.wait(0.0)]
        wait_until(lambda: all(future.done() for _, future in self.machines._joining), "the preparation")
        monkeypatch.setattr(ray_machines, "nodes", list)
        return [*events, *self.machines.wait(0.0)]

    def opening(self, name: str) -> Any:
        ((opening,),) = self.actors[name].open.made
        return opening


def nothing(*_: object) -> Any:
    pytest.fail("entered")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lost(), "machine m2 was lost: The node died."),
        (raised(NoSpace("the disk is full", hint="make room")), "machine m2: the disk is full"),
    ],
)
def test_a_machine_that_cannot_open_is_left_out(
    monkeypatch: pytest.MonkeyPatch, answer: Exception, words: str
) -> None:
    two = Fleet(monkeypatch, m1=None, m2=answer)
    assert two.machines.open(Opening(nothing)) == ("m1",)
    assert two.said == [f"left out: {words}"]
    assert two.killed == ["m2"]


def test_a_machine_that_loses_its_worker_before_it_opens_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Fleet(monkeypatch, m1=None, m2=None)
    two.actors["m2"].facts = Call(RayActorError(error_msg="its node died"))
    assert two.machines.open(Opening(nothing)) == ("m1",)
    assert two.said == ["left out: machine m2 was lost: its worker has ended, or the machine is gone"]


def test_a_request_that_a_machine_refuses_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Fleet(monkeypatch, m1=None, m2=raised(UsageError("another binary", hint="start anew")))
    with pytest.raises(UsageError, match="machine m2: another binary"):
        two.machines.open(Opening(nothing))


def test_the_last_machine_that_is_lost_as_it_opens_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="machine m1 was lost: The node died"):
        Fleet(monkeypatch, m1=lost()).machines.open(Opening(nothing))


def test_a_worker_that_does_not_answer_is_sent_something_so_that_a_lost_connection_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = Fleet(monkeypatch, m1=None, m2=Call(lost(), looks=3))
    assert two.machines.open(Opening(nothing)) == ("m1",)
    assert [len(actor.__ray_ready__.made) for actor in two.actors.values()] == [0, 3]


def test_workers_that_run_blocks_are_sent_something_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0

    def none_ready(calls: list[Call], timeout: float, **_: object) -> tuple[list[Call], list[Call]]:
        nonlocal now_s
        now_s += timeout
        return [], calls

    two = Fleet(monkeypatch, m1=None, m2=None)
    two.ray.wait = none_ready
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    two.machines.submit("m1", 7, BLOCK)
    for _ in range(60):
        assert two.machines.wait(1.0) == []
    pulses = [len(actor.__ray_ready__.made) for actor in two.actors.values()]
    assert pulses == [60 / ray_machines.PULSE_S, 0]


def test_a_first_machine_that_stays_silent_while_content_is_sent_ends_the_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = "127.0.0.1:1"  # nobody listens there
    two = Fleet(monkeypatch, place, m1=None, m2=None)
    now_s = 0.0

    def nothing_arrives(call: Call, timeout: float | None = None) -> Any:
        nonlocal now_s
        assert timeout is not None, "waits without a limit"
        if call.answer is not None:
            return call.answer
        now_s += timeout
        raise GetTimeoutError

    two.ray.get = nothing_arrives
    two.machines._first = ray_workers.FirstMachine(place, two.said.append, clock=lambda: now_s)
    for name, actor in two.actors.items():
        actor.expect = Call()
        two.machines._workers[name] = two.worker(name)
    monkeypatch.setattr(ray_machines, "needed_by", lambda _: Needed())
    with pytest.raises(FleetError, match="has not answered for") as refused:
        two.machines.open(Opening(nothing, tune_request()))
    assert "resume" in (refused.value.hint or "")
    assert two.said == [f"the first machine of the fleet, {place}, does not answer; waiting for it"]
    two.machines.close()
    assert not two.killed, "nothing waits for it at the end"


@pytest.mark.parametrize(
    ("answer", "event"),
    [
        (TaskCancelledError(), Stopped("m1", 7)),
        (lost(), Lost("m1", "The node died.")),
        ([], Ended("m1", 7, ())),
    ],
)
def test_what_becomes_of_a_block(monkeypatch: pytest.MonkeyPatch, answer: Any, event: Event) -> None:
    one = Fleet(monkeypatch, m1=None)
    run = one.actors["m1"].run = Call(answer)
    one.machines.submit("m1", 7, BLOCK)
    one.machines.cancel("m1")
    assert one.cancelled == [run]
    assert one.machines.wait(0.0) == [event]
    assert one.machines.names == (() if isinstance(event, Lost) else ("m1",))


def test_an_error_of_a_block_keeps_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Fleet(monkeypatch, m1=None)
    full = NoSpace("/data is full", hint="free some")
    one.actors["m1"].run = Call(raised(full))
    one.machines.submit("m1", 7, BLOCK)
    assert one.machines.wait(0.0) == [Failed("m1", 7, full)]


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
@pytest.mark.parametrize("joins", [False, True])
def test_a_machine_of_another_version_is_refused_by_name_whatever_its_worker_does(
    monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception, installed: str, words: str, *, joins: bool
) -> None:
    fleet = Fleet(monkeypatch, m1=None)
    other = fleet.actor("m2")
    other.facts = Call(answer)
    if joins:
        fleet.machines.open(Opening(nothing))
        monkeypatch.setattr(ray_machines, "_installed", lambda node: installed)
        assert fleet.join(monkeypatch, "m2", other) == []
        assert fleet.said == [f"left out: {words}"]
        assert fleet.machines._barred == {"m2"}
        return
    fleet.actors["m2"] = other
    fleet.machines._workers["m2"] = fleet.worker("m2")
    monkeypatch.setattr(ray_machines, "_installed", lambda node: installed)
    with pytest.raises(UsageError) as refused:
        fleet.machines.open(Opening(nothing))
    assert refused.value.message == words
    assert "install the same flushlab[fleet]" in (refused.value.hint or "")


def test_what_is_known_to_need_root_is_looked_for_before_a_server_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet(monkeypatch)
    user = fleet.actors["m1"] = fleet.actor("m1")
    user.facts = Call(msgspec.json.encode(msgspec.structs.replace(MachineFacts.here(), is_root=False)))
    monkeypatch.setattr(ray_machines, "nodes", lambda: [FleetNode(id="m1", name="m1", address="")])
    unfit = pytest.raises(UsageError, match="m1 runs flushlab without root, which a slow disk needs")
    with unfit, ray_machines.claimed(silent, "a slow disk"):
        pytest.fail("claimed")
    assert fleet.killed == ["m1"], "its worker ends"


# -- content


def test_each_machine_gets_its_own_request(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Fleet(monkeypatch, m1=None, m2=None)
    two.supply(monkeypatch, m1=(TransferPlace(root="/1"),), m2=(TransferPlace(root="/2"),))
    assert two.machines.open(Opening(nothing, tune_request(), "")) == ("m1", "m2")
    assert [two.opening(name).request for name in ("m1", "m2")] == ["request at /1", "request at /2"]


def test_a_machine_without_room_is_left_out_before_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Fleet(monkeypatch, m1=None, m2=None)
    two.supply(
        monkeypatch, m1=(TransferPlace(root="/1"),), m2=NoSpace("machine m2: it is full", hint="make room")
    )
    assert two.machines.open(Opening(nothing, tune_request())) == ("m1",)
    assert two.said == ["left out: machine m2: it is full"]
    assert two.killed == ["m2"]


def test_a_machine_that_lacks_what_a_user_can_give_it_ends_the_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = Fleet(monkeypatch, m1=None, m2=None)
    two.supply(monkeypatch, m1=(TransferPlace(root="/1"),), m2=UsageError("machine m2: it has no such file"))
    with pytest.raises(UsageError, match="no such file"):
        two.machines.open(Opening(nothing, tune_request()))


def test_a_machine_that_joins_opens_once_it_has_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch, m1=None)
    fleet.supply(monkeypatch, m1=(TransferPlace(root="/1"),), m2=(TransferPlace(root="/2"),))
    fleet.machines.open(Opening(nothing, tune_request()))
    assert fleet.join(monkeypatch, "m2", fleet.actor("m2")) == [Joined("m2")]
    assert fleet.opening("m2").request == "request at /2"
    assert fleet.machines.names == ("m1", "m2")


@pytest.mark.parametrize(
    ("error", "is_barred"),
    [
        (NoSpace("machine m2: it is full", hint="make room"), True),
        (StorageError("dump.sql has changed while it was sent"), True),
        (HarnessError("machine m2 was lost: its worker does not answer"), False),
    ],
)
def test_a_machine_that_joins_and_cannot_be_supplied_is_left_out(
    monkeypatch: pytest.MonkeyPatch, error: FlushlabError, *, is_barred: bool
) -> None:
    fleet = Fleet(monkeypatch, m1=None)
    fleet.supply(monkeypatch, m1=(TransferPlace(root="/1"),), m2=error)
    fleet.machines.open(Opening(nothing, tune_request()))
    assert fleet.join(monkeypatch, "m2", fleet.actor("m2")) == []
    assert not fleet.actors["m2"].open.made
    assert fleet.said == [f"left out: {error.message}"]
    assert (fleet.machines._barred == {"m2"}) is is_barred, "a worker that is lost may be replaced"


def test_a_full_object_store_is_told_in_flushlabs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(_: object) -> object:
        raise ObjectStoreFullError("no space for 4 MiB")

    monkeypatch.setattr(ray_machines, "ray", SimpleNamespace(put=put))
    with pytest.raises(HarnessError, match="Ray's object store takes nothing") as refused:
        ray_machines._kept(b"")
    assert refused.value.hint is not None
