"""Addresses of clusters' nodes."""

from __future__ import annotations

import socket

import pytest

from flushlab.errors import PortTaken
from flushlab.server.sandbox import node as addresses
from flushlab.server.sandbox.node import NodeAddress, busy_port, free_places, require_free_places


def test_every_node_has_an_address_of_its_own_on_loopback() -> None:
    places = free_places(3)
    assert len({place.address for place in places}) == 3
    assert all(place.address.startswith("127.") for place in places)
    assert not any(place.address.startswith("127.0.") for place in places)


def test_an_address_at_which_somebody_listens_is_not_free() -> None:
    (place,) = free_places(1)
    with socket.socket() as other:
        other.bind((place.address, place.group_port))
        other.listen()
        assert busy_port(place).startswith(f"port {place.group_port} on {place.address} cannot be used")
        with pytest.raises(PortTaken, match=place.address):
            require_free_places([place])
    assert busy_port(place) == ""


def test_ports_that_a_program_has_at_every_address_are_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(place: NodeAddress) -> str:
        return "port 3306 cannot be used" if place.sql_port == 3306 else ""

    monkeypatch.setattr(addresses, "busy_port", busy)
    assert [place.sql_port for place in free_places(2)] == [13306, 13306]


def test_no_ports_at_all_are_an_error_that_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "busy_port", lambda place: f"port {place.sql_port} cannot be used")
    with pytest.raises(PortTaken, match="port 33306 cannot be used"):
        free_places(2)
