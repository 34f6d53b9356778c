"""Rules of effects: figures of real windows (2 cores, ext4, 3 s), and what must stay silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.record import FileActivity, Value
from flushlab.settings.effects import SeenEffects, no_effect
from tests.unit.records import MARIADB

BINLOG: dict[str, Value] = {"log_bin": "ON", "sync_binlog": 1}


def evidence(settings: Mapping[str, Value], **changes: Any) -> SeenEffects:
    """MariaDB 10.11, 16 connections, flush 1: a healthy window."""
    facts: dict[str, Any] = {
        "identity": MARIADB,
        "settings": settings,
        "seconds": 3.0,
        "activity": {
            "redo": FileActivity(fsyncs=5140, bytes=15_899_356, flags=("O_DIRECT",)),
            "binlog": FileActivity(fsyncs=5139, bytes=12_124_297),
            "doublewrite": FileActivity(bytes=0),
            "data": FileActivity(fsyncs=0, bytes=0, flags=("O_DIRECT",)),
            "other": FileActivity(fsyncs=0),
        },
        "opened": ("redo", "binlog", "data", "other"),
        "counted_by": "kernel",
        "commits": 36_920,
        "connections": 16,
        "pages_written": 0,
        **changes,
    }
    return SeenEffects(**facts)


def activity(base: SeenEffects, **changes: FileActivity) -> Mapping[str, FileActivity]:
    return {**base.activity, **changes}


def texts(found: SeenEffects) -> dict[str, str]:
    return {finding.setting: finding.text for finding in no_effect(found)}


HEALTHY = evidence(
    {
        "innodb_flush_log_at_trx_commit": 1,
        "innodb_flush_method": "O_DIRECT",
        "innodb_log_file_buffering": "OFF",
        "innodb_doublewrite": "ON",
        **BINLOG,
    }
)


def test_settings_that_work_are_passed_over_in_silence() -> None:
    assert texts(HEALTHY) == {}


def test_o_direct_without_the_flag_is_reported() -> None:
    seen = evidence(
        {"innodb_flush_method": "O_DIRECT"}, activity=activity(HEALTHY, data=FileActivity(fsyncs=0))
    )
    assert texts(seen) == {
        "innodb_flush_method": "innodb_flush_method=O_DIRECT reads back, but the data files are open without "
        "O_DIRECT"
    }


def test_unseen_files_say_nothing_of_o_direct() -> None:
    seen = evidence({"innodb_flush_method": "O_DIRECT"}, activity={"data": FileActivity()}, opened=())
    assert texts(seen) == {}


def test_the_method_fsync_promises_no_flag() -> None:
    seen = evidence({"innodb_flush_method": "fsync"}, activity=activity(HEALTHY, data=FileActivity(fsyncs=0)))
    assert texts(seen) == {}


def test_mariadbs_own_switches_are_judged_by_the_same_flags() -> None:
    bare = activity(HEALTHY, data=FileActivity(), redo=FileActivity())
    seen = evidence(
        {
            "innodb_data_file_buffering": "OFF",
            "innodb_log_file_buffering": "OFF",
            "innodb_log_file_write_through": "ON",
        },
        activity=bare,
    )
    assert {name: text.split("but ")[1] for name, text in texts(seen).items()} == {
        "innodb_data_file_buffering": "the data files are open without O_DIRECT",
        "innodb_log_file_buffering": "the redo log is open without O_DIRECT",
        "innodb_log_file_write_through": "the redo log is open without O_DSYNC or O_SYNC",
    }


def test_in_memory_neither_o_direct_nor_syncs_do_anything_even_with_the_flag() -> None:
    seen = evidence(HEALTHY.settings, in_memory=("redo", "binlog", "data", "other"))
    assert texts(seen).keys() == {
        "innodb_flush_log_at_trx_commit",
        "sync_binlog",
        "innodb_flush_method",
    }
    assert all("memory" in text for text in texts(seen).values())


def test_o_dsync_is_seen_at_the_redo_log() -> None:
    settings = {"innodb_flush_method": "O_DSYNC"}
    assert "without O_DSYNC or O_SYNC" in texts(evidence(settings))["innodb_flush_method"]
    for flag in ("O_SYNC", "O_DSYNC"):  # MySQL's and MariaDB's way
        synced = activity(HEALTHY, redo=FileActivity(fsyncs=4504, bytes=9_436_160, flags=(flag,)))
        assert texts(evidence(settings, activity=synced)) == {}


def test_a_library_that_swallows_syncs_is_found_at_both_logs() -> None:
    swallowed = activity(
        HEALTHY,
        redo=FileActivity(fsyncs=0, bytes=19_411_803),
        binlog=FileActivity(fsyncs=0, bytes=12_124_297),
    )
    seen = evidence({"innodb_flush_log_at_trx_commit": 1, **BINLOG}, activity=swallowed, commits=39_143)
    assert texts(seen) == {
        "innodb_flush_log_at_trx_commit": "innodb_flush_log_at_trx_commit=1 reads back, but the redo log was "
        "never synced for 39,143 commits on 16 connections, where at least 2,446 are needed (a preloaded "
        "library such as libeatmydata, or --debug-no-sync)",
        "sync_binlog": "sync_binlog=1 reads back, but the binary log was never synced for 39,143 commits on "
        "16 connections, where at least 2,446 are needed (a preloaded library such as libeatmydata, or "
        "--debug-no-sync)",
    }


@pytest.mark.parametrize(("synced", "reported"), [(2306, True), (2307, False)])
def test_the_lower_bound_is_one_commit_of_each_connection_per_sync(synced: int, reported: bool) -> None:
    # 36,920 commits on 16 connections: 16 of them may wait for a sync that began before the window.
    few = activity(HEALTHY, redo=FileActivity(fsyncs=synced, bytes=15_899_356))
    seen = evidence({"innodb_flush_log_at_trx_commit": 1}, activity=few)
    assert bool(texts(seen)) is reported


def test_syncs_of_files_that_are_gone_count_for_the_logs() -> None:
    gone = activity(
        HEALTHY,
        redo=FileActivity(fsyncs=10, bytes=15_899_356),
        other=FileActivity(fsyncs=2300),
    )
    assert texts(evidence({"innodb_flush_log_at_trx_commit": 1}, activity=gone)) == {}


@pytest.mark.parametrize(
    "silent",
    [
        {"commits": None},
        {"connections": None},
        {"opened": ("binlog", "data")},  # the redo log is mapped into memory
        {"activity": {"redo": FileActivity(fsyncs=0, bytes=39_143 * 10)}},  # not this engine's commits
        {"activity": {"redo": FileActivity(fsyncs=None, bytes=39_143_000)}},
        {"activity": {"redo": FileActivity(fsyncs=0, bytes=None)}},
    ],
)
def test_without_evidence_nothing_is_said_of_syncs(silent: Mapping[str, Any]) -> None:
    starved: Mapping[str, Any] = {"activity": {"redo": FileActivity(fsyncs=0, bytes=39_143_000)}}
    settings = {"innodb_flush_log_at_trx_commit": 1}
    assert texts(evidence(settings, **starved))
    assert texts(evidence(settings, **{**starved, **silent})) == {}


def test_the_servers_own_count_serves_but_not_for_synchronous_writes() -> None:
    settings = {"innodb_flush_log_at_trx_commit": 1}
    none = {"redo": FileActivity(fsyncs=0, bytes=39_143_000)}
    assert (
        "by the server's own count"
        in texts(evidence(settings, activity=none, counted_by="server"))["innodb_flush_log_at_trx_commit"]
    )
    through = {"redo": FileActivity(fsyncs=0, bytes=39_143_000, flags=("O_SYNC",))}
    assert texts(evidence(settings, activity=through, counted_by="server")) == {}


def test_2_with_synchronous_writes_is_1_counted_or_not() -> None:
    settings = {"innodb_flush_log_at_trx_commit": 2}
    through = activity(HEALTHY, redo=FileActivity(fsyncs=4578, bytes=9_037_312, flags=("O_SYNC",)))
    seen = evidence(settings, activity=through, commits=6809, connections=4)
    assert texts(seen) == {
        "innodb_flush_log_at_trx_commit": "innodb_flush_log_at_trx_commit=2 reads back, but the redo log is "
        "written through (O_SYNC), so the write of every commit is a sync: 4,578 for 6,809 commits on 4 "
        "connections"
    }
    unseen = activity(HEALTHY, redo=FileActivity(bytes=3_050_746, flags=("O_DIRECT", "O_DSYNC")))
    bare = evidence(settings, activity=unseen, counted_by=None, commits=None)
    assert texts(bare)["innodb_flush_log_at_trx_commit"].endswith("the write of every commit is a sync")
    assert texts(evidence({"innodb_flush_log_at_trx_commit": 0}, activity=unseen)) == {}  # once a second


@pytest.mark.parametrize("policy", [0, 2])
def test_a_sync_per_commit_at_0_or_2_is_reported(policy: int) -> None:
    busy = activity(HEALTHY, redo=FileActivity(fsyncs=4578, bytes=9_037_312))
    settings = {"innodb_flush_log_at_trx_commit": policy}
    seen = evidence(settings, activity=busy, commits=6809, connections=4)
    assert texts(seen) == {
        "innodb_flush_log_at_trx_commit": f"innodb_flush_log_at_trx_commit={policy} reads back, but the redo "
        "log was synced 4,578 times for 6,809 commits on 4 connections, about as often as with 1"
    }


def test_housekeeping_at_2_is_no_sync_per_commit() -> None:
    # MySQL 5.7, 47,845 commits on 16 connections: 22 syncs, 585 pages. Then the same, flushing heavily.
    settings = {"innodb_flush_log_at_trx_commit": 2}
    for synced, pages in ((22, 585), (9000, 5000)):
        quiet = activity(HEALTHY, redo=FileActivity(fsyncs=synced, bytes=72_711_680))
        assert texts(evidence(settings, activity=quiet, commits=47_845, pages_written=pages)) == {}


def test_a_checkpoint_without_any_sync_is_reported_for_any_workload() -> None:
    none = activity(HEALTHY, redo=FileActivity(fsyncs=0, bytes=1_000))
    for policy in (0, 1, 2):
        seen = evidence(
            {"innodb_flush_log_at_trx_commit": policy},
            activity=none,
            commits=None,
            connections=None,
            checkpointed=True,
        )
        assert "although a checkpoint was made" in texts(seen)["innodb_flush_log_at_trx_commit"]
    once = activity(HEALTHY, redo=FileActivity(fsyncs=1, bytes=1_000))
    seen = evidence({"innodb_flush_log_at_trx_commit": 2}, activity=once, commits=None, checkpointed=True)
    assert texts(seen) == {}


@pytest.mark.parametrize(
    ("period", "synced", "reported"),
    [(1, 2306, True), (1, 2307, False), (100, 22, True), (100, 23, False), (0, 0, False)],
)
def test_sync_binlog_takes_a_sync_in_so_many_groups(period: int, synced: int, reported: bool) -> None:
    some = activity(HEALTHY, binlog=FileActivity(fsyncs=synced, bytes=12_124_297))
    seen = evidence({"log_bin": "ON", "sync_binlog": period}, activity=some)
    assert bool(texts(seen)) is reported


@pytest.mark.parametrize(("period", "reported"), [(0, True), (1000, True), (1, False)])
def test_a_sync_of_the_binlog_per_commit_is_reported_where_none_was_asked_for(
    period: int, reported: bool
) -> None:
    seen = evidence({"log_bin": "ON", "sync_binlog": period})
    assert ("about as often as with 1" in texts(seen).get("sync_binlog", "")) is reported


def test_a_binlog_that_does_not_grow_is_reported_once() -> None:
    idle = activity(HEALTHY, binlog=FileActivity(fsyncs=0, bytes=0))
    seen = evidence(BINLOG, activity=idle)
    assert texts(seen) == {
        "log_bin": "log_bin=ON reads back, but the binary log grew by 0 bytes for 36,920 commits"
    }
    assert texts(evidence(BINLOG, activity=idle, commits=None)) == {}  # the workload may only read
    inside = {**BINLOG, "binlog_storage_engine": "innodb"}
    assert texts(evidence(inside, activity=idle)) == {}


def test_doublewritten_pages_refute_off_and_nothing_else() -> None:
    pages = activity(HEALTHY, doublewrite=FileActivity(bytes=3_522_560))
    assert (
        "3,522,560 bytes"
        in texts(evidence({"innodb_doublewrite": "OFF"}, activity=pages))["innodb_doublewrite"]
    )
    assert texts(evidence({"innodb_doublewrite": "ON"}, activity=pages)) == {}
    assert texts(evidence({"innodb_doublewrite": "OFF"})) == {}


@st.composite
def honest_windows(draw: st.DrawFn) -> tuple[int, int, int]:
    """Connections, commits and syncs of a server that syncs a group before it acknowledges any of it.

    Groups are any subsets of the connections; the window may open between a sync and its answers.
    """
    connections = draw(st.integers(1, 64))
    groups = draw(st.lists(st.integers(1, connections), max_size=60))
    early = draw(st.integers(0, connections))
    return connections, early + sum(groups), len(groups)


@given(honest_windows())
def test_no_grouping_of_an_honest_server_raises_an_alarm(window: tuple[int, int, int]) -> None:
    connections, commits, syncs = window
    files = {
        "redo": FileActivity(fsyncs=syncs, bytes=commits * 400),
        "binlog": FileActivity(fsyncs=syncs, bytes=commits * 400),
    }
    seen = evidence(
        {"innodb_flush_log_at_trx_commit": 1, **BINLOG},
        activity=files,
        commits=commits,
        connections=connections,
    )
    assert texts(seen) == {}
