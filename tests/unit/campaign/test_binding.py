from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import flushlab
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.binding import BoundPlan, ServerHere, base_settings, bind
from flushlab.campaign.pool.room import Volumes
from flushlab.campaign.series import scaled
from flushlab.datadir import DataRoot, Volume
from flushlab.errors import UsageError
from flushlab.plan.plan import ArmPlan, Plan, Requirement
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.spec.parts import WorkloadSpec

MARIADB = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB")
MYSQL57 = ServerIdentity(flavor="mysql", version=(5, 7, 22), version_text="5.7.22")
VALUES: Mapping[str, Value] = {
    "innodb_flush_log_at_trx_commit": 1,
    "sync_binlog": 0,
    "log_bin": "OFF",
    "max_error_count": "OFF",
}


def change(**options: Value) -> WorkloadSpec:
    """A change of the workload's options."""
    return WorkloadSpec(name="", options=options)


def plan(*arms: ArmPlan, **changes: Any) -> Plan:
    facts: dict[str, Any] = {
        "name": "test",
        "title": "a test",
        "workload": WorkloadSpec(name="oltp_update_non_index", options={"threads": 4, "table_size": 1000}),
        "base": {"innodb_flush_log_at_trx_commit": 2, "innodb_doublewrite": "ON"},
        "arms": tuple(msgspec.structs.replace(arm, place=f"arm.{number}") for number, arm in enumerate(arms)),
        "path": "p.toml",
        **changes,
    }
    return Plan(**facts)


def root(tmp_path: Path, **storage: Any) -> DataRoot:
    facts = {"filesystem": "ext4", "volatile_cache": False, **storage}
    return DataRoot(path=tmp_path, storage=Storage(**facts))


def volumes(tmp_path: Path, **storage: Any) -> Volumes:
    return Volumes(Volume(root(tmp_path, **storage), None))


def server(
    tmp_path: Path,
    *,
    identity: ServerIdentity = MARIADB,
    values: Mapping[str, Value] = VALUES,
    **storage: Any,
) -> ServerHere:
    return ServerHere(
        identity=identity,
        values=values,
        launch=Launch(),
        storage=root(tmp_path, **storage).storage,
        folder=tmp_path,
    )


def bound(
    a_plan: Plan,
    tmp_path: Path,
    *,
    visible: bool = True,
    identity: ServerIdentity = MARIADB,
    values: Mapping[str, Value] = VALUES,
    chosen: tuple[str, ...] | None = None,
) -> BoundPlan:
    here = server(tmp_path, identity=identity, values=values, visible=visible)
    return bind(a_plan, here, volumes(tmp_path, visible=visible), chosen)


def only(a_plan: Plan, tmp_path: Path, **more: Any) -> BoundArm:
    (arm,) = bound(a_plan, tmp_path, **more).arms
    return arm


def slugs(result: BoundPlan) -> list[str]:
    return [note.slug for note in result.notes]


def test_settings_are_typed_and_the_difference_from_the_base_is_known(tmp_path: Path) -> None:
    arm = only(plan(ArmPlan(name="A", settings={"innodb-log-file-size": "64M"})), tmp_path)
    assert arm.outcome == "measured"
    assert arm.changes == {"innodb_log_file_size": 64 << 20}
    assert arm.settings == {
        "innodb_flush_log_at_trx_commit": 2,
        "innodb_doublewrite": "ON",
        "innodb_log_file_size": 64 << 20,
    }


def test_a_setting_that_goes_back_to_its_default_is_a_change(tmp_path: Path) -> None:
    arm = only(plan(ArmPlan(name="A", defaults=("innodb_flush_log_at_trx_commit",))), tmp_path)
    assert arm.changes == {"innodb_flush_log_at_trx_commit": None}
    assert arm.settings == {"innodb_doublewrite": "ON"}
    everything = only(plan(ArmPlan(name="A", defaults=("*",), settings={"sync_binlog": 1})), tmp_path)
    assert everything.settings == {"sync_binlog": 1}


