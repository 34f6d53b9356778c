"""A driver's connection to a fleet."""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace

import pytest

from flushlab.fleet import connect, reach
from flushlab.fleet.reach import Address, FleetNode


def test_flushlab_hears_sigterm_while_it_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, shutdown=lambda: None))
    monkeypatch.setattr(reach, "require_ray", lambda: "2.60.0")
    monkeypatch.setattr(reach, "nodes", lambda *_: ())
    monkeypatch.setattr(connect, "environment_for", lambda _: {})
    before = signal.getsignal(signal.SIGTERM)
    try:
        with connect.connected(Address("127.0.0.1", 9377)):
            assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("address", "value"), [("127.0.0.1", "0"), ("10.0.0.5", None)])
def test_a_cluster_on_loopback_is_not_looked_for_elsewhere(
    monkeypatch: pytest.MonkeyPatch, address: str, value: str | None
) -> None:
    variable, given = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", list[str | None]()

    def init(**_: object) -> None:
        given.append(os.environ.get(variable))

    node = FleetNode(node_id="ab", name="db1", address=address, is_head=True)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, shutdown=lambda: None))
    monkeypatch.setattr(os, "environ", {name: text for name, text in os.environ.items() if name != variable})
    monkeypatch.setattr(reach, "require_ray", lambda: "2.60.0")
    monkeypatch.setattr(reach, "nodes", lambda *_: (node,))
    monkeypatch.setattr(connect, "environment_for", lambda _: {})
    with connect.connected(Address("127.0.0.1", 9377)):
        assert given == [value]
