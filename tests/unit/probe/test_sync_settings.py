from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.probe.sync_settings import (
    RELAXED,
    SECOND,
    STRICT,
    SyncSettings,
    parse_binlog_strategy,
    parse_sync_settings,
)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("strict", STRICT),
        ("second", SECOND),
        ("relaxed", RELAXED),
        ("3/1", SyncSettings(3, 1)),
        ("1/0", SyncSettings(1, 0)),
        ("2/4294967295", SyncSettings(2, 4294967295)),
    ],
)
def test_a_policy_is_a_floor_or_two_settings(text: str, settings: SyncSettings) -> None:
    assert parse_sync_settings(text) == settings


@pytest.mark.parametrize(
    "text", ["", "fast", "1", "1/", "1/1/1", "-1/1", "4/1", "1/4294967296", "1/99999999999"]
)
def test_what_no_server_takes_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_sync_settings(text)
    assert raised.value.hint


def test_names_say_the_floor_where_there_is_one() -> None:
    assert [one.name for one in (STRICT, SyncSettings(3, 1), SECOND, RELAXED, SyncSettings(1, 0))] == [
        "strict 1/1",
        "strict 3/1",
        "second 2/1000",
        "relaxed 0/0",
        "1/0",
    ]


def test_only_mariadb_has_3() -> None:
    assert "MariaDB" in SyncSettings(3, 1).format
    assert "MariaDB" not in STRICT.format


def test_a_flush_mode_is_one_of_four() -> None:
    assert parse_binlog_strategy("two-syncs") == "two-syncs"
    with pytest.raises(UsageError) as raised:
        parse_binlog_strategy("Serial")
    assert "serial, parallel, redo, two-syncs" in (raised.value.hint or "")