def test_a_disk_that_cannot_be_seen_is_not_the_fault_of_the_settings(tmp_path: Path) -> None:
    safe = {"innodb_flush_log_at_trx_commit": 1}
    arm = only(plan(ArmPlan(name="A", settings=safe)), tmp_path, visible=False)
    assert arm.floor == "strict"
    assert "whether its disk honors flushes is unknown" in arm.guarantees["power_loss"]
    assert (
        only(plan(ArmPlan(name="A", settings={"sync_binlog": 1})), tmp_path, visible=False).floor == "second"
    )


def test_an_arm_builds_on_an_earlier_one(tmp_path: Path) -> None:
    steps = (
        ArmPlan(name="1", settings={"sync_binlog": 1}, workload=change(threads=8)),
        ArmPlan(name="2", on="1", settings={"innodb_doublewrite": "OFF"}),
    )
    second = bound(plan(*steps), tmp_path).arms[1]
    assert second.changes == {"sync_binlog": 1, "innodb_doublewrite": "OFF"}
    assert second.workload_changes == {"threads": 8}


def test_a_setting_that_the_version_lacks_is_an_outcome_with_its_reason(tmp_path: Path) -> None:
    arm = only(plan(ArmPlan(name="A", settings={"innodb_redo_log_capacity": "1G"})), tmp_path)
    assert arm.outcome == "not_in_version"
    assert "mariadb@10.11.19 has no innodb_redo_log_capacity (it exists in mysql since 8.0.30" in arm.reason
    assert arm.floor == ""
    assert arm.changes == {"innodb_redo_log_capacity": "1G"}


def test_a_value_that_the_version_lacks_is_one_too(tmp_path: Path) -> None:
    arm = only(plan(ArmPlan(name="A", settings={"innodb_flush_log_at_trx_commit": 3})), tmp_path,
               identity=MYSQL57)  # fmt: skip
    assert arm.outcome == "not_in_version"
    assert "innodb_flush_log_at_trx_commit" in arm.reason


def test_what_may_stand_in_its_place_is_tried_in_order(tmp_path: Path) -> None:
    arm = ArmPlan(
        name="A",
        settings={"innodb_redo_log_capacity": "1G"},
        instead=({"innodb_nothing_of_that_kind": 1}, {"innodb_log_file_size": "512M"}),
    )
    result = bound(plan(arm), tmp_path)
    assert result.arms[0].outcome == "measured"
    assert result.arms[0].changes == {"innodb_log_file_size": 512 << 20}
    assert slugs(result) == ["instead"]


def test_a_later_step_goes_on_without_what_this_version_lacks(tmp_path: Path) -> None:
    steps = (
        ArmPlan(name="1", settings={"innodb_redo_log_capacity": "1G"}),
        ArmPlan(name="2", on="1", settings={"sync_binlog": 1}),
    )
    result = bound(plan(*steps), tmp_path)
    assert [arm.outcome for arm in result.arms] == ["not_in_version", "measured"]
    assert result.arms[1].changes == {"sync_binlog": 1}
    assert "2 is measured without" in result.notes[0].text


def test_a_base_setting_that_the_version_lacks_is_left_out_and_said(tmp_path: Path) -> None:
    base = {"innodb_redo_log_capacity": "1G", "sync_binlog": 1, "persist_binlog_to_redo": "ON"}
    result = bound(plan(base=base), tmp_path)
    assert result.base.settings == {"sync_binlog": 1}
    assert slugs(result) == ["base-left-out", "base-left-out"]
    settings, notes = base_settings(plan(base=base), MARIADB)
    assert settings == {"sync_binlog": 1}
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("settings", "says", "hint"),
    [
        ({"innodb_flush_log_at_trx_commit": 9}, "is above", "explains it"),
        ({"innodb_flush_log_at_trx_comit": 2}, "is not a setting of", "innodb_flush_log_at_trx_commit?"),
        ({"sync_binlgo": 1}, "is not a setting of", "did you mean sync_binlog?"),
    ],
)
def test_a_mistake_in_the_base_or_an_arm_stops_with_its_place(
    settings: dict[str, Value], says: str, hint: str, tmp_path: Path
) -> None:
    name = next(iter(settings))
    with pytest.raises(UsageError, match=f"p.toml:7:3: .*{says}") as caught:
        base_settings(plan(base=settings, positions={f"base.settings.{name}": (7, 3)}), MARIADB)
    assert hint in str(caught.value.hint)
    arm = ArmPlan(name="A", settings=settings)
    with pytest.raises(UsageError, match=f"p.toml:12:3: .*{says}"):
        bound(plan(arm, positions={f"arm.0.settings.{name}": (12, 3)}), tmp_path)


