"""One test per row of the durability facts, then properties over all settings."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from flushlab.errors import ValueOutOfRange
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import RULES, Guarantees, describe, guarantees, keeps, level, meets
from flushlab.settings.durability.guarantee import FAILURES
from flushlab.settings.floor import Floor
from flushlab.statistics.limits import upper_bound
from tests.unit.settings.servers import (
    ALL,
    DISK,
    LAUNCH,
    MARIADB118,
    MARIADB123,
    MARIADB1011,
    MYSQL57,
    MYSQL80,
    MYSQL84,
    MYSQL97,
    PROTECTED,
    server,
)

FLUSH = "innodb_flush_log_at_trx_commit"
GALERA: dict[str, Value] = {
    "wsrep_on": "ON",
    "wsrep_provider": "/usr/lib/galera/libgalera_smm.so",
    "wsrep_cluster_address": "gcomm://10.0.0.1,10.0.0.2,10.0.0.3",
}


def judge(
    identity: ServerIdentity,
    storage: Storage = DISK,
    launch: Launch = LAUNCH,
    flush: int | None = None,
    **settings: Value,
) -> Guarantees:
    if flush is not None:
        settings[FLUSH] = flush
    return guarantees(settings, identity, storage, launch)


def test_synced_commits_without_a_binary_log_lose_nothing() -> None:
    found = judge(MARIADB1011)
    assert level(found) is Floor.STRICT
    assert found.replication.level == "not_applicable"


@pytest.mark.parametrize(("flush", "after"), [(2, "an OS crash"), (0, "any crash")])
def test_what_replicas_would_lose_is_told_of_a_server_without_a_binary_log(flush: int, after: str) -> None:
    """A sandbox has none; the server that the settings are for may have one."""
    found = judge(MARIADB1011, flush=flush)
    assert found.replication.level == "may_diverge"
    assert found.replication.text.startswith(
        f"with a binary log, they may be ahead of this server after {after}"
    )
    assert found.cluster_loss.text.startswith("a node gets the commits that it lost from the others")


def test_semi_synchronous_replicas_may_be_ahead_of_commits_that_are_not_synced() -> None:
    def found(flush: int) -> str:
        replicated = judge(
            MARIADB1011, flush=flush, log_bin="ON", sync_binlog=1, rpl_semi_sync_master_enabled="ON"
        )
        return replicated.replication.level

    assert (found(1), found(2)) == ("unknown", "may_diverge")


def test_synced_commits_and_a_synced_binary_log_lose_nothing_and_replicas_agree() -> None:
    found = judge(MARIADB1011, log_bin="ON", sync_binlog=1)
    assert level(found) is Floor.STRICT
    assert found.replication.level == "consistent"
    assert judge(MARIADB1011, log_bin="ON", sync_binlog=1, flush=3).replication.level == "consistent"


def test_mariadbs_unsynced_binary_log_by_default_has_no_bound_and_costs_the_engine_its_last_commits() -> None:
    found = judge(MARIADB1011, log_bin="ON")
    assert found.process_crash.level == "nothing_lost"
    assert found.os_crash.level == found.power_loss.level == "window"
    assert (found.os_crash.window_s, found.binlog.level) == (1.0, "unknown")
    assert found.replication.level == "may_diverge"
    assert level(found) is Floor.THROWAWAY


def test_mysqls_binary_log_is_synced_by_default() -> None:
    assert level(judge(MYSQL57, log_bin="ON")) is Floor.STRICT
    assert level(judge(MYSQL80)) is Floor.STRICT


@pytest.mark.parametrize("every", [0, 2, 100, 1000])
@pytest.mark.parametrize("flush", [0, 1, 2])
def test_a_binary_log_synced_every_n_groups_has_no_bound_in_seconds(every: int, flush: int) -> None:
    found = judge(MYSQL80, sync_binlog=every, flush=flush)
    assert (found.os_crash.level, found.binlog.level) == ("window", "unknown")
    assert level(found) is Floor.THROWAWAY


def test_mariadbs_policy_three_keeps_the_engine_without_a_synced_binary_log_but_not_the_log() -> None:
    found = judge(MARIADB1011, log_bin="ON", sync_binlog=0, flush=3)
    assert found.os_crash.level == "nothing_lost"
    assert found.binlog.level == "unknown"
    assert found.replication.level == "may_diverge"
    assert level(found) is Floor.SECOND


def test_policy_two_loses_about_a_second_when_the_system_crashes_and_nothing_when_the_server_does() -> None:
    found = judge(MYSQL57, flush=2)
    assert found.process_crash.level == "nothing_lost"
    assert (found.os_crash.level, found.os_crash.window_s) == ("window", 1.0)
    assert level(found) is Floor.SECOND


def test_policy_two_with_a_synced_binary_log_leaves_the_log_ahead() -> None:
    found = judge(MYSQL80, flush=2)
    assert level(found) is Floor.SECOND
    assert found.replication.level == "may_diverge"
    assert "the binary log ahead" in found.replication.text


@pytest.mark.parametrize("identity", [MYSQL57, MYSQL80, MARIADB1011])
def test_policy_zero_loses_about_a_second_even_when_only_the_server_dies(identity: ServerIdentity) -> None:
    found = judge(identity, flush=0)
    assert (found.process_crash.level, found.process_crash.window_s) == ("window", 1.0)
    assert level(found) is Floor.RELAXED


@pytest.mark.parametrize(("timeout", "window_s"), [(0, 1.0), (1, 1.0), (2, 2.0), (2700, 2700.0)])
def test_the_window_is_as_long_as_the_flush_timeout(timeout: int, window_s: float) -> None:
    found = judge(MARIADB1011, innodb_flush_log_at_timeout=timeout, flush=2)
    assert found.os_crash.window_s == window_s
    assert level(found) is (Floor.SECOND if window_s <= 1 else Floor.THROWAWAY)


def test_a_long_flush_timeout_costs_nothing_while_every_commit_is_synced() -> None:
    assert level(judge(MARIADB1011, innodb_flush_log_at_timeout=2700)) is Floor.STRICT


def test_a_binary_log_inside_innodb_is_as_durable_as_the_flush_policy() -> None:
    inside = partial(judge, MARIADB123, log_bin="ON", binlog_storage_engine="innodb", sync_binlog=0)
    kept = inside()
    assert level(kept) is Floor.STRICT
    assert kept.replication.level == "consistent"
    three = inside(flush=3)
    assert (level(three), three.binlog.level) == (Floor.STRICT, "nothing_lost")
    assert three.replication.level == "consistent", "the policy syncs each commit, as 1 does"
    assert inside(innodb_flush_method="nosync").replication.level == "may_diverge"
    lost = inside(flush=2)
    assert lost.replication.level == "may_diverge"
    assert "about 1 s of its end may be lost" in lost.binlog.text
    assert inside(flush=2, innodb_flush_log_at_timeout=30).binlog.window_s == 30.0
    assert (lost.os_crash.level, lost.binlog.level) == ("window", "window")
    assert level(lost) is Floor.SECOND


@pytest.mark.parametrize("identity", ALL)
def test_doublewrite_off_leaves_torn_pages_beyond_repair(identity: ServerIdentity) -> None:
    found = judge(identity, innodb_doublewrite="OFF", log_bin="OFF")
    assert found.torn_page.level == "at_risk"
    assert level(found) is Floor.THROWAWAY


def test_doublewrite_off_is_covered_by_a_file_system_that_writes_whole_pages() -> None:
    zfs = Storage(filesystem="zfs", record_size_bytes=16384)
    assert level(judge(MYSQL57, zfs, innodb_doublewrite="OFF")) is Floor.STRICT
    large = msgspec.structs.replace(zfs, record_size_bytes=131072)
    found = judge(MYSQL57, large, innodb_doublewrite="OFF")
    assert (found.torn_page.level, found.torn_page.text) == (
        "nothing_lost",
        "covered: zfs writes whole pages",
    )


def test_doublewrite_does_not_cover_the_pages_of_aria() -> None:
    said = "with one torn, the server may not start"
    for identity in ALL:
        assert (said in judge(identity).torn_page.text) is (identity.flavor == "mariadb")
    assert level(judge(MARIADB1011)) is Floor.STRICT, "no setting would mend it"
    assert said not in judge(MARIADB1011, innodb_doublewrite="OFF").torn_page.text, "no page is covered"
    assert said not in judge(MARIADB118, innodb_doublewrite="fast").torn_page.text
    zfs = Storage(filesystem="zfs", record_size_bytes=16384)
    assert said not in judge(MARIADB1011, zfs).torn_page.text
    assert said not in judge(MARIADB1011, Storage(in_memory=True)).torn_page.text
    assert said not in judge(server("mariadb", 10, 3, 39)).torn_page.text, "its own tables were of MyISAM"
    assert said in judge(server("mariadb", 10, 4, 0)).torn_page.text


@pytest.mark.parametrize(
    "storage",
    [
        Storage(filesystem="zfs", record_size_bytes=8192),
        Storage(filesystem="zfs", record_size_bytes=16384, visible=False),
        Storage(filesystem="zfs"),
        Storage(filesystem="zfs", record_size_bytes=24576),
    ],
)
def test_smaller_unseen_or_unknown_records_do_not_cover_pages(storage: Storage) -> None:
    assert judge(MYSQL57, storage, innodb_doublewrite="OFF").torn_page.level == "at_risk"


def test_records_must_be_as_large_as_the_pages_of_this_server() -> None:
    zfs = Storage(filesystem="zfs", record_size_bytes=16384)
    found = judge(MYSQL57, zfs, innodb_doublewrite="OFF", innodb_page_size=65536)
    assert found.torn_page.level == "at_risk"


def test_detect_and_recover_is_as_good_as_on() -> None:
    assert level(judge(MYSQL97, PROTECTED, innodb_doublewrite="DETECT_AND_RECOVER")) is Floor.STRICT
    assert level(judge(MYSQL97, innodb_doublewrite="DETECT_AND_RECOVER")) is level(judge(MYSQL97))


@pytest.mark.parametrize("method", ["O_DIRECT", "O_DIRECT_NO_FSYNC"])
@pytest.mark.parametrize("identity", [server("mysql", 8, 0, 20), MYSQL84, MYSQL97])
def test_unsynced_doublewrite_copies_are_torn_with_their_pages_behind_a_volatile_cache(
    identity: ServerIdentity, method: str
) -> None:
    found = judge(identity, innodb_flush_method=method)
    assert found.power_loss.level == "at_risk"
    assert found.power_loss.text.startswith("the server may not start again")
    assert found.os_crash.level == found.torn_page.level == "nothing_lost", "the disk has the whole copy"
    assert level(found) is Floor.THROWAWAY
    assert level(judge(identity, PROTECTED, innodb_flush_method=method)) is Floor.STRICT


def test_doublewrite_that_is_off_is_no_better_there() -> None:
    assert judge(MYSQL97, innodb_doublewrite="OFF").power_loss.level == "at_risk"


def test_where_copies_are_synced_or_pages_whole_a_volatile_cache_tears_nothing() -> None:
    before = server("mysql", 8, 0, 19)
    assert level(judge(before, innodb_flush_method="O_DIRECT")) is Floor.STRICT
    assert judge(before, innodb_flush_method="O_DIRECT_NO_FSYNC").power_loss.level == "at_risk"
    assert level(judge(MYSQL97, innodb_flush_method="fsync")) is Floor.STRICT
    assert level(judge(MARIADB1011, innodb_flush_method="O_DIRECT")) is Floor.STRICT
    whole = Storage(filesystem="zfs", volatile_cache=True, record_size_bytes=16384)
    assert judge(MYSQL97, whole).power_loss.level == "nothing_lost"


BTRFS = Storage(filesystem="btrfs", volatile_cache=False)
ON_BTRFS = "MariaDB may not start again on btrfs"


@pytest.mark.parametrize("flush", [1, 2])
def test_that_mariadbs_checkpoints_pass_unsynced_pages_is_said_of_btrfs_and_lowers_no_floor(
    flush: int,
) -> None:
    there = judge(MARIADB1011, BTRFS, flush=flush, innodb_flush_method="O_DIRECT")
    elsewhere = judge(MARIADB1011, PROTECTED, flush=flush, innodb_flush_method="O_DIRECT")
    assert level(there) is level(elsewhere)
    for failure in (there.os_crash, there.power_loss):
        assert f"; {ON_BTRFS}" in failure.text
        assert any(one.startswith("checkpoint-sync") for one in failure.because)
    assert there.os_crash.level == elsewhere.os_crash.level
    assert ON_BTRFS not in there.process_crash.text + elsewhere.os_crash.text
    assert ON_BTRFS not in judge(server("mysql", 8, 0, 19), BTRFS).os_crash.text


@pytest.mark.parametrize(
    ("identity", "settings"),
    [
        (MARIADB1011, {"innodb_flush_method": "fsync"}),
        (MARIADB1011, {"innodb_flush_method": "O_DSYNC"}),
        (MARIADB118, {"innodb_data_file_buffering": "ON"}),
        (MARIADB118, {"innodb_flush_method": "fsync"}),
    ],
)
def test_pages_that_are_in_the_page_cache_when_mariadbs_checkpoint_passes_them_are_at_risk(
    identity: ServerIdentity, settings: dict[str, Value]
) -> None:
    found = guarantees(settings, identity, PROTECTED, LAUNCH)
    assert found.os_crash.level == found.power_loss.level == "at_risk"
    assert found.process_crash.level == "nothing_lost"
    assert level(found) is Floor.THROWAWAY


def test_writes_that_end_on_the_disk_are_not() -> None:
    through: dict[str, Value] = {"innodb_data_file_buffering": "ON", "innodb_data_file_write_through": "ON"}
    for settings in ({}, through):
        assert guarantees(settings, MARIADB118, PROTECTED, LAUNCH).os_crash.level == "nothing_lost"
    assert judge(MYSQL57, PROTECTED, innodb_flush_method="fsync").os_crash.level == "nothing_lost"
    before, since = server("mariadb", 10, 7, 8), server("mariadb", 10, 8, 0)
    assert judge(before, PROTECTED, innodb_flush_method="fsync").os_crash.level == "nothing_lost"
    assert judge(since, PROTECTED, innodb_flush_method="fsync").os_crash.level == "at_risk"


def test_of_a_disk_that_nobody_saw_it_is_said_what_its_cache_would_do() -> None:
    found = judge(MYSQL97, Storage(filesystem="ext4"))
    assert level(found) is Floor.STRICT
    asks = "but not in a power cut behind a volatile disk cache"
    assert asks in found.torn_page.text
    for storage in (PROTECTED, Storage(in_memory=True)):
        assert asks not in judge(MYSQL97, storage).torn_page.text
    off = judge(MYSQL97, Storage(filesystem="ext4"), innodb_doublewrite="OFF")
    assert asks not in off.torn_page.text, "there are no copies"


def test_detect_only_finds_torn_pages_and_cannot_repair_them() -> None:
    found = judge(MYSQL97, innodb_doublewrite="DETECT_ONLY")
    assert found.torn_page.level == "at_risk"
    assert "not repaired" in found.torn_page.text


def test_doublewrite_fast_may_or_may_not_be_safe() -> None:
    found = judge(MARIADB118, innodb_doublewrite="fast")
    assert found.torn_page.level == found.os_crash.level == found.power_loss.level == "unknown"
    assert found.process_crash.level == "nothing_lost"
    assert level(found) is Floor.THROWAWAY


@pytest.mark.parametrize(
    "identity", [MYSQL57, server("mysql", 5, 7, 24), server("mysql", 8, 0, 13), server("mysql", 5, 6, 40)]
)
def test_o_direct_no_fsync_puts_the_data_directory_at_risk_before_its_fix(identity: ServerIdentity) -> None:
    found = judge(identity, innodb_flush_method="O_DIRECT_NO_FSYNC", log_bin="OFF")
    assert found.os_crash.level == found.power_loss.level == "at_risk"
    assert found.process_crash.level == "nothing_lost"


@pytest.mark.parametrize(
    ("identity", "more", "power_loss"),
    [
        (server("mysql", 8, 0, 13), {}, "at_risk"),
        (server("mysql", 8, 0, 36), {}, "at_risk"),
        (server("mysql", 8, 0, 36), {"innodb_flush_method": "fsync"}, "nothing_lost"),
        (server("mysql", 8, 0, 36), {"innodb_dedicated_server": "OFF"}, "nothing_lost"),
        (MYSQL84, {"innodb_flush_method": "fsync"}, "nothing_lost"),
    ],
)
def test_a_dedicated_server_chooses_its_flush_method(
    identity: ServerIdentity, more: dict[str, Value], power_loss: str
) -> None:
    settings: dict[str, Value] = {"log_bin": "OFF", "innodb_dedicated_server": "ON", **more}
    found = guarantees(settings, identity, DISK, LAUNCH)
    assert found.power_loss.level == power_loss


def test_since_mysql_8_4_a_dedicated_server_keeps_the_default_method() -> None:
    methods = [
        Configuration({"innodb_dedicated_server": "ON"}, identity).value("innodb_flush_method")
        for identity in (server("mysql", 8, 0, 36), MYSQL84)
    ]
    assert methods == ["O_DIRECT_NO_FSYNC", "O_DIRECT"]


@pytest.mark.parametrize(
    ("identity", "expected"), [(MARIADB1011, Floor.THROWAWAY), (MARIADB118, Floor.STRICT)]
)
def test_o_dsync_writes_pages_through_since_mariadb_11(identity: ServerIdentity, expected: Floor) -> None:
    assert level(judge(identity, PROTECTED, innodb_flush_method="O_DSYNC")) is expected


@pytest.mark.parametrize("identity", [server("mysql", 5, 7, 25), server("mysql", 8, 0, 14), MYSQL80, MYSQL97])
def test_o_direct_no_fsync_is_safe_on_one_device_after_its_fix(identity: ServerIdentity) -> None:
    assert level(judge(identity, PROTECTED, innodb_flush_method="O_DIRECT_NO_FSYNC")) is Floor.STRICT
    assert judge(identity, innodb_flush_method="O_DIRECT_NO_FSYNC").power_loss.level == "at_risk"


def test_o_direct_no_fsync_is_unknown_with_redo_and_data_behind_different_volatile_caches() -> None:
    apart = Storage(filesystem="ext4", redo_on_same_device=False, volatile_cache=True)
    assert judge(MYSQL80, apart, innodb_flush_method="O_DIRECT_NO_FSYNC").os_crash.level == "unknown"
    unseen = msgspec.structs.replace(apart, volatile_cache=None)
    assert judge(MYSQL80, unseen, innodb_flush_method="O_DIRECT_NO_FSYNC").os_crash.level == "unknown"
    honest = Storage(filesystem="ext4", redo_on_same_device=False, volatile_cache=False)
    assert judge(MYSQL80, honest, innodb_flush_method="O_DIRECT_NO_FSYNC").power_loss.level == "nothing_lost"


def test_o_direct_no_fsync_is_unknown_on_mariadb() -> None:
    assert judge(MARIADB1011, innodb_flush_method="O_DIRECT_NO_FSYNC").os_crash.level == "unknown"


@pytest.mark.parametrize("identity", [MYSQL57, MYSQL80, MARIADB1011])
@pytest.mark.parametrize("method", ["nosync", "littlesync"])
def test_methods_that_leave_out_syncs_risk_everything_but_a_killed_server(
    identity: ServerIdentity, method: str
) -> None:
    found = judge(identity, innodb_flush_method=method, log_bin="OFF")
    assert found.os_crash.level == found.power_loss.level == found.torn_page.level == "at_risk"
    assert found.process_crash.level == "nothing_lost"


def test_a_volatile_cache_matters_only_where_syncs_are_left_out() -> None:
    volatile = Storage(filesystem="ext4", volatile_cache=True)
    honest = Storage(filesystem="ext4", volatile_cache=False)
    assert judge(MARIADB1011, volatile) == judge(MARIADB1011, honest)


@pytest.mark.parametrize("method", ["fsync", "O_DSYNC", "O_DIRECT"])
def test_methods_that_sync_lose_nothing(method: str) -> None:
    assert level(judge(MYSQL57, innodb_flush_method=method)) is Floor.STRICT


def test_a_disabled_redo_log_risks_the_whole_instance_even_when_only_the_server_dies() -> None:
    found = judge(MYSQL97, launch=Launch(redo_enabled=False))
    assert found.process_crash.level == found.os_crash.level == "at_risk"
    assert level(found) is Floor.THROWAWAY
    assert level(judge(server("mysql", 8, 0, 20), PROTECTED, Launch(redo_enabled=False))) is Floor.STRICT
    assert level(judge(server("mysql", 8, 0, 21), PROTECTED, Launch(redo_enabled=False))) is Floor.THROWAWAY


@pytest.mark.parametrize("argument", ["--debug-no-sync", "--debug_no_sync=1", "--loose-debug-no-sync=ON"])
def test_debug_no_sync_is_seen_in_the_arguments(argument: str) -> None:
    found = judge(MARIADB1011, launch=Launch(arguments=("--no-defaults", argument)))
    assert found.power_loss.level == found.torn_page.level == "at_risk"
    assert level(found) is Floor.THROWAWAY


@pytest.mark.parametrize(
    "arguments",
    [
        ("--debug-no-sync=0",),
        ("--debug-no-sync=false",),
        ("--debug-no-sync=no",),
        ("--skip-debug-no-sync",),
        ("--debug-no-sync", "--debug-no-sync=OFF"),
        ("--debug-no-sync", "--skip-debug-no-sync"),
        ("--debug-no-sync", "--disable-debug-no-sync"),
    ],
)
def test_debug_no_sync_switched_off_is_no_risk(arguments: tuple[str, ...]) -> None:
    assert level(judge(MARIADB1011, launch=Launch(arguments=arguments))) is Floor.STRICT


def test_an_unknown_preloaded_library_makes_crashes_unknown() -> None:
    found = judge(MARIADB1011, launch=Launch(preload="/opt/lib/libsomething.so"))
    assert found.os_crash.level == found.power_loss.level == "unknown"
    assert level(found) is Floor.THROWAWAY


def test_libeatmydata_is_known_to_switch_syncs_off() -> None:
    preload = "/usr/lib/libjemalloc.so.2:/usr/lib/x86_64-linux-gnu/libeatmydata.so"
    found = judge(MARIADB1011, launch=Launch(preload=preload))
    assert found.os_crash.level == found.power_loss.level == found.torn_page.level == "at_risk"


def test_a_preloaded_allocator_changes_nothing() -> None:
    preload = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 libtcmalloc_minimal.so.4"
    assert level(judge(MARIADB1011, launch=Launch(preload=preload))) is Floor.STRICT


def test_data_in_memory_is_throwaway_whatever_the_settings_say() -> None:
    found = judge(MARIADB1011, Storage(filesystem="tmpfs", in_memory=True), innodb_flush_method="O_DIRECT")
    assert found.process_crash.level == "nothing_lost"
    assert found.os_crash.level == found.power_loss.level == "at_risk"
    assert level(found) is Floor.THROWAWAY
    relaxed = judge(MARIADB1011, Storage(in_memory=True), innodb_flush_log_at_trx_commit=2)
    assert relaxed.os_crash.text == "everything is lost: the data directory is in memory", "and nothing else"


def test_a_host_that_cannot_be_seen_is_a_remark_on_power_loss_and_no_fault_of_the_settings() -> None:
    found, seen = judge(MARIADB1011, Storage(visible=False)), judge(MARIADB1011)
    assert found.power_loss.text.startswith(f"{seen.power_loss.text}; flushlab cannot see the server's host")
    assert found.os_crash == seen.os_crash
    assert level(found) is level(seen) is Floor.STRICT


@pytest.mark.parametrize("algorithm", ["none", "strict_none"])
def test_pages_without_checksums_tear_unnoticed(algorithm: str) -> None:
    found = judge(MYSQL57, innodb_checksum_algorithm=algorithm)
    assert found.torn_page.level == "at_risk"
    assert "covered" not in found.torn_page.text, "doublewrite repairs only pages that are known to be torn"
    assert judge(MYSQL57, innodb_checksums="OFF").torn_page.level == "at_risk"


def test_redo_without_checksums_makes_recovery_unknown() -> None:
    assert judge(MYSQL80, innodb_log_checksums="OFF").os_crash.level == "unknown"


def test_semi_synchronous_replication_is_unknown_until_a_rule_exists() -> None:
    found = judge(MARIADB1011, log_bin="ON", sync_binlog=1, rpl_semi_sync_master_enabled="ON")
    assert found.replication.level == "unknown"
    assert level(found) is Floor.STRICT


def test_semi_synchronous_replication_is_known_by_both_of_its_names() -> None:
    assert judge(MYSQL84, rpl_semi_sync_source_enabled="ON").replication.level == "unknown"
    assert judge(MYSQL84).replication.level == "consistent"


OS_CRASH = "a crash of the operating system"


@pytest.mark.parametrize(
    ("settings", "cause", "ahead", "after"),
    [
        ({FLUSH: 0}, "even a killed server", "the binary log", "any crash"),
        ({FLUSH: 2}, OS_CRASH, "the binary log", "an OS crash"),
        ({FLUSH: 1, "sync_binlog": 0}, OS_CRASH, "a replica", "an OS crash"),
    ],
)
def test_what_replicas_are_after_a_crash_is_told_with_its_cause(
    settings: dict[str, Value], cause: str, ahead: str, after: str
) -> None:
    found = guarantees(settings, MYSQL80, DISK, LAUNCH).replication
    assert found.level == "may_diverge"
    assert found.text == f"{cause} may leave {ahead} ahead of this server: rebuild replicas after {after}"
    assert found.because


def test_replicas_may_diverge_where_synced_commits_are_at_risk() -> None:
    def replication(preload: str) -> str:
        launch = Launch(preload=preload)
        return judge(MARIADB1011, launch=launch, log_bin="ON", sync_binlog=1).replication.level

    assert replication("") == "consistent"
    assert replication("/usr/lib/libeatmydata.so") == "may_diverge"
    assert replication("/opt/lib/libsomething.so") == "unknown"


@pytest.mark.parametrize(
    ("engine", "kept", "said"),
    [
        ("InnoDB", True, ""),
        ("ROCKSDB", True, ""),
        ("MyISAM", False, "MyISAM, which has no redo log: they may be damaged or lose rows"),
        ("MEMORY", False, "MEMORY: their rows are gone"),
    ],
)
def test_tables_of_a_default_engine_without_a_log_are_at_risk_even_when_only_the_server_dies(
    engine: str, kept: bool, said: str
) -> None:
    found = judge(MARIADB1011, default_storage_engine=engine)
    for failure in (found.process_crash, found.os_crash, found.power_loss):
        assert (failure.level == "nothing_lost") is kept
        assert said in failure.text
    assert level(found) is (Floor.STRICT if kept else Floor.THROWAWAY)


def test_a_galera_node_gets_its_commits_back_and_a_whole_cluster_may_not() -> None:
    found = guarantees({**GALERA, FLUSH: 2}, MARIADB1011, DISK, LAUNCH)
    assert found.node_loss.level == "nothing_lost"
    assert found.cluster_loss.level == "unknown"
    assert "lost if all nodes fail at once" in found.cluster_loss.text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"wsrep_on": "ON"}, "at_risk"),
        ({**GALERA, "wsrep_provider": "none"}, "at_risk"),
        ({**GALERA, "wsrep_cluster_address": "gcomm://"}, "unknown"),
        ({**GALERA, "wsrep_cluster_address": "gcomm://10.0.0.1"}, "unknown"),
        (GALERA, "nothing_lost"),
        ({**GALERA, "wsrep_on": "OFF"}, "at_risk"),
        ({**GALERA, "wsrep_provider": "NONE"}, "at_risk"),
        ({**GALERA, "wsrep_cluster_address": "gcomm://10.0.0.1,10.0.0.2"}, "nothing_lost"),
        ({**GALERA, "wsrep_cluster_address": "gcomm://10.0.0.1, "}, "unknown"),
        ({**GALERA, "wsrep_cluster_address": "gcomm://10.0.0.1?gmcast.listen_addr=a,b"}, "unknown"),
    ],
)
def test_other_nodes_hold_commits_only_where_there_are_any(settings: dict[str, Value], expected: str) -> None:
    found = guarantees(settings, MARIADB1011, DISK, LAUNCH)
    assert found.node_loss.level == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({FLUSH: 2}, "no node has synced them"),
        ({FLUSH: 0}, "no node has synced them"),
        ({FLUSH: 1}, "commits are synced on each node"),
        ({FLUSH: 3}, "commits are synced on each node"),
        ({FLUSH: 1, "sync_binlog": 0}, "commits are synced on each node"),
        ({FLUSH: 1, "log_bin": "ON", "sync_binlog": 1}, "commits are synced on each node"),
        ({FLUSH: 1, "log_bin": "ON", "sync_binlog": 0}, "no binary log has them"),
    ],
)
def test_what_all_nodes_lose_at_once_depends_on_what_each_has_synced(
    settings: dict[str, Value], expected: str
) -> None:
    found = guarantees({**GALERA, **settings}, MARIADB1011, DISK, LAUNCH)
    assert expected in found.cluster_loss.text


@pytest.mark.parametrize("flush", [0, 1, 2])
def test_that_other_nodes_hold_commits_is_told_with_its_counts_and_lifts_no_floor(flush: int) -> None:
    cluster = msgspec.structs.replace(MARIADB1011, nodes=3)
    found, alone = judge(cluster, flush=flush), judge(MARIADB1011, flush=flush)
    assert found.node_loss.level == "nothing_lost"
    assert "measured: lost in 0 of" in describe(found)["node_loss"]
    assert found.cluster_loss.level == "unknown"
    assert level(found) is level(alone)
    assert alone.node_loss.level == "at_risk"


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("innodb_log_group_home_dir", "power_loss"),
        ("innodb_undo_directory", "os_crash"),
        ("innodb_data_home_dir", "os_crash"),
        ("innodb_doublewrite_dir", "torn_page"),
        ("log_bin_basename", "binlog"),
        ("datadir", "power_loss"),
        ("datadir", "os_crash"),
        ("log_bin_basename", "os_crash"),
    ],
)
def test_what_lies_in_memory_is_not_kept_by_a_disk_elsewhere(name: str, failure: str) -> None:
    places = ("/dev/shm/mysql", "/dev/shm", "/run/mysql", "/var/run/mysql/")
    for place, in_memory in (*((one, ()) for one in places), ("/srv/fast", (name,))):
        storage = Storage(in_memory_files=in_memory)
        found = guarantees({name: place, "log_bin": "ON"}, MYSQL80, storage, LAUNCH)
        lost = "unknown" if (name, failure) == ("log_bin_basename", "os_crash") else "at_risk"
        assert getattr(found, failure).level == lost
        assert level(found) is Floor.THROWAWAY
    assert level(guarantees({name: "/srv/fast", "log_bin": "ON"}, MYSQL80, Storage(), LAUNCH)) is Floor.STRICT


def test_a_binary_log_in_innodb_may_have_a_place_of_its_own() -> None:
    settings: dict[str, Value] = {"log_bin": "ON", "binlog_storage_engine": "innodb"}
    assert level(guarantees(settings, MARIADB123, PROTECTED, LAUNCH)) is Floor.STRICT
    moved = guarantees({**settings, "binlog_directory": "/dev/shm/logs"}, MARIADB123, PROTECTED, LAUNCH)
    assert moved.binlog.level == "at_risk" and level(moved) is Floor.THROWAWAY


def test_syncs_that_an_option_file_switches_off_are_seen() -> None:
    assert judge(MARIADB1011, debug_no_sync="ON").power_loss.level == "at_risk"


def test_a_single_server_has_no_other_node() -> None:
    assert judge(MARIADB1011).node_loss.level == "at_risk"


def test_what_loses_more_does_not_keep_the_references_guarantees() -> None:
    reference = judge(MYSQL80)
    assert keeps(reference, reference)
    assert not keeps(judge(MYSQL80, flush=2), reference)
    assert not keeps(judge(MYSQL80, innodb_doublewrite="OFF"), reference)


def test_every_loss_names_its_rule_and_source() -> None:
    found = judge(MARIADB1011, log_bin="ON", innodb_doublewrite="OFF", flush=0)
    assert found.torn_page.because[0].startswith("doublewrite: https://")
    assert {one.split(":")[0] for one in found.os_crash.because} == {"binlog-sync", "flush-policy"}


def test_rules_keep_their_names() -> None:
    """Reports give them as reasons, and the catalog's `durability` keys name them."""
    assert {rule.name for rule in RULES} == {
        "aria-pages",
        "binlog-sync",
        "checkpoint-sync",
        "checksums",
        "cluster",
        "doublewrite",
        "doublewrite-sync",
        "engine",
        "flush-method",
        "flush-policy",
        "launch",
        "locations",
        "redo-disabled",
        "storage",
    }


