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


@pytest.mark.parametrize(("value", "left"), [(None, ["plain"]), ("", ["plain"]), ("5000", ["plain", "soak"])])
def test_a_test_of_the_soak_is_deselected_unless_its_variable_asks_for_it(
    value: str | None, left: list[str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLUSHLAB_OPTION_FILES", raising=False)
    if value is not None:
        monkeypatch.setenv("FLUSHLAB_OPTION_FILES", value)
    deselected: list[pytest.Item] = []
    monkeypatch.setattr(
        request.config.hook, "pytest_deselected", lambda items: deselected.extend(items), raising=False
    )
    items: list[pytest.Item] = [
        pytest.Function.from_parent(request.node.parent, name=name, callobj=nothing)
        for name in ("plain", "soak")
    ]
    items[1].add_marker(pytest.mark.soak("FLUSHLAB_OPTION_FILES"))
    pytest_collection_modifyitems(request.config, items)
    assert [item.name for item in items] == left
    assert [item.name for item in deselected] == [name for name in ("soak",) if name not in left]