def test_a_value_that_only_other_versions_take_is_not_in_this_one(tmp_path: Path) -> None:
    arm = only(plan(ArmPlan(name="A", settings={"innodb_doublewrite": "DETECT_ONLY"})), tmp_path)
    assert arm.outcome == "not_in_version"


def test_a_setting_that_only_the_server_knows_is_passed_on(tmp_path: Path) -> None:
    arm = only(plan(ArmPlan(name="A", settings={"max_error_count": "ON"})), tmp_path)
    assert arm.changes == {"max_error_count": "ON"}


def test_a_setting_that_places_the_server_is_refused(tmp_path: Path) -> None:
    arm = ArmPlan(name="A", settings={"datadir": "/tmp"})
    with pytest.raises(UsageError, match=r"p.toml:12:3: .*datadir"):
        bound(plan(arm, positions={"arm.0.settings.datadir": (12, 3)}), tmp_path)


def test_contract_settings_are_labelled(tmp_path: Path) -> None:
    arm = only(plan(ArmPlan(name="A", settings={"log_bin": "ON", "sync_binlog": 1})), tmp_path)
    assert arm.fixed == ("log_bin",)


def test_floor_and_guarantees_are_those_of_the_arm(tmp_path: Path) -> None:
    arms = (
        ArmPlan(name="safe", settings={"innodb_flush_log_at_trx_commit": 1}),
        ArmPlan(name="unsafe", settings={"innodb_doublewrite": "OFF"}),
    )
    result = bound(plan(*arms), tmp_path)
    assert [result.base.floor, *(arm.floor for arm in result.arms)] == ["second", "strict", "throwaway"]
    assert "torn" in result.arms[1].guarantees["torn_page"]


def test_scale_multiplies_the_tables_of_the_base_and_of_arms(tmp_path: Path) -> None:
    arms = (
        ArmPlan(name="same"),
        ArmPlan(name="larger", workload=change(table_size=4000)),
        ArmPlan(name="on it", on="larger", workload=change(threads=2)),
    )
    result = bound(scaled(plan(*arms), 0.1), tmp_path)
    sizes = [result.base, *result.arms]
    assert [arm.workload.options["table_size"] for arm in sizes] == [100, 100, 400, 400]
    assert result.arms[0].workload_changes == {}


def test_scale_takes_the_workloads_default_where_the_plan_says_nothing(tmp_path: Path) -> None:
    spec = WorkloadSpec(name="oltp_update_non_index")
    assert bound(scaled(plan(workload=spec), 2), tmp_path).base.workload.options["table_size"] == 20_000


def test_scale_needs_a_size() -> None:
    with pytest.raises(UsageError, match="--scale"):
        scaled(plan(workload=WorkloadSpec(name="command: true")), 2)


def test_an_option_that_the_workload_does_not_take_stops_with_its_place(tmp_path: Path) -> None:
    arm = ArmPlan(name="A", workload=change(thread=4))
    with pytest.raises(UsageError, match=r"p.toml:7:1: .*thread"):
        bound(plan(arm, positions={"arm.0.workload.thread": (7, 1)}), tmp_path)


def test_a_place_that_does_not_exist_skips_its_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSHLAB_TEST_ROOT", raising=False)
    arms = (
        ArmPlan(name="gone", data_root=str(tmp_path / "nowhere")),
        ArmPlan(name="unset", data_root="${FLUSHLAB_TEST_ROOT}"),
        ArmPlan(name="on it", on="gone", settings={"innodb_doublewrite": "OFF"}),
        ArmPlan(name="here", settings={"sync_binlog": 1}),
    )
    result = bound(plan(*arms), tmp_path)
    assert [arm.outcome for arm in result.arms] == ["skipped", "skipped", "skipped", "measured"]
    assert "there is no folder" in result.arms[0].reason
    assert "FLUSHLAB_TEST_ROOT" in result.arms[1].reason
    assert "nowhere" in result.arms[2].reason, "what builds on an arm stands in its place"


