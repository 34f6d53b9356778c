"""Which servers a test runs on in `make test` and in `make soak`."""

from __future__ import annotations

import pytest

from tests.conftest import flavors, pytest_collection_modifyitems


def test_the_first_servers_always_run_and_the_others_are_marked() -> None:
    params = flavors("mariadb@10.11", ("mysql@8.0", 1), "mysql@5.7", first=2)
    assert [param.values for param in params] == [("mariadb@10.11",), ("mysql@8.0", 1), ("mysql@5.7",)]
    assert [[mark.name for mark in param.marks] for param in params] == [[], [], ["every_flavor"]]


def nothing() -> None: ...


@pytest.mark.parametrize(("every", "left"), [("0", ["mariadb@10.11"]), ("1", ["mariadb@10.11", "mysql@8.0"])])
def test_the_marked_ones_are_left_out_unless_every_flavor_is_asked_for(
    every: str, left: list[str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUSHLAB_EVERY_FLAVOR", every)
    items: list[pytest.Item] = []
    for param in flavors("mariadb@10.11", "mysql@8.0"):
        items.append(
            pytest.Function.from_parent(request.node.parent, name=str(param.values[0]), callobj=nothing)
        )
        for mark in param.marks:
            items[-1].add_marker(mark.name)
    pytest_collection_modifyitems(request.config, items)
    assert [item.name for item in items] == left
