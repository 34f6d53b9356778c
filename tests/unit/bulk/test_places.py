"""What may be changed on a server that is not a sandbox, and what a cluster gets back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.bulk import destinations as places
from flushlab.bulk.destinations import relaxed_cluster, settings_of_others, unfinished
from flushlab.errors import NotWritable, ServerError
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.record.machine import Flavor
from flushlab.settings.floor import Floor

MIB = 1 << 20
FLUSH, SYNC, REDO, CAPACITY = (
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "innodb_log_file_size",
    "innodb_redo_log_capacity",
)
STRICT: Mapping[str, Value] = {FLUSH: 1, SYNC: 1, "log_bin": "ON", "innodb_log_buffer_size": 16 * MIB}
MARIADB: tuple[Flavor, tuple[int, ...]] = ("mariadb", (10, 11, 19))


def settings(
    now: Mapping[str, Value],
    build: tuple[Flavor, tuple[int, ...]] = MARIADB,
    floor: Floor = Floor.SECOND,
    load_bytes: int = 1 * MIB,
    told: Mapping[str, list[tuple[Any, ...]]] | None = None,
) -> Mapping[str, Value]:
    flavor, version = build
    found = {**STRICT, **now}
    server: Any = SimpleNamespace(
        identity=ServerIdentity(flavor=flavor, version=version, version_text=".".join(map(str, version))),
        launch=Launch(),
        read_back=lambda names: {name: found[name] for name in names if name in found},
        query=lambda sql: (told or {}).get(sql, []),
    )
    return settings_of_others(server, floor, load_bytes)


def test_commits_are_relaxed_as_far_as_the_floor_allows() -> None:
    assert settings({}, floor=Floor.STRICT) == {}
    assert settings({})[FLUSH] == 2
    assert settings({"log_bin": "OFF"}, floor=Floor.RELAXED) == {FLUSH: 0}


def test_without_a_binary_log_nothing_of_it_is_changed() -> None:
    assert settings({"log_bin": "OFF"}) == {FLUSH: 2}


def test_commits_that_are_as_fast_already_stay() -> None:
    assert settings({FLUSH: 0, SYNC: 0}) == {}
    assert settings({FLUSH: 2, "log_bin": "OFF"}) == {}


@pytest.mark.parametrize(
    ("build", "name", "size", "wanted"),
    [
        (MARIADB, REDO, 96 * MIB, 304 * MIB),
        (("mysql", (9, 7, 4)), CAPACITY, 100 * MIB, 304 * MIB),
        (MARIADB, REDO, 512 * MIB, None),
        (MARIADB, REDO, 8 * MIB, None),  # less than the log buffer: it could not be made so small again
        (("mysql", (8, 0, 15)), REDO, 48 * MIB, None),  # not while it runs
    ],
)
def test_a_redo_log_that_is_too_small_is_enlarged_where_that_can_be_undone(
    build: tuple[Flavor, tuple[int, ...]], name: str, size: int, wanted: int | None
) -> None:
    assert settings({name: size}, build, load_bytes=300 * MIB).get(name) == wanted


def test_a_redo_log_that_older_variables_made_large_is_left_alone() -> None:
    sized, status = "Innodb_redo_log_capacity_resized", "Innodb_redo_log_resize_status"
    told = {"SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_%'": [(sized, str(4 << 30)), (status, "OK")]}
    found = settings({CAPACITY: 100 * MIB}, ("mysql", (9, 7, 4)), load_bytes=300 * MIB, told=told)
    assert CAPACITY not in found


def test_no_redo_log_grows_beyond_a_gibibyte() -> None:
    assert settings({REDO: 96 * MIB}, load_bytes=100 << 30)[REDO] == 1 << 30


class Node:
    """A node with settings of its own; it refuses what is in `refuses`."""

    def __init__(self, folder: Path, number: int) -> None:
        self.name, self.folder = f"duo-{number}", folder / f"duo-{number}"
        self.folder.mkdir()
        self.found = dict(STRICT)
        self.refuses: dict[str, Value] = {}
        self.identity = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19")
        self.launch, self.query = Launch(), self

    def alive(self) -> bool:
        return True

    def read_back(self, names: list[str]) -> dict[str, Value]:
        return {name: self.found[name] for name in names if name in self.found}

    def set(self, name: str, value: Value) -> None:
        if (name, value) in self.refuses.items():
            raise ServerError(f"{self.name} refuses {name} = {value}")
        self.found[name] = value


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_variable(node: Node, _identity: ServerIdentity, name: str, value: Value) -> None:
        node.set(name, value)

    monkeypatch.setattr(places, "set_variable", set_variable)
    nodes = [Node(tmp_path, number) for number in (1, 2, 3)]
    first = nodes[0]
    return SimpleNamespace(
        nodes=nodes,
        identity=first.identity,
        launch=first.launch,
        storage=Storage(),
        read_back=first.read_back,
    )


def is_noted(node: Any) -> bool:
    return unfinished(node) is not None


def test_a_node_that_takes_a_setting_back_no_more_leaves_no_other_setting_or_node_relaxed(
    cluster: Any,
) -> None:
    first, second, third = cluster.nodes
    with (
        pytest.raises(ServerError, match="the load failed") as failed,
        relaxed_cluster(cluster, Floor.THROWAWAY) as quicken,
    ):
        quicken()
        assert all((node.found[FLUSH], node.found[SYNC]) == (0, 0) for node in cluster.nodes)
        first.refuses = {FLUSH: 1, SYNC: 1}
        second.refuses = {FLUSH: 1}
        raise ServerError("the load failed")
    assert (first.found[FLUSH], first.found[SYNC]) == (0, 0)
    assert (second.found[FLUSH], second.found[SYNC]) == (0, 1)
    assert third.found == STRICT
    assert [is_noted(node) for node in cluster.nodes] == [True, True, False]
    assert sorted(failed.value.__notes__) == [
        f"duo-1 refuses {FLUSH} = 1",
        f"duo-1 refuses {SYNC} = 1",
        f"duo-2 refuses {FLUSH} = 1",
    ]


def test_a_load_that_went_well_ends_with_the_first_error_of_giving_back(cluster: Any) -> None:
    with (
        pytest.raises(ServerError, match=f"duo-1 refuses {FLUSH}"),
        relaxed_cluster(cluster, Floor.THROWAWAY) as quicken,
    ):
        quicken()
        cluster.nodes[0].refuses = {FLUSH: 1}
    assert all(node.found == STRICT for node in cluster.nodes[1:])


def test_nothing_is_noted_for_a_cluster_of_which_a_node_cannot_be_noted(cluster: Any) -> None:
    cluster.nodes[1].folder.rmdir()
    with pytest.raises(NotWritable), relaxed_cluster(cluster, Floor.THROWAWAY):
        pass
    assert not is_noted(cluster.nodes[0])