def test_a_place_of_another_kind_skips_its_arm(tmp_path: Path) -> None:
    zfs, records = ArmPlan(name="zfs", file_system="zfs"), ArmPlan(name="records", record_size=16384)
    result = bound(plan(zfs, records), tmp_path)
    assert result.arms[0].reason == f"{tmp_path} is on ext4, not on zfs"
    assert result.arms[1].reason == f"{tmp_path} has records of unknown size, not of 16384"


def test_a_place_that_fits_is_used(tmp_path: Path) -> None:
    on_fuse: dict[str, Any] = {"filesystem": "fuse", "record_size_bytes": 16384}
    here, fuse = server(tmp_path, **on_fuse), volumes(tmp_path, **on_fuse)
    arm = ArmPlan(name="J", file_system="zfs", record_size=16384)
    assert bind(plan(arm), here, fuse).arms[0].outcome == "measured"


def test_data_in_memory_are_throwaway_for_the_arm_that_lies_there(tmp_path: Path) -> None:
    arm = only(plan(ArmPlan(name="ram", data_root="/dev/shm")), tmp_path)
    assert (arm.outcome, arm.floor, arm.composable) == ("measured", "throwaway", False)


def test_a_missing_requirement_is_named_and_keeps_all_arms_out(tmp_path: Path) -> None:
    arm = ArmPlan(name="A", settings={"sync_binlog": 1})
    absent = Requirement(setting="binlog_parallel_flush", why="it is what is measured")
    unmet = Requirement(setting="log_bin", values=("ON",), why="there must be something to flush")
    forbidden = Requirement(setting="sync_binlog", not_values=(0, 1))
    result = only(plan(arm, requires=(absent, unmet)), tmp_path)
    assert result.outcome == "not_in_version"
    assert result.reason == (
        "the plan needs binlog_parallel_flush, which mariadb@10.11.19 does not have (it is what is measured)"
        "; and log_bin = ON, which is OFF here (there must be something to flush)"
    )
    result = only(plan(arm, requires=(unmet,)), tmp_path)
    assert result.outcome == "skipped"
    assert result.reason == (
        "the plan needs log_bin = ON, which is OFF here (there must be something to flush)"
    )
    result = only(plan(arm, requires=(forbidden,)), tmp_path)
    assert "sync_binlog other than 0 and 1, which is 0 here" in result.reason


def test_a_requirement_that_the_base_meets_is_met(tmp_path: Path) -> None:
    arm = ArmPlan(name="A", settings={"sync_binlog": 1})
    requires = (Requirement(setting="sync_binlog", values=(0,), not_values=(1,)),)
    assert only(plan(arm, requires=requires), tmp_path).outcome == "measured"


def test_alternating_arms_must_be_dynamic_and_in_one_place(tmp_path: Path) -> None:
    arms = (
        ArmPlan(name="dynamic", settings={"innodb_flush_log_at_trx_commit": 1}),
        ArmPlan(name="static", settings={"innodb_doublewrite": "OFF"}),
        ArmPlan(name="elsewhere", data_root="/dev/shm"),
        ArmPlan(name="other load", workload=change(threads=2)),
    )
    result = bound(plan(*arms, alternate=True), tmp_path)
    assert [arm.outcome for arm in result.arms] == ["measured", "skipped", "skipped", "skipped"]
    assert "while the server runs" in result.arms[1].reason


CLUSTER = msgspec.structs.replace(MARIADB, nodes=3)
APPLIERS = ArmPlan(name="appliers", settings={"wsrep_slave_threads": 4, "gcs.fc_limit": 64})


