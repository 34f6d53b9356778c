from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flushlab.errors import BelowFloor
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings.candidates import Candidate, propose, raise_to_floor
from flushlab.settings.catalog import load_catalog
from flushlab.settings.durability import guarantees, meets
from flushlab.settings.floor import Floor
from tests.unit.settings.servers import (
    DISK,
    LAUNCH,
    MARIADB118,
    MARIADB1011,
    MYSQL57,
    MYSQL80,
    MYSQL97,
    PROTECTED,
)
from tests.unit.settings.test_durability import FLUSH, situations

CATALOG = load_catalog()
GIB = 1 << 30


def candidates(
    identity: ServerIdentity,
    base: dict[str, Value],
    floor: Floor,
    *,
    storage: Storage = DISK,
    memory_bytes: int = 8 * GIB,
    keep: tuple[str, ...] = (),
    steady_state: bool = True,
) -> tuple[Candidate, ...]:
    return propose(
        identity,
        base=base,
        floor=floor,
        storage=storage,
        launch=LAUNCH,
        memory_bytes=memory_bytes,
        keep=keep,
        steady_state=steady_state,
    )


def proposed(
    identity: ServerIdentity, base: dict[str, Value], floor: Floor, storage: Storage = DISK
) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for candidate in candidates(identity, base, floor, storage=storage):
        for name, value in candidate.settings.items():
            found.setdefault(name, []).append(value)
    return found


def test_strict_never_proposes_another_flush_policy() -> None:
    assert FLUSH not in proposed(MARIADB1011, {}, Floor.STRICT)


def test_second_proposes_policy_two_and_relaxed_also_zero() -> None:
    assert proposed(MARIADB1011, {}, Floor.SECOND)[FLUSH] == [2]
    assert proposed(MARIADB1011, {}, Floor.RELAXED)[FLUSH] == [2, 0]


def test_only_throwaway_touches_doublewrite_the_flush_timeout_and_the_binary_logs_sync() -> None:
    for floor in (Floor.STRICT, Floor.SECOND, Floor.RELAXED):
        found = proposed(MYSQL80, {}, floor)
        assert not {"innodb_doublewrite", "innodb_flush_log_at_timeout", "sync_binlog"} & found.keys()
    found = proposed(MYSQL80, {}, Floor.THROWAWAY)
    assert {"innodb_doublewrite", "innodb_flush_log_at_timeout", "sync_binlog"} <= found.keys()


def test_doublewrite_off_is_proposed_on_a_file_system_that_writes_whole_pages() -> None:
    zfs = Storage(filesystem="zfs", record_size_bytes=16384)
    found = candidates(MYSQL57, {}, Floor.STRICT, storage=zfs)
    assert {"innodb_doublewrite": "OFF"} in [dict(one.settings) for one in found]


def test_o_direct_no_fsync_is_proposed_only_after_its_fix() -> None:
    assert "O_DIRECT_NO_FSYNC" not in proposed(MYSQL57, {}, Floor.STRICT, PROTECTED)["innodb_flush_method"]
    assert "O_DIRECT_NO_FSYNC" in proposed(MYSQL80, {}, Floor.STRICT, PROTECTED)["innodb_flush_method"]


def test_behind_a_volatile_cache_nothing_is_proposed_that_leaves_doublewrite_copies_there() -> None:
    base: dict[str, Value] = {"innodb_flush_method": "fsync"}
    behind = proposed(MYSQL97, base, Floor.SECOND).get("innodb_flush_method", [])
    assert not {"O_DIRECT", "O_DIRECT_NO_FSYNC"} & set(behind)
    assert {"O_DIRECT", "O_DIRECT_NO_FSYNC"} & set(
        proposed(MYSQL97, base, Floor.SECOND, PROTECTED)["innodb_flush_method"]
    )


def test_a_base_that_leaves_its_doublewrite_copies_in_a_volatile_cache_is_lifted_to_fsync() -> None:
    changes, reasons = raise_to_floor({}, Floor.SECOND, identity=MYSQL97, storage=DISK, launch=LAUNCH)
    assert changes == {"innodb_flush_method": "fsync"}
    assert "doublewrite copies" in reasons[0]
    assert raise_to_floor({}, Floor.SECOND, identity=MYSQL97, storage=PROTECTED, launch=LAUNCH) == ({}, ())


@pytest.mark.parametrize(
    ("identity", "name", "given", "lifted"),
    [
        (MARIADB1011, "innodb_flush_method", "fsync", "O_DIRECT"),
        (MARIADB118, "innodb_data_file_buffering", "ON", "OFF"),
    ],
)
def test_mariadb_is_lifted_out_of_the_page_cache(
    identity: ServerIdentity, name: str, given: Value, lifted: Value
) -> None:
    found, reasons = raise_to_floor(
        {name: given}, Floor.SECOND, identity=identity, storage=PROTECTED, launch=LAUNCH
    )
    assert found == {name: lifted}
    assert "synced" in reasons[0] or "page cache" in reasons[0]
    assert name not in proposed(identity, {}, Floor.SECOND)