def test_all_losses_are_told_the_worst_first() -> None:
    text = describe(judge(MARIADB1011, innodb_flush_method="nosync", flush=2))["os_crash"]
    assert text.index("beyond repair") < text.index("about 1 s")


def test_describe_has_words_for_every_failure() -> None:
    words = describe(judge(MARIADB1011))
    assert set(words) == {*FAILURES, "binlog", "replication"}
    assert all(words.values())


def test_a_value_that_the_server_would_refuse_is_refused() -> None:
    with pytest.raises(ValueOutOfRange):
        judge(MYSQL80, flush=3)


# Properties. For each setting, pairs (safer, less safe); what is not comparable is not paired.

SAFER: dict[str, list[tuple[Value, Value]]] = {
    FLUSH: [(3, 1), (1, 2), (2, 0), (1, 0)],
    "innodb_flush_log_at_timeout": [(1, 2), (2, 30), (0, 2700), (1, 0), (0, 1)],
    "sync_binlog": [(1, 0), (1, 2), (1, 1000)],
    "innodb_doublewrite": [
        ("ON", "OFF"),
        ("ON", "fast"),
        ("DETECT_AND_RECOVER", "DETECT_ONLY"),
        ("DETECT_ONLY", "OFF"),
    ],
    "innodb_flush_method": [
        ("O_DIRECT", "O_DIRECT_NO_FSYNC"),
        ("fsync", "littlesync"),
        ("O_DIRECT_NO_FSYNC", "littlesync"),
        ("littlesync", "nosync"),
        ("O_DSYNC", "nosync"),
    ],
    "innodb_checksum_algorithm": [("crc32", "none"), ("strict_crc32", "strict_none")],
    "innodb_checksums": [("ON", "OFF")],
    "innodb_log_checksums": [("ON", "OFF")],
}
ON_MYSQL: dict[str, list[tuple[Value, Value]]] = {"innodb_flush_method": [("fsync", "O_DIRECT")]}
ON_MARIADB: dict[str, list[tuple[Value, Value]]] = {
    "innodb_flush_method": [("O_DIRECT", "fsync"), ("O_DIRECT", "O_DSYNC")]
}
STORAGES = (
    DISK,
    Storage(filesystem="tmpfs", in_memory=True),
    Storage(visible=False),
    Storage(filesystem="zfs", record_size_bytes=16384),
    Storage(filesystem="ext4", redo_on_same_device=False),
)
LAUNCHES = (
    LAUNCH,
    Launch(arguments=("--debug-no-sync",)),
    Launch(preload="libeatmydata.so"),
    Launch(preload="libother.so"),
    Launch(redo_enabled=False),
)