def test_what_acts_on_clusters_alone_is_no_arm_of_a_single_server(tmp_path: Path) -> None:
    arm = only(plan(APPLIERS), tmp_path)
    assert (arm.outcome, arm.reason) == (
        "not_in_version",
        "wsrep_slave_threads acts on a cluster only: add --cluster 3",
    )
    assert slugs(bound(plan(base={"wsrep_slave_threads": 4}), tmp_path)) == ["base-left-out"]
    there = only(plan(APPLIERS), tmp_path, identity=CLUSTER)
    assert there.changes == {"wsrep_slave_threads": 4, "wsrep_provider_gcs_fc_limit": 64}


def test_what_galera_cannot_do_without_is_no_arm_of_a_cluster(tmp_path: Path) -> None:
    mixed = ArmPlan(name="mixed", settings={"binlog_format": "MIXED"})
    assert only(plan(mixed), tmp_path).outcome == "measured"
    arm = only(plan(mixed), tmp_path, identity=CLUSTER)
    assert (arm.outcome, arm.reason) == (
        "not_in_version",
        "binlog_format was set to MIXED, and Galera needs ROW",
    )
    assert only(
        plan(ArmPlan(name="row", settings={"binlog_format": "ROW"})), tmp_path, identity=CLUSTER
    ).changes


def test_arms_that_cannot_alternate_on_a_server_that_goes_on_running_are_left_out(tmp_path: Path) -> None:
    arms = (
        ArmPlan(name="dynamic", settings={"innodb_flush_log_at_trx_commit": 1}),
        ArmPlan(name="as it is", settings={"log_bin": "OFF"}),
        ArmPlan(name="static", settings={"innodb_log_buffer_size": "64M"}),
        ArmPlan(name="more threads", workload=change(threads=8)),
        ArmPlan(name="other tables", workload=change(table_size=500)),
        ArmPlan(name="elsewhere", data_root=str(tmp_path / "elsewhere")),
    )
    has = {**VALUES, "innodb_doublewrite": "ON"}
    here = dataclasses.replace(server(tmp_path, values=has), has=has, shares=True)
    found = bind(plan(*arms), here, volumes(tmp_path)).arms
    assert [arm.name for arm in found if arm.outcome == "measured"] == ["dynamic", "as it is", "more threads"]
    why = {arm.name: arm.reason for arm in found if arm.outcome == "skipped"}
    assert why["static"].startswith("innodb_log_buffer_size needs a restart")
    assert "other tables than the base" in why["other tables"]
    assert "cannot move to another place" in why["elsewhere"]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("workload", "says", "hint"),
    [
        ('name = "oltp_update"', r"m\.toml:5:\d+: there is no workload 'oltp_update'", "oltp_update_index"),
        (
            'name = "txn:missing.toml"',
            r"m\.toml:5:\d+: .*missing\.toml cannot be read",
            "file of transactions",
        ),
        ('name = "upsert"\nthreads = "many"', r"m\.toml:6:\d+: threads is 'many'", "it takes 1 to 4096"),
    ],
)
def test_a_mistake_of_the_workload_is_told_with_its_place(
    workload: str, says: str, hint: str, tmp_path: Path, decided: list[Any]
) -> None:
    file = tmp_path / "m.toml"
    arm = '[[arm]]\nname = "a"\nsettings = { sync_binlog = 0 }\n'
    file.write_text(f'title = "x"\n\n[workload]\n\n{workload}\n{arm}')
    with pytest.raises(UsageError, match=says) as caught:
        flushlab.series(file)
    assert hint in (caught.value.hint or "")


def test_an_arm_may_build_on_one_that_was_not_asked_for(tmp_path: Path) -> None:
    arms = (
        ArmPlan(name="A", settings={"innodb_log_file_size": "64M"}),
        ArmPlan(name="B", on="A", settings={"sync_binlog": 1}),
        ArmPlan(name="C", settings={"innodb_redo_log_capacity": "1G"}, instead=({"sync_binlog": 7},)),
    )
    found = bound(plan(*arms), tmp_path, chosen=("B",))
    assert [arm.name for arm in found.arms] == ["B"]
    assert found.arms[0].changes == {"innodb_log_file_size": 64 << 20, "sync_binlog": 1}
    assert "instead" not in slugs(found), "a note on an arm that does not run"
