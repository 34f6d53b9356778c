"""A driver's connection to a fleet, and what is at an address before Ray speaks to it."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from flushlab.errors import ExtraMissing, FleetError, UsageError
from flushlab.fleet import connect
from flushlab.fleet import key as keys
from flushlab.fleet.connect import FleetAddress, FleetNode
from tests.waiting import PATIENCE_S

HERE = FleetAddress("127.0.0.1", 9377)


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fakes of Ray have no private part, and nobody listens: the tests' process need not end for that."""
    monkeypatch.setattr(connect, "_keep_quiet", lambda: None)
    monkeypatch.setattr(connect, "_left_open", [])
    monkeypatch.setattr(connect, "environment_for", lambda _: {})


def fake_ray(monkeypatch: pytest.MonkeyPatch, *nodes: FleetNode, **functions: object) -> None:
    """Ray, in a cluster of these nodes."""
    fake = SimpleNamespace(**{"init": lambda **_: None, "shutdown": lambda: None, **functions})
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(connect, "require_ray", lambda: "2.60.0")
    monkeypatch.setattr(connect, "nodes", lambda *_: nodes)


def test_flushlab_hears_sigterm_while_it_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    fake_ray(monkeypatch, init=init)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with connect.connected(FleetAddress("127.0.0.1", 9377)):
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

    node = FleetNode(id="ab", name="db1", address=address, is_head=True)
    monkeypatch.setattr(os, "environ", {name: text for name, text in os.environ.items() if name != variable})
    fake_ray(monkeypatch, node, init=init)
    with connect.connected(FleetAddress("127.0.0.1", 9377)):
        assert given == [value]


def refusing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Ray does not let this process in."""

    def init(**_: object) -> None:
        raise RuntimeError(text)

    fake_ray(monkeypatch, init=init)


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
    monkeypatch.setattr(connect, "nodes", nodes)
    monkeypatch.setattr(sys.modules["ray"], "init", init)
    with pytest.raises(FleetError, match="nobody answers"), connect.connected(HERE):
        pytest.fail("connected")
    assert (seen, os.environ.get(tries)) == (["1"], None)


@pytest.mark.parametrize("own", [None, HERE, FleetAddress("10.0.0.5", 9377)])
def test_a_wrong_address_on_a_machine_of_a_fleet_is_answered_with_its_own(
    monkeypatch: pytest.MonkeyPatch, own: FleetAddress | None
) -> None:
    def nobody(*_: object) -> tuple[FleetNode, ...]:
        raise FleetError("nobody answers", hint="start it")

    refusing(monkeypatch, "reached")
    monkeypatch.setattr(connect, "nodes", nobody)
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
    fake_ray(monkeypatch, shutdown=lambda: ended.append(True))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = FleetAddress("127.0.0.1", listener.getsockname()[1])
        if not is_there:
            listener.close()
        with connect.connected(address):
            ended.clear()
    assert (ended, connect.is_left_open()) == ([True] * is_there, not is_there)
    if not is_there:
        with pytest.raises(FleetError, match="whose first machine was lost"), connect.connected(HERE):
            pytest.fail("Ray would wait until it has closed the first connection")


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> FleetNode:
    """A first machine of the same versions as this one."""
    monkeypatch.setattr(connect, "require_ray", lambda: "2.60.0")
    own = connect.labels()
    return FleetNode(
        id="ab",
        name="db1",
        address="10.0.0.5",
        is_head=True,
        flushlab=own["flushlab"],
        ray=own["flushlab-ray"],
        python=own["flushlab-python"],
    )


@pytest.mark.parametrize(
    ("text", "address"), [("127.0.0.1", HERE), ("127.0.0.1:6379", FleetAddress("127.0.0.1", 6379))]
)
def test_an_address_is_read(text: str, address: FleetAddress) -> None:
    assert connect.parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", ":9377", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:x", "::1", "a..b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        connect.parse_address(text)


def test_nobody_at_an_address_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(FleetError, match="nobody answers") as refused:
        connect.nodes(FleetAddress("127.0.0.1", port), {})
    assert "--listen" in (refused.value.hint or "")


KEY = {"RAY_AUTH_TOKEN_PATH": "/fleet/token"}


@pytest.mark.parametrize(
    ("environment", "said", "to_do"),
    [
        (KEY, "refuses the key of this machine", "flushlab fleet start"),
        ({}, "refuses the token of this command", "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH"),
    ],
)
def test_who_has_another_token_hears_where_his_own_is_set(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], said: str, to_do: str
) -> None:
    answers(monkeypatch, stdout=b'{"refused": true}')
    with pytest.raises(FleetError, match=said) as refused:
        connect.nodes(HERE, environment)
    assert to_do in (refused.value.hint or "")


def test_a_token_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        b"C 1: RAY_AUTH_TOKEN_PATH is set but file cannot be opened or is empty: /no\n*** StackTrace\n_start"
    )
    answers(monkeypatch, stderr=words)
    with pytest.raises(FleetError, match="cannot be read, or is empty") as refused:
        connect.nodes(HERE, {})
    assert "RAY_AUTH_TOKEN_PATH" in (refused.value.hint or "")


def answers(monkeypatch: pytest.MonkeyPatch, stdout: bytes = b"", stderr: bytes = b"") -> None:
    """What is at every address answers so."""
    done = subprocess.CompletedProcess[bytes]([], 0, stdout, stderr)
    monkeypatch.setattr(connect, "_require_answer", lambda *_: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)


def test_a_machine_outside_of_a_fleet_is_told_to_join_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.write_identity(tmp_path, keys.new_token(), "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "machine.pem", tmp_path / "machine.key")
    context.load_verify_locations(tmp_path / "authority.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("Ray was asked"))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                context.wrap_socket(listener.accept()[0], server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(FleetError, match="answers only machines that are in it") as refused:
            connect.nodes(FleetAddress("127.0.0.1", listener.getsockname()[1]), {})
        thread.join(PATIENCE_S)
    assert "flushlab fleet join" in (refused.value.hint or "")


def test_ray_that_is_absent_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(connect, "find_spec", found)
    with pytest.raises(ExtraMissing) as refused:
        connect.require_ray()
    assert "flushlab[fleet]" in (refused.value.hint or "")


def test_the_same_versions_are_taken(head: FleetNode) -> None:
    connect.require_same((head,), HERE)


@pytest.mark.parametrize(("field", "word"), [("flushlab", "flushlab"), ("ray", "Ray"), ("python", "Python")])
def test_another_version_is_refused_by_name(head: FleetNode, field: str, word: str) -> None:
    other = msgspec.structs.replace(head, **{field: "9.9.9"})
    with pytest.raises(FleetError, match=rf"db1, runs {word} 9\.9\.9"):
        connect.require_same((other,), HERE)


def test_a_ray_that_flushlab_did_not_start_is_not_joined(head: FleetNode) -> None:
    with pytest.raises(FleetError, match="not started by flushlab"):
        connect.require_same((msgspec.structs.replace(head, flushlab=""),), HERE)


def test_machines_are_listed_by_name(monkeypatch: pytest.MonkeyPatch, head: FleetNode) -> None:
    found = [msgspec.structs.replace(head, name=name) for name in ("db2", "db3", "db1")]
    answers(monkeypatch, stdout=msgspec.json.encode({"nodes": found}))
    assert [one.name for one in connect.nodes(HERE, {})] == ["db1", "db2", "db3"]
