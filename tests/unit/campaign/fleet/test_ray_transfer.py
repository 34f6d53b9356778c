"""Content of a campaign on its way to workers: before they open, and beside the blocks that run."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.campaign.fleet.health import Needs
from flushlab.campaign.fleet.machines import Opening
from flushlab.campaign.fleet.ray_workers import FirstMachine
from flushlab.campaign.fleet.sending import Delivered, Gone
from flushlab.campaign.fleet.worker import MachineFacts
from flushlab.errors import FlushlabError, HarnessError, NoSpace, StorageError, UsageError
from flushlab.fleet.recipient import Place
from tests.unit.report.campaigns import tune_request
from tests.waiting import wait_until

pytest.importorskip("ray")

from ray.exceptions import ObjectStoreFullError, RayActorError

from flushlab.campaign.fleet import ray_machines, ray_post, ray_workers
from flushlab.campaign.fleet.ray_machines import RayMachines
from flushlab.campaign.fleet.ray_post import RayPost
from flushlab.campaign.fleet.ray_workers import Node

FULL = NoSpace("machine m2: it is full", hint="make room")


def enter(*_: object) -> Any:
    pytest.fail("entered")


class FakeSupplies:
    needed = None

    def plan_at(self, places: tuple[Place, ...]) -> bytes:
        return f"plan of {places[0].root}".encode()


class Fleet:
    """Two machines, of which the second has joined later, or receives what is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **delivered: Delivered | Exception) -> None:
        self.said = list[str]()
        self.opened = dict[str, Opening]()
        self.killed = list[Any]()
        self.machines = RayMachines(self.said.append, Needs(MachineFacts.here()))

        class FakeSending:
            def __init__(self, *_: object) -> None:
                pass

            def to(self, names: Collection[str]) -> dict[str, Any]:
                found = {name: delivered[name] for name in names}
                for one in found.values():
                    if isinstance(one, Exception) and not isinstance(one, (NoSpace, UsageError)):
                        raise one
                return found

        monkeypatch.setattr(ray_machines, "Sending", FakeSending)
        monkeypatch.setattr(ray_machines, "supplies_of", lambda request: FakeSupplies())
        monkeypatch.setattr(ray_machines, "kill", self.killed.append)
        for name in delivered:
            self.machines._claimed[name] = self.claimed(name)

    def claimed(self, name: str) -> Any:
        actor: Any = SimpleNamespace(name=name, open=SimpleNamespace(remote=self._opens(name)))
        return ray_machines._Claimed(Node(name, name), actor)

    def _opens(self, name: str) -> Any:
        def remote(opening: Opening) -> object:
            self.opened[name] = opening
            return object()

        return remote

    def join(self, name: str) -> None:
        joined = self.machines._claimed.pop(name)
        self.machines._work = Opening(enter, b"", request=tune_request())
        supplies: Any = FakeSupplies()
        self.machines._supplies = supplies
        self.machines._supply_joined(joined)
        ((received, _),) = self.machines._receiving
        wait_until(received.done, "the end of the transfer")
        self.machines._open_received()
        assert not self.machines._receiving


def test_each_machine_gets_its_own_plan_and_not_the_drivers_request(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch, m1=(Place(root="/1"),), m2=(Place(root="/2"),))
    found = fleet.machines._supply_all(Opening(enter, b"plan", "a slow disk", tune_request()))
    assert {name: (one.plan, one.request, one.root_for) for name, one in found.items()} == {
        "m1": (b"plan of /1", None, "a slow disk"),
        "m2": (b"plan of /2", None, "a slow disk"),
    }


def test_a_machine_without_room_is_left_out_before_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch, m1=(Place(root="/1"),), m2=FULL)
    assert {*fleet.machines._supply_all(Opening(enter, b"", request=tune_request()))} == {"m1"}
    assert fleet.said == ["left out: machine m2: it is full"]
    assert [actor.name for actor in fleet.killed] == ["m2"]


def test_a_machine_that_lacks_what_a_user_can_give_it_ends_the_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet(monkeypatch, m1=(Place(root="/1"),), m2=UsageError("machine m2: it has no such file"))
    with pytest.raises(UsageError, match="no such file"):
        fleet.machines._supply_all(Opening(enter, b"", request=tune_request()))


def test_a_machine_that_joins_opens_once_it_has_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch, m2=(Place(root="/2"),))
    fleet.join("m2")
    assert fleet.opened["m2"].plan == b"plan of /2"
    assert [one.node.name for one in fleet.machines._opening.values()] == ["m2"]


@pytest.mark.parametrize(
    "error",
    [FULL, StorageError("dump.sql has changed while it was sent"), HarnessError("nothing can be sent")],
)
def test_a_machine_that_joins_and_cannot_be_supplied_is_left_out(
    monkeypatch: pytest.MonkeyPatch, error: FlushlabError
) -> None:
    fleet = Fleet(monkeypatch, m2=error)
    fleet.join("m2")
    assert not fleet.opened
    assert fleet.said == [f"left out: {error.message}"]
    assert fleet.machines._barred == {"m2"}


def test_a_lost_worker_is_gone_in_flushlabs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(_: object, timeout: float) -> bytes:
        raise RayActorError(error_msg="its node died")

    ready = SimpleNamespace(get=get)
    monkeypatch.setattr(ray_workers, "ray", ready)
    with pytest.raises(Gone, match="its worker has ended, or the machine is gone"):
        RayPost({}, FirstMachine(str, print)).result(object())


def test_a_full_object_store_is_said_in_flushlabs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(_: object) -> object:
        raise ObjectStoreFullError("no space for 4 MiB")

    monkeypatch.setattr(ray_post, "ray", SimpleNamespace(put=put))
    with pytest.raises(HarnessError, match="Ray's object store takes nothing") as raised:
        RayPost({}, FirstMachine(str, print)).put(b"")
    assert raised.value.hint is not None