def values_of(name: str, identity: ServerIdentity) -> list[Value]:
    """Values worth drawing for a setting that this server has; empty if it lacks it."""
    here = load_catalog().here(name, identity.flavor, identity.version)
    if here is None:
        return []
    drawn = [value for pair in SAFER.get(name, [("ON", "OFF")]) for value in pair]
    return [value for value in drawn if here.same(value, value)]


@st.composite
def situations(draw: st.DrawFn) -> tuple[ServerIdentity, dict[str, Value], Storage, Launch]:
    identity = draw(st.sampled_from(ALL))
    if identity.flavor == "mariadb":
        identity = msgspec.structs.replace(identity, nodes=draw(st.sampled_from([1, 3])))
    settings: dict[str, Value] = {}
    for name in (*SAFER, "log_bin"):
        choices = values_of(name, identity)
        value = draw(st.sampled_from([None, *choices]))
        if value is not None:
            settings[name] = value
    return identity, settings, draw(st.sampled_from(STORAGES)), draw(st.sampled_from(LAUNCHES))


def assert_never_lower(safer: Guarantees, less: Guarantees) -> None:
    for failure in FAILURES:
        assert safer.under(failure).badness <= less.under(failure).badness, failure
    assert safer.binlog.badness <= less.binlog.badness
    if less.replication.level != "not_applicable":
        assert safer.replication.badness <= less.replication.badness
    assert level(safer).at_least(level(less))
    assert keeps(safer, less)


