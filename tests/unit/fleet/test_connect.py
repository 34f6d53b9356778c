"""A driver's connection to a fleet."""

from __future__ import annotations

import os
import signal
import socket
import sys
from types import SimpleNamespace

import pytest

from flushlab.errors import FleetError
from flushlab.fleet import connect, reach
from flushlab.fleet.reach import Address, FleetNode

HERE = Address("127.0.0.1", 9377)


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fakes of Ray have no private part, and nobody listens: the tests' process need not end for that."""
    monkeypatch.setattr(connect, "_keep_quiet", lambda: None)
    monkeypatch.setattr(connect, "_left_open", [])


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


def refusing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Ray does not let this process in."""

    def init(**_: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, shutdown=lambda: None))
    monkeypatch.setattr(reach, "require_ray", lambda: "2.60.0")
    monkeypatch.setattr(reach, "nodes", lambda *_: ())
    monkeypatch.setattr(connect, "environment_for", lambda _: {})


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Version mismatch: The cluster was started with:\n  Ray: 2.59.0", "install the same Ray and Python"),
        ("Can't find a `node_ip_address.json` file", "run this on a machine of the fleet"),
    ],
)
def test_a_refusal_of_ray_has_the_way_out(monkeypatch: pytest.MonkeyPatch, text: str, hint: str) -> None:
    refusing(monkeypatch, text)
    with pytest.raises(FleetError, match=text.split(":")[0]) as refused, connect.connected(HERE):
        pytest.fail("connected")
    assert hint in (refused.value.hint or "")


def test_a_first_machine_that_is_lost_meanwhile_is_named_and_tried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing(monkeypatch, "Failed to connect to Ray cluster")
    tries, answers = "RAY_gcs_server_port_wait_time_s", iter([()])
    seen = list[str | None]()

    def nodes(*_: object) -> tuple[FleetNode, ...]:
        for found in answers:
            return found
        raise FleetError(f"nobody answers at {HERE}")

    def init(**_: object) -> None:
        seen.append(os.environ.get(tries))
        raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.delenv(tries, raising=False)
    monkeypatch.setattr(reach, "nodes", nodes)
    monkeypatch.setattr(sys.modules["ray"], "init", init)
    with pytest.raises(FleetError, match="nobody answers"), connect.connected(HERE):
        pytest.fail("connected")
    assert (seen, os.environ.get(tries)) == (["1"], None)


@pytest.mark.parametrize("own", [None, HERE, Address("10.0.0.5", 9377)])
def test_a_wrong_address_on_a_machine_of_a_fleet_is_answered_with_its_own(
    monkeypatch: pytest.MonkeyPatch, own: Address | None
) -> None:
    def nobody(*_: object) -> tuple[FleetNode, ...]:
        raise FleetError("nobody answers", hint="start it")

    refusing(monkeypatch, "reached")
    monkeypatch.setattr(reach, "nodes", nobody)
    monkeypatch.setattr(connect, "own_fleet", lambda: own)
    with pytest.raises(FleetError, match="nobody answers") as refused, connect.connected(HERE):
        pytest.fail("connected")
    told = own is not None and own != HERE
    assert refused.value.hint == ("this machine is in the fleet at 10.0.0.5:9377" if told else "start it")


@pytest.mark.parametrize("is_there", [True, False])
def test_at_the_end_nothing_waits_for_a_first_machine_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    ended = list[bool]()
    fake = SimpleNamespace(init=lambda **_: None, shutdown=lambda: ended.append(True))
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(reach, "require_ray", lambda: "2.60.0")
    monkeypatch.setattr(reach, "nodes", lambda *_: ())
    monkeypatch.setattr(connect, "environment_for", lambda _: {})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
        if not is_there:
            listener.close()
        with connect.connected(address):
            ended.clear()
    assert (ended, connect.is_left_open()) == ([True] * is_there, not is_there)
    if not is_there:
        with pytest.raises(FleetError, match="whose first machine was lost"), connect.connected(HERE):
            pytest.fail("Ray would wait until it has closed the first connection")
