"""Clients on Ray: in which order machines are claimed, and how long one is waited for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

from ray.exceptions import GetTimeoutError

from flushlab.campaign.fleet import ray_clients, ray_workers
from flushlab.campaign.fleet.clients import Place
from flushlab.campaign.fleet.ray_workers import FirstMachine
from flushlab.errors import FleetError
from flushlab.fleet import local_node, secret

ONE, TWO = Place("db1", "id-1", "10.0.0.1"), Place("db2", "id-2", "10.0.0.2")


@pytest.mark.parametrize(("client", "server"), [(ONE, TWO), (TWO, ONE)])
def test_two_commands_that_load_each_others_machines_claim_them_in_one_order(
    monkeypatch: pytest.MonkeyPatch, client: Place, server: Place
) -> None:
    order, killed = list[str](), list[object]()

    def claim(place: Place, *_: object, progress: object) -> str:
        order.append(place.name)
        return f"worker on {place.name}"

    monkeypatch.setattr(ray_clients, "find", lambda _: ([client], server))
    monkeypatch.setattr(ray_clients, "_claim", claim)
    monkeypatch.setattr(ray_clients, "_await", lambda *_: None)
    monkeypatch.setattr(ray_clients, "kill", killed.append)
    monkeypatch.setattr(secret, "identity", lambda: "key")
    monkeypatch.setattr(secret, "password", lambda nonce: "password")
    monkeypatch.setattr(local_node, "read", lambda: SimpleNamespace(address=server.address))
    with ray_clients.claimed([client.name], lambda _: None) as clients:
        assert clients.names == (client.name,)
        assert clients.access.address == server.address
    assert order == ["db1", "db2"]
    assert sorted(map(str, killed)) == ["worker on db1", "worker on db2"]


def test_a_client_is_not_waited_for_once_the_first_machine_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    def no_answer(_: object, timeout: float | None = None) -> object:
        nonlocal now_s
        assert timeout is not None, "waits without a limit"
        now_s += timeout
        raise GetTimeoutError

    killed = list[object]()
    monkeypatch.setattr(ray_workers, "ray", SimpleNamespace(get=no_answer))
    monkeypatch.setattr(ray_clients, "kill", killed.append)
    fleet = FirstMachine(lambda: "10.0.0.1:6379", lambda _: None, lambda _: False, lambda: now_s)
    pulses = list[str]()
    actor: Any = SimpleNamespace(
        act=SimpleNamespace(remote=lambda *_: "call"),
        __ray_ready__=SimpleNamespace(remote=lambda: pulses.append("sent")),
    )
    with pytest.raises(FleetError, match=r"10\.0\.0\.1:6379, has not answered for"):
        ray_clients.RayGenerator("db1", actor, fleet).call("act", 1, "seen")()
    assert pulses, "a connection that its side gave up is noticed only when something is sent"
    ray_clients._end(actor, fleet)
    assert not killed, "Ray would wait for the first machine"
