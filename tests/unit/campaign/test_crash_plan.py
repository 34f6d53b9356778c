"""What the plan of a crash campaign means for one arm."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.campaign.crash.experiment import positive_control_of, warnings_of
from flushlab.campaign.crash.plan import (
    CrashLoad,
    CrashPlan,
    asked_load,
    require_acked_inserts_alone,
    require_replicable,
)
from flushlab.errors import UsageError
from flushlab.record import CrashArm, ServerIdentity, Storage
from flushlab.spec.build import build
from flushlab.spec.kinds import CrashSpec
from flushlab.workload.parse import all_options
from tests.unit.builds import MARIADB


def test_the_model_of_a_clusters_control_is_that_of_all_nodes_at_once() -> None:
    identity = ServerIdentity(
        flavor="mariadb", version=MARIADB.version, version_text="10.11.19", build_id=MARIADB.id, nodes=3
    )
    nothing: Any = None
    target: Any = SimpleNamespace(identity=identity, nodes=3)
    spec = build(CrashSpec, {"failure": "process", "cluster": 3})
    plan = CrashPlan(target=target, watcher=nothing, load=CrashLoad(), spec=spec)
    disk, settings = Storage(filesystem="ext4"), {"innodb_flush_log_at_trx_commit": 0}
    base, control = (
        CrashArm(name="x", settings=settings, positive_control=control) for control in (False, True)
    )
    assert (plan.which_of(base), plan.which_of(control)) == ("one", "all")
    judged, must_lose = (plan.judged(arm, disk) for arm in (base, control))
    assert judged.guarantee.startswith("nothing is lost while one node survives")
    assert "if all nodes fail at once" in must_lose.guarantee
    cascade = CrashPlan(
        target=target,
        watcher=nothing,
        load=CrashLoad(),
        spec=build(CrashSpec, {"failure": "process", "cluster": 3, "nodes": "cascade"}),
    )
    assert cascade.judged(base, disk).guarantee == must_lose.guarantee
    assert judged.floor == must_lose.floor == "relaxed"
    assert plan.judged(control, None) == control
    assert plan.judged(control, Storage(visible=False)).floor == "relaxed, if the disk honors flushes"


def load(
    name: str = "acked_inserts", beside: str | None = None, *, rows: int = 1, **options: Any
) -> CrashLoad:
    spec = build(CrashSpec, {"workload": name, "background": beside, "rows": rows, **options}, all_options())
    return asked_load(spec, Path())


def test_a_command_has_no_acks_and_what_runs_beside_the_load_has() -> None:
    alone, beside = load("command: true"), load(background="command: true")
    assert (alone.has_acks, alone.runs_once) == (False, True)
    assert (beside.has_acks, beside.runs_once, beside.beside_name) == (True, True, "command: true")
    assert (load().has_acks, load().runs_once, load().name) == (True, False, "acked_inserts")
    assert load("oltp_write_only", "command: true").beside_name == "command: true"


@pytest.mark.parametrize(
    ("asked", "complaint", "hint"),
    [
        ({"background": "upsert"}, "--background does not take upsert", "it takes 'command: …'"),
        (
            {"background": "acked_inserts"},
            "--background acked_inserts is the load itself",
            "it takes 'command: …'",
        ),
        ({"background": "oltp"}, "there is no workload 'oltp'", "it takes 'command: …' or sql:FILE"),
        (
            {"name": "command: true", "background": "command: true"},
            "and command: true has none",
            "--background takes",
        ),
        ({"name": "command: true", "rows": 3}, "--rows 3 needs an acknowledgement table", "remove it"),
        ({"name": "command: true", "reset": "none"}, "--reset none is for measuring", "remove it"),
        ({"name": "command: true", "warm_up_runs": 2}, "--warm-up-runs is for measuring", "remove it"),
        ({"name": "command: ./absent.sh"}, "absent.sh", "the workload is"),
        ({"name": "sql:absent.sql"}, "absent.sql cannot be read", "sql: takes a file"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], complaint: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(**asked)
    assert complaint in refused.value.message
    assert hint in (refused.value.hint or "")


def test_a_cluster_is_judged_by_acked_inserts_alone() -> None:
    require_acked_inserts_alone(load("upsert"))
    for one in (load("command: true"), load(background="command: true")):
        with pytest.raises(UsageError, match="is for one server, not for a cluster"):
            require_acked_inserts_alone(one)


def test_a_replica_needs_one_server_acked_inserts_alone_and_a_run_that_is_recorded_now() -> None:
    require_replicable(load(), cluster=False, replay=False)
    with pytest.raises(UsageError, match="not for a cluster"):
        require_replicable(load(), cluster=True, replay=False)
    with pytest.raises(UsageError, match="a run that is recorded now"):
        require_replicable(load(), cluster=False, replay=True)
    for one in (load("upsert"), load("command: true"), load(background="command: true")):
        with pytest.raises(UsageError, match="needs acked_inserts alone"):
            require_replicable(one, cluster=False, replay=False)


def test_without_acks_the_control_damages_tables_where_something_can() -> None:
    control = positive_control_of({}, "power", cluster=False, acks=False)
    assert control is not None
    assert (control.settings, control.checks_rows) == ({"innodb_doublewrite": "OFF"}, False)
    assert positive_control_of({}, "os", cluster=False, acks=False) is None
    assert positive_control_of({}, "os", cluster=False, acks=True) is not None


def test_it_is_said_that_no_commits_are_known() -> None:
    (caveat,) = warnings_of([CrashArm(name="base", settings={}, checks_rows=False)])
    assert caveat.slug == "no-acks"
    assert warnings_of([CrashArm(name="base", settings={})]) == []
