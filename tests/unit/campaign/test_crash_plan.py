"""What the plan of a crash campaign means for one arm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flushlab.campaign.crash.load import CrashLoad
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.record import CrashArm, Failure, ServerIdentity, Storage
from tests.unit.builds import MARIADB


def test_the_model_of_a_clusters_control_is_that_of_all_nodes_at_once() -> None:
    identity = ServerIdentity(
        flavor="mariadb", version=MARIADB.version, version_text="10.11.19", build_id=MARIADB.id, nodes=3
    )
    nothing: Any = None
    target: Any = SimpleNamespace(identity=identity)
    plan = CrashPlan(
        target=target,
        watcher=nothing,
        load=CrashLoad(),
        kind="process",
        which="one",
        failure=Failure(kind="process"),
        images=1,
        seconds=1.0,
        threads=4,
        rows=1,
        fs="ext4",
        disk_bytes=1 << 30,
        emulate=None,
        seed=1,
        keep=nothing,
    )
    disk, settings = Storage(filesystem="ext4"), {"innodb_flush_log_at_trx_commit": 0}
    base, control = (CrashArm(name="x", settings=settings, control=control) for control in (False, True))
    assert (plan.which_of(base), plan.which_of(control)) == ("one", "all")
    judged, must_lose = (plan.judged(arm, disk) for arm in (base, control))
    assert judged.guarantee.startswith("nothing is lost while one node survives")
    assert "if all nodes fail at once" in must_lose.guarantee
    assert judged.floor == must_lose.floor == "relaxed"
    assert plan.judged(control, None) == control
    assert plan.judged(control, Storage(visible=False)).floor == "relaxed, if the disk is honest"
