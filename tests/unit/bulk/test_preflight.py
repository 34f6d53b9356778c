"""What is looked at before a load."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.bulk.preflight import ServerState, load_warnings, require_connections, sleeping, space_warning
from flushlab.errors import ServerError, UsageError

GIB = 1 << 30
USUAL = {
    "max_connections": "151",
    "max_allowed_packet": str(16 << 20),
    "local_infile": "ON",
    "read_only": "OFF",
    "table_open_cache": "2000",
    "wait_timeout": "28800",
    "interactive_timeout": "28800",
    "log_bin": "OFF",
    "innodb_log_file_size": str(48 << 20),
    "innodb_log_files_in_group": "2",
}


def look(
    variables: Mapping[str, str] | None = None,
    *,
    connected: int = 3,
    sleepers: tuple[tuple[str, str, int], ...] = (),
) -> ServerState:
    return ServerState(variables={**USUAL, **(variables or {})}, connected=connected, sleepers=sleepers)


def slugs(seen: ServerState, *, ours: bool = False, load_bytes: int = 1 << 20) -> list[str]:
    return [caveat.slug for caveat in load_warnings(seen, 4, load_bytes, ours=ours)]


def test_a_server_that_has_all_it_needs_gives_no_caveats() -> None:
    require_connections(look(), 4)
    assert slugs(look()) == []


def test_a_replica_is_refused() -> None:
    with pytest.raises(ServerError, match="super_read_only=ON"):
        require_connections(look({"read_only": "ON", "super_read_only": "ON"}), 1)


def test_a_load_that_finds_too_few_connections_is_refused_with_who_sleeps() -> None:
    sleepers = (("app", "10.0.0.7", 7200),) * 140
    with pytest.raises(UsageError, match="only 2 of max_connections=151 are left") as refused:
        require_connections(look(connected=149, sleepers=sleepers), 4)
    assert "140 of app@10.0.0.7 (oldest 2 h)" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("variables", "slug"),
    [
        ({"local_infile": "OFF"}, "local-infile"),
        ({"max_allowed_packet": "65536"}, "max-allowed-packet"),
        ({"table_open_cache": "4"}, "table-open-cache"),
        ({"log_bin": "ON"}, "binlog-growth"),
        ({"wsrep_on": "ON", "wsrep_load_data_splitting": "ON"}, "wsrep-load-data-splitting"),
    ],
)
def test_a_limit_in_the_way_is_told(variables: dict[str, str], slug: str) -> None:
    assert slugs(look(variables)) == [slug]


def test_a_redo_log_much_smaller_than_the_rows_is_told() -> None:
    assert slugs(look(), load_bytes=1 << 30) == ["redo-capacity"]
    assert slugs(look({"innodb_redo_log_capacity": str(4 << 30)}), load_bytes=1 << 30) == []


def test_replicas_that_are_not_waited_for_are_told_of() -> None:
    seen = ServerState(variables=USUAL, connected=3, replicas=2)
    (caveat,) = load_warnings(seen, 4, 1 << 20, ours=False)
    assert caveat.text.startswith("2 replicas may fall behind: with --replica")
    assert load_warnings(seen, 4, 1 << 20, ours=False, waits=True) == []


def test_few_sleepers_do_not_matter() -> None:
    assert sleeping(look(sleepers=(("app", "web1", 90_000),) * 20)) == []


def test_many_sleepers_are_counted_by_user_and_host_with_what_a_timeout_would_close() -> None:
    sleepers = (("app", "web1", 7200),) * 30 + (("app", "web2", 60),) * 12 + (("cron", "db", 900),) * 3
    told = sleeping(look(sleepers=sleepers))
    assert told[0] == (
        "45 of 151 possible connections sleep: 30 of app@web1 (oldest 2 h), 12 of app@web2 (oldest 1 min),"
        " 3 of cron@db (oldest 15 min)"
    )
    assert told[1].startswith("wait_timeout=28800") and "up to 33 of them" in told[1]
    short = look({"wait_timeout": "300", "interactive_timeout": "300"}, sleepers=sleepers)
    assert sleeping(short)[1:] == []


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server with 10 GiB left."""
    monkeypatch.setattr("os.statvfs", lambda _: SimpleNamespace(f_bavail=10, f_frsize=GIB))
    return SimpleNamespace(pid=1, query=lambda _: [("/data",)])


def test_rows_that_take_several_times_what_is_free_are_refused(small: Any) -> None:
    space_warning(small, 39 * GIB)
    with pytest.raises(
        UsageError, match=r"^about 41\S* GiB of rows are to come, and 10\S* GiB are free in /data$"
    ) as refused:
        space_warning(small, 41 * GIB)
    assert "--data-root" in str(refused.value.hint)


def test_rows_that_may_not_fit_are_a_caveat(small: Any) -> None:
    assert space_warning(small, 5 * GIB) is None
    found = space_warning(small, 8 * GIB)
    assert found is not None and found.slug == "disk-space" and "/data: they may not fit" in found.text
