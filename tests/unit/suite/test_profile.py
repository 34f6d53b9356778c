"""The throwaway profile fits every server, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.datadir import DataRoot, storage_of
from flushlab.server.sandbox.option_files import _alone, always
from flushlab.settings.catalog import load_catalog
from flushlab.suite import profile as module
from flushlab.suite.profile import (
    CHOICES,
    GROWTH_BYTES,
    SERVER_BYTES,
    ChosenRoot,
    Where,
    content_settings,
    has_room,
    logging_rows,
    memory_for,
    throwaway,
)
from tests.unit.builds import MARIADB, MYSQL57, MYSQL80, MYSQL97
from tests.unit.documents import DOCS

ALL = (MARIADB, MYSQL57, MYSQL80, MYSQL97)
CHANGES_MEANING = {
    "sql_mode",
    "transaction_isolation",
    "foreign_key_checks",
    "character_set_server",
    "autocommit",
}


@pytest.mark.parametrize("build", ALL, ids=lambda build: build.name)
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_every_setting_exists_in_that_version_with_that_value(build: Build, where: Where) -> None:
    catalog = load_catalog()
    settings = throwaway(build, where)
    assert len(settings) >= 6
    for name, value in settings.items():
        if name in catalog:
            catalog.require(name, build.flavor, build.version).parse(value)


def test_nothing_changes_what_sql_means() -> None:
    assert not {one.name for one in CHOICES} & CHANGES_MEANING


def test_every_choice_has_its_reason_and_none_is_there_twice_for_a_server() -> None:
    assert all(one.why for one in CHOICES)
    for build in ALL:
        names = [one.name for one in CHOICES if one.holds(build, "disk")]
        assert len(names) == len(set(names))


def test_the_users_own_settings_win() -> None:
    own = {"innodb_file_per_table": "ON"}
    assert throwaway(MYSQL57, "memory", own).items() >= own.items()


@pytest.mark.parametrize("name", ["log_bin", "binlog_format", "binlog_row_image"])
def test_rows_are_logged_unless_the_user_says_how_to_log(name: str) -> None:
    for build in ALL:
        logged = logging_rows(build, {"sync_binlog": 1})
        assert logged["log_bin"] == "ON"
        assert throwaway(build, "memory", {**logged, "sync_binlog": 1})["sync_binlog"] == 1
        assert logging_rows(build, {name: "x"}) == {}


def test_a_template_does_not_depend_on_where_it_was_made() -> None:
    for build in ALL:
        memory, disk = throwaway(build, "memory"), throwaway(build, "disk")
        assert content_settings(memory) == content_settings(disk)
        assert memory != disk


def test_the_guide_names_every_difference_from_a_server_at_its_defaults() -> None:
    page = (DOCS / "how-to" / "test.md").read_text()
    table = page[page.index("All differences from") : page.index("If memory runs short")]
    expected = {f"`{one.name}={one.value}`" for one in CHOICES} | {"`--debug-no-sync`"}
    expected |= {f"`{name}={value}`" for name, value in logging_rows(MYSQL97, {}).items()}
    for build in ALL:
        for line in _differing(build):
            expected.add(f"`{line}`")
    assert sorted(one for one in expected if one not in table) == []


def _differing(build: Build) -> list[str]:
    """Lines of every sandbox that are no paths, addresses or ports."""
    lines = [*always(build), *_alone(build)]
    return [
        line.removeprefix("loose_").replace(" = ", "=")
        for line in lines
        if not line.startswith("lc_messages_dir")
    ]


MIB = 1 << 20


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_servers_that_stand_by_leave_the_reserve_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int, fits: bool
) -> None:
    each = MIB + GROWTH_BYTES + SERVER_BYTES
    monkeypatch.setattr(module, "reserve_bytes", lambda: MIB)
    monkeypatch.setattr(module, "available_memory_bytes", lambda: 2 * each + MIB + spare)
    root = ChosenRoot(root=DataRoot(path=tmp_path, storage=storage_of(tmp_path)), in_memory=True)
    assert has_room(root, MIB, 2) is fits


def test_data_on_disk_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "reserve_bytes", lambda: MIB)
    monkeypatch.setattr(module, "available_memory_bytes", lambda: 2 * SERVER_BYTES + MIB)
    on_disk = ChosenRoot(root=DataRoot(path=tmp_path, storage=storage_of(tmp_path)), in_memory=False)
    assert memory_for(on_disk, MIB, 2) == 2 * SERVER_BYTES
    assert has_room(on_disk, MIB, 2)
    assert not has_room(on_disk, MIB, 3)
    assert not has_room(on_disk, 1 << 60, 1), "its disk is full"