@hypothesis_settings(deadline=None)
@given(situation=situations(), data=st.data())
def test_making_a_setting_safer_never_lowers_a_guarantee(
    situation: tuple[ServerIdentity, dict[str, Value], Storage, Launch], data: st.DataObject
) -> None:
    identity, settings, storage, launch = situation
    comparable = [
        (name, *pair)
        for known in (SAFER, ON_MARIADB if identity.flavor == "mariadb" else ON_MYSQL)
        for name, pairs in known.items()
        for pair in pairs
        if all(value in values_of(name, identity) for value in pair)
    ]
    name, safer_value, value = data.draw(st.sampled_from(comparable))
    safer = guarantees({**settings, name: safer_value}, identity, storage, launch)
    less = guarantees({**settings, name: value}, identity, storage, launch)
    assert_never_lower(safer, less)


@hypothesis_settings(deadline=None)
@given(situation=situations())
def test_a_clean_launch_on_a_seen_disk_never_lowers_a_guarantee(
    situation: tuple[ServerIdentity, dict[str, Value], Storage, Launch],
) -> None:
    identity, settings, storage, launch = situation
    less = guarantees(settings, identity, storage, launch)
    assert_never_lower(guarantees(settings, identity, storage, LAUNCH), less)
    whole_pages = Storage(filesystem="zfs", record_size_bytes=16384)
    assert_never_lower(guarantees(settings, identity, whole_pages, launch), less)


@hypothesis_settings(deadline=None)
@given(situation=situations())
def test_what_meets_a_floor_meets_all_below_it(
    situation: tuple[ServerIdentity, dict[str, Value], Storage, Launch],
) -> None:
    identity, settings, storage, launch = situation
    met = [meets(guarantees(settings, identity, storage, launch), floor) for floor in Floor]
    assert met == sorted(met)
    assert met[-1]


@hypothesis_settings(deadline=None)
@given(situation=situations())
def test_another_node_never_lowers_a_guarantee_and_meets_no_other_floor(
    situation: tuple[ServerIdentity, dict[str, Value], Storage, Launch],
) -> None:
    identity, settings, storage, launch = situation
    one, three = (
        guarantees(settings, msgspec.structs.replace(identity, nodes=nodes), storage, launch)
        for nodes in (1, 3)
    )
    assert_never_lower(three, one)
    assert level(three) is level(one)


def test_the_share_of_power_cuts_of_a_cluster_is_that_of_random_moments() -> None:
    text = judge(msgspec.structs.replace(MARIADB1011, nodes=3), flush=1).cluster_loss.text
    assert "14 at random moments, so in at most 20 % of such" in text
    assert 0.19 < upper_bound(0, 14) < 0.20