def test_group_commit_delays_are_proposed_only_with_a_binary_log() -> None:
    assert "binlog_commit_wait_count" not in proposed(MARIADB1011, {}, Floor.STRICT)
    with_log: dict[str, Value] = {"log_bin": "ON", "sync_binlog": 1}
    found = candidates(MARIADB1011, with_log, Floor.STRICT)
    assert {"binlog_commit_wait_count": 8, "binlog_commit_wait_usec": 500} in [
        dict(one.settings) for one in found
    ]


def test_a_base_at_policy_three_is_offered_policy_one() -> None:
    assert proposed(MARIADB1011, {FLUSH: 3}, Floor.STRICT)[FLUSH] == [1]
    assert proposed(MARIADB1011, {FLUSH: 0}, Floor.RELAXED)[FLUSH] == [2]
    assert proposed(MYSQL80, {FLUSH: 2}, Floor.RELAXED)[FLUSH] == [0]


def test_a_tiny_log_buffer_and_io_capacity_are_mended_at_strict() -> None:
    base: dict[str, Value] = {"innodb_log_buffer_size": 2 << 20, "innodb_io_capacity": 100}
    found = proposed(MARIADB1011, base, Floor.STRICT)
    assert 64 << 20 in found["innodb_log_buffer_size"]
    assert 1000 in found["innodb_io_capacity"]


def test_io_capacity_is_raised_after_its_maximum_and_lowered_alone() -> None:
    raised = [
        one.settings
        for one in candidates(MARIADB1011, {}, Floor.STRICT)
        if "innodb_io_capacity" in one.settings
    ]
    assert [list(one) for one in raised] == [["innodb_io_capacity_max", "innodb_io_capacity"]] * 2
    found = proposed(MYSQL97, {}, Floor.STRICT, PROTECTED)
    assert found["innodb_io_capacity"] == [200]
    assert "innodb_io_capacity_max" not in found


def test_without_steady_state_only_the_commit_path_is_left() -> None:
    found = candidates(MARIADB1011, {}, Floor.THROWAWAY, steady_state=False)
    assert found
    assert {one.group for one in found} <= {"commit", "binlog", "pool"}
    assert not any(one.needs_steady_state for one in found)


def test_the_pool_follows_the_machines_memory() -> None:
    sizes = proposed(MARIADB1011, {}, Floor.STRICT)["innodb_buffer_pool_size"]
    assert sizes == [2 * GIB, 4 * GIB]


def test_a_small_machine_gets_no_large_buffers() -> None:
    found = candidates(MARIADB1011, {}, Floor.STRICT, memory_bytes=128 << 20)
    names = {name for one in found for name in one.settings}
    assert not names & {"innodb_log_buffer_size", "innodb_buffer_pool_size"}


def test_data_in_memory_is_not_offered_other_ways_to_open_files() -> None:
    memory = Storage(filesystem="tmpfs", in_memory=True)
    found = candidates(MYSQL57, {}, Floor.THROWAWAY, storage=memory)
    assert not any("innodb_flush_method" in one.settings for one in found)


def test_four_booleans_take_the_place_of_the_flush_method_on_newer_mariadb() -> None:
    found = proposed(MARIADB118, {}, Floor.STRICT)
    assert "innodb_flush_method" not in found
    assert found["innodb_log_file_write_through"] == ["ON"]


def test_a_base_below_the_floor_is_refused_with_what_it_meets() -> None:
    with pytest.raises(BelowFloor, match="the base is below the floor strict; it meets only second"):
        candidates(MARIADB1011, {FLUSH: 2}, Floor.STRICT)


def test_kept_settings_stay_however_they_are_spelled() -> None:
    found = candidates(MARIADB1011, {}, Floor.STRICT, keep=("innodb-io-capacity-max", "innodb_flush_method"))
    names = {name for one in found for name in one.settings}
    assert not names & {"innodb_io_capacity", "innodb_io_capacity_max", "innodb_flush_method"}


@st.composite
def lifted(
    draw: st.DrawFn,
) -> tuple[ServerIdentity, dict[str, Value], Storage, Launch, Floor]:
    """A base that meets a floor, by itself or lifted."""
    identity, base, storage, launch = draw(situations())
    floor = draw(st.sampled_from(Floor))
    for name, value in (("innodb_log_buffer_size", 4 << 20), ("innodb_io_capacity", 150)):
        if draw(st.booleans()):
            base[name] = value
    try:
        changes, _ = raise_to_floor(base, floor, identity=identity, storage=storage, launch=launch)
    except BelowFloor:
        assume(False)
    return identity, {**base, **changes}, storage, launch, floor


