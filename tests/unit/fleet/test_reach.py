"""What is at an address, before Ray speaks to it."""

from __future__ import annotations

import socket
from importlib.machinery import ModuleSpec

import msgspec
import pytest

from flushlab.errors import ExtraMissing, FleetError, UsageError
from flushlab.fleet import reach
from flushlab.fleet.reach import Address, FleetNode

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


@pytest.mark.parametrize("text", ["", ":9377", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:x", "::1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        reach.parse_address(text)


def test_nobody_at_an_address_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(FleetError, match="nobody answers") as refused:
        reach.nodes(Address("127.0.0.1", port), {})
    assert "--listen" in (refused.value.hint or "")


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
