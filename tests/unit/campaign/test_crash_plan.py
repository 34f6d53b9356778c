"""What the plan of a crash campaign means for one arm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flushlab.campaign.crash.plan import CrashLoad, CrashPlan
from flushlab.record import CrashArm, ServerIdentity, Storage
from flushlab.spec.build import build
from flushlab.spec.kinds import CrashSpec
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
