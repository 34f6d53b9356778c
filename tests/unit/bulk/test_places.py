"""What may be changed on a server that is not a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.bulk.places import settings_of_others
from flushlab.record import Launch, ServerIdentity, Value
from flushlab.record.server import Flavor
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
) -> Mapping[str, Value]:
    flavor, version = build
    found = {**STRICT, **now}
    server: Any = SimpleNamespace(
        identity=ServerIdentity(flavor=flavor, version=version, version_text=".".join(map(str, version))),
        launch=Launch(),
        read_back=lambda names: {name: found[name] for name in names if name in found},
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


def test_no_redo_log_grows_beyond_a_gibibyte() -> None:
    assert settings({REDO: 96 * MIB}, load_bytes=100 << 30)[REDO] == 1 << 30
