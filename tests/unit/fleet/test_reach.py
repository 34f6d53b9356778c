"""What is at an address, before Ray speaks to it."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path

import msgspec
import pytest

from flushlab.errors import ExtraMissing, FleetError, UsageError
from flushlab.fleet import key as keys
from flushlab.fleet import nodes_main, reach
from flushlab.fleet.reach import Address, FleetNode
from tests.waiting import PATIENCE_S

HERE = Address("127.0.0.1", 9377)


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> FleetNode:
    """A first machine of the same versions as this one."""
    monkeypatch.setattr(reach, "require_ray", lambda: "2.60.0")
    own = reach.labels()
    return FleetNode(
        node_id="ab",
        name="db1",
        address="10.0.0.5",
        is_head=True,
        flushlab=own["flushlab"],
        ray=own["flushlab-ray"],
        python=own["flushlab-python"],
    )


@pytest.mark.parametrize(
    ("text", "address"), [("127.0.0.1", HERE), ("127.0.0.1:6379", Address("127.0.0.1", 6379))]
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert reach.parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", ":9377", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:x", "::1", "a..b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        reach.parse_address(text)


def test_nobody_at_an_address_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(FleetError, match="nobody answers") as refused:
        reach.nodes(Address("127.0.0.1", port), {})
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
        reach.nodes(HERE, environment)
    assert to_do in (refused.value.hint or "")


def test_a_token_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        b"C 1: RAY_AUTH_TOKEN_PATH is set but file cannot be opened or is empty: /no\n*** StackTrace\n_start"
    )
    answers(monkeypatch, stderr=words)
    with pytest.raises(FleetError, match="cannot be read, or is empty") as refused:
        reach.nodes(HERE, {})
    assert "RAY_AUTH_TOKEN_PATH" in (refused.value.hint or "")


def answers(monkeypatch: pytest.MonkeyPatch, stdout: bytes = b"", stderr: bytes = b"") -> None:
    """What is at every address answers so."""
    done = subprocess.CompletedProcess[bytes]([], 0, stdout, stderr)
    monkeypatch.setattr(reach, "_require_answer", lambda *_: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)


def test_a_machine_outside_of_a_fleet_is_told_to_join_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.write_identity(tmp_path, keys.new_key(), "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "machine.pem", tmp_path / "machine.key")
    context.load_verify_locations(tmp_path / "authority.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("Ray was asked"))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):  # whether somebody answers, then TLS
                with suppress(OSError):
                    context.wrap_socket(listener.accept()[0], server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(FleetError, match="answers only machines that are in it") as refused:
            reach.nodes(Address("127.0.0.1", listener.getsockname()[1]), {})
        thread.join(PATIENCE_S)
    assert "flushlab fleet join" in (refused.value.hint or "")


def test_ray_that_is_absent_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(reach, "find_spec", found)
    with pytest.raises(ExtraMissing) as refused:
        reach.require_ray()
    assert "flushlab[fleet]" in (refused.value.hint or "")


def test_the_same_versions_are_taken(head: FleetNode) -> None:
    reach.require_same((head,), HERE)


@pytest.mark.parametrize(("field", "word"), [("flushlab", "flushlab"), ("ray", "Ray"), ("python", "Python")])
def test_another_version_is_refused_by_name(head: FleetNode, field: str, word: str) -> None:
    other = msgspec.structs.replace(head, **{field: "9.9.9"})
    with pytest.raises(FleetError, match=rf"db1, runs {word} 9\.9\.9"):
        reach.require_same((other,), HERE)


def test_a_ray_that_flushlab_did_not_start_is_not_joined(head: FleetNode) -> None:
    with pytest.raises(FleetError, match="not started by flushlab"):
        reach.require_same((msgspec.structs.replace(head, flushlab=""),), HERE)


def test_the_fleet_of_this_machine_is_asked_without_a_child(
    monkeypatch: pytest.MonkeyPatch, head: FleetNode
) -> None:
    answers(monkeypatch, stdout=b"{}")
    monkeypatch.setattr(os, "environ", {**os.environ})
    asked = list[tuple[str, str | None]]()

    def listed(address: str) -> dict[str, object]:
        asked.append((address, os.environ.get("RAY_AUTH_TOKEN_PATH")))
        return {"nodes": [msgspec.to_builtins(head)]}

    monkeypatch.setattr(nodes_main, "listed", listed)
    assert reach.nodes(HERE, KEY, is_own=True) == (head,)
    assert asked == [(str(HERE), KEY["RAY_AUTH_TOKEN_PATH"])], "Ray reads its variables when it is loaded"


def test_a_fleet_of_this_machine_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(_: str) -> dict[str, object]:
        raise RuntimeError("Timed out\nwaiting")

    answers(monkeypatch)
    monkeypatch.setattr(nodes_main, "listed", listed)
    with pytest.raises(FleetError, match="cannot be asked: Timed out waiting"):
        reach.nodes(HERE, {}, is_own=True)


def test_machines_are_listed_by_name(monkeypatch: pytest.MonkeyPatch, head: FleetNode) -> None:
    found = [msgspec.structs.replace(head, name=name) for name in ("db2", "db3", "db1")]
    answers(monkeypatch, stdout=msgspec.json.encode({"nodes": found}))
    assert [one.name for one in reach.nodes(HERE, {})] == ["db1", "db2", "db3"]
