"""Clients on Ray: in which order machines are claimed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("ray")

from flushlab.campaign.fleet import ray_clients
from flushlab.campaign.fleet.clients import Place
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
