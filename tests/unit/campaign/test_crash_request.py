"""What a crash campaign is asked for and makes no sense is refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.campaign.crash.crash import crash
from flushlab.campaign.crash.experiment import require_sensible, which_nodes
from flushlab.errors import UsageError
from flushlab.spec.build import build
from flushlab.spec.kinds import CrashSpec


@pytest.mark.parametrize(
    ("asked", "complaint", "hint"),
    [
        ({"dropped_flushes": -1}, "--dropped-flushes -1 is out of range", "it takes 1 to 1000000"),
        ({"dropped_flushes": 1 << 64}, "--dropped-flushes 18446744073709551616 is", "it takes 1 to 1000000"),
        ({"disk_size": 10_000_000}, "--disk-size 10000000 is out of range", "it takes 256 to 65536"),
        ({"crashes": 100_000_000}, "--crashes 100000000 is out of range", "it takes 1 to 100000"),
        ({"duration": 0.05}, "--duration 0.05 is out of range", "it takes 0.2 to 600"),
        ({"duration": 700.0}, "--duration 700 is out of range", "it takes 0.2 to 600"),
        ({"seed": -1}, "--seed -1 is out of range", "it takes 0 to 999999999"),
        ({"seed": 1 << 60}, "--seed 1152921504606846976 is out of range", "it takes 0 to 999999999"),
        ({"fs": "zfs"}, "--fs: 'zfs' is not one of ext4, xfs, btrfs", ""),
    ],
)
def test_what_is_out_of_range_is_refused_as_it_was_typed(
    asked: dict[str, Any], complaint: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        crash(**asked)
    assert complaint in refused.value.message
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"fs": "xfs"}, "--fs needs a disk of its own"),
        ({"tear": 0}, "--tear needs a disk of its own"),
        ({"dropped_flushes": 3}, "--dropped-flushes needs a disk of its own"),
        ({"disk_size": 2048}, "--disk-size needs a disk of its own"),
        ({"disk": "gp3"}, "--disk needs a disk of its own"),
        ({"save_recording": "/records"}, "--save-recording needs a disk of its own"),
    ],
)
def test_what_is_asked_of_a_disk_is_refused_where_a_process_is_killed(
    asked: dict[str, Any], complaint: str
) -> None:
    require_sensible(build(CrashSpec, {**asked, "failure": "lying-disk"}))
    with pytest.raises(UsageError, match=complaint) as refused:
        require_sensible(build(CrashSpec, {**asked, "failure": "process"}))
    assert refused.value.hint


def test_flushes_are_skipped_only_by_a_disk_that_lies() -> None:
    with pytest.raises(UsageError, match="--dropped-flushes is for --failure lying-disk, not power"):
        require_sensible(build(CrashSpec, {"dropped_flushes": 3}))


def test_what_nobody_has_given_is_not_refused() -> None:
    require_sensible(build(CrashSpec, {"failure": "process"}))


def crashing(nodes: str | None, cluster: int | None, fail: str) -> CrashSpec:
    return build(CrashSpec, {"nodes": nodes, "cluster": cluster, "failure": fail})


def test_one_node_of_a_cluster_crashes_unless_it_is_said() -> None:
    assert which_nodes(crashing(None, None, "power")) == "all"
    assert which_nodes(crashing(None, 3, "power")) == "one"
    assert which_nodes(crashing("cascade", 3, "process")) == "cascade"
    assert which_nodes(crashing("all", 2, "process")) == "all"


@pytest.mark.parametrize(
    ("nodes", "cluster", "fail", "complaint"),
    [
        ("all", None, "power", "--nodes is of a cluster"),
        ("two", 3, "power", "'two' is not known"),
        ("all", 3, "eio", "--failure eio is for one server"),
        (None, 2, "power", "--nodes one needs three nodes"),
    ],
)
def test_nodes_that_cannot_crash_so_are_refused(
    nodes: str | None, cluster: int | None, fail: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        require_sensible(crashing(nodes, cluster, fail))