@settings(deadline=None)
@given(case=lifted(), data=st.data(), memory_mib=st.integers(64, 1 << 17), steady_state=st.booleans())
def test_no_combination_of_what_is_proposed_is_below_the_floor(
    case: tuple[ServerIdentity, dict[str, Value], Storage, Launch, Floor],
    data: st.DataObject,
    memory_mib: int,
    steady_state: bool,
) -> None:
    identity, base, storage, launch, floor = case
    names = CATALOG.names(identity.flavor, identity.version)
    keep = data.draw(st.sets(st.sampled_from(names), max_size=3))
    found = propose(
        identity,
        base=base,
        floor=floor,
        storage=storage,
        launch=launch,
        memory_bytes=memory_mib << 20,
        keep=keep,
        steady_state=steady_state,
    )
    chosen = data.draw(st.lists(st.sampled_from(found), unique_by=id) if found else st.just([]))
    combined = dict(base)
    for candidate in chosen:
        combined.update(candidate.settings)
    assert meets(guarantees(combined, identity, storage, launch), floor)
    for candidate in found:
        assert dict(candidate.settings).items() - base.items()
        for name, value in candidate.settings.items():
            here = CATALOG.require(name, identity.flavor, identity.version)
            assert not here.entry.fixed
            assert name not in keep
            assert here.parse(value) == value


@pytest.mark.parametrize(
    ("base", "floor", "changes"),
    [
        ({FLUSH: 0}, Floor.STRICT, {FLUSH: 1}),
        ({FLUSH: 0}, Floor.SECOND, {FLUSH: 2}),
        ({FLUSH: 2}, Floor.SECOND, {}),
        ({"innodb_doublewrite": "OFF"}, Floor.RELAXED, {"innodb_doublewrite": "ON"}),
        ({"log_bin": "ON"}, Floor.STRICT, {"sync_binlog": 1}),
        ({FLUSH: 2, "innodb_flush_log_at_timeout": 30}, Floor.SECOND, None),
        ({"innodb_flush_method": "nosync"}, Floor.STRICT, {"innodb_flush_method": "O_DIRECT"}),
        ({FLUSH: 0, "innodb_doublewrite": "OFF"}, Floor.THROWAWAY, {}),
    ],
)
def test_a_base_is_lifted_with_the_fewest_changes(
    base: dict[str, Value], floor: Floor, changes: dict[str, Value] | None
) -> None:
    found, reasons = raise_to_floor(base, floor, identity=MARIADB1011, storage=DISK, launch=LAUNCH)
    assert len(reasons) == len(found)
    if changes is None:
        assert len(found) == 1  # the timeout or the policy: either is enough
    else:
        assert found == changes
    assert meets(guarantees({**base, **found}, MARIADB1011, DISK, LAUNCH), floor)


def test_nothing_lifts_data_in_memory_to_strict() -> None:
    memory = Storage(filesystem="tmpfs", in_memory=True)
    with pytest.raises(BelowFloor, match="is in memory"):
        raise_to_floor({}, Floor.STRICT, identity=MARIADB1011, storage=memory, launch=LAUNCH)


def test_lifting_leaves_contract_and_kept_settings_alone() -> None:
    with pytest.raises(BelowFloor, match="page checksums are off"):
        raise_to_floor(
            {"innodb_checksum_algorithm": "none"}, Floor.STRICT, identity=MYSQL57, storage=DISK, launch=LAUNCH
        )
    with pytest.raises(BelowFloor):
        raise_to_floor({FLUSH: 0}, Floor.STRICT, identity=MYSQL57, storage=DISK, launch=LAUNCH, keep=(FLUSH,))


@given(situation=situations(), floor=st.sampled_from(list(Floor)))
@settings(max_examples=30, deadline=None)
def test_a_single_server_is_never_offered_what_acts_on_clusters(
    situation: tuple[ServerIdentity, dict[str, Value], Storage, Launch], floor: Floor
) -> None:
    identity, base, _, _ = situation
    try:
        found = proposed(msgspec.structs.replace(identity, nodes=1), base, floor)
    except BelowFloor:
        return
    assert not [name for name in found if CATALOG.setting(name).cluster]


def test_a_cluster_is_offered_appliers_and_queues_but_nothing_of_the_contract() -> None:
    cluster = msgspec.structs.replace(MARIADB1011, nodes=3)
    found = proposed(cluster, {}, Floor.SECOND)
    assert found["wsrep_slave_threads"] == [4, 16]
    assert found["wsrep_provider_gcs_fc_limit"] == [128]
    assert not {"wsrep_sync_wait", "wsrep_provider_repl_commit_order", "binlog_format"} & found.keys()
