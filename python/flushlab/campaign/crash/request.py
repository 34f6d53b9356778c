"""Request: what `crash` was asked for, and whether it makes sense. Sits in `campaign.crash`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from flushlab.campaign.request import CampaignRequest
from flushlab.datadir.fault_disk import LEAST_BYTES, require_fault_disk, require_images
from flushlab.errors import FlushlabError, UsageError
from flushlab.record import CrashKind, NodesKind, Value, Warning
from flushlab.settings import durability
from flushlab.spec import fields
from flushlab.spec.build import names_given
from flushlab.spec.kinds import CrashSpec

FAILURES: Mapping[CrashKind, durability.Failure] = {
    "process": "process_crash",
    "os": "os_crash",
    "power": "power_loss",
    "lying-disk": "power_loss",
    "torn": "torn_page",
    "eio": "power_loss",
    "full": "power_loss",
}
"""What the durability model calls them."""
OF_DISKS = ("fs", "tear", "dropped_flushes", "disk_size", "disk", "save_recording")
"""What is asked of a disk of its own."""
MOST_CRASHES = 100_000
"""Of each configuration."""
_LEAST_LEFT = 3
"""Nodes of which one can crash and the others go on."""
_ONE_DISK: tuple[CrashKind, ...] = ("eio", "full")
"""Faults of one disk while the load runs; a cluster has several."""


class CrashRequest(CampaignRequest, frozen=True, kw_only=True):
    """`workload_digest` changes with the workload's files; `fleet`: address, empty for one machine."""

    spec: CrashSpec
    server: str
    workload_digest: str
    planned: dict[str, dict[str, Value]]
    warnings: tuple[Warning, ...] = ()
    fleet: str = ""


def tear_of(tear: int) -> Literal[512, 4096] | None:
    if tear == 512:
        return 512
    if tear == 4096:
        return 4096
    if tear == 0:
        return None
    raise UsageError(f"--tear is {tear}", hint="there are 512, 4096 and 0 for none")


def require_sensible(spec: CrashSpec) -> None:
    tear_of(spec.tear)
    which_nodes(spec)
    known = fields(CrashSpec)
    given = [key for key in OF_DISKS if key in names_given(spec)]
    if given and spec.failure == "process":
        raise UsageError(
            f"{known[given[0]].flag} needs a disk of its own, and --failure process has none",
            hint="remove it",
        )
    if "tear" in given and spec.failure == "os":
        raise UsageError(
            "--tear has no effect with --failure os: the disk keeps what it was given", hint="remove it"
        )
    if spec.tear == 0 and spec.failure == "torn":
        raise UsageError(
            "--failure torn cuts a write short, and a disk with --tear 0 tears none", hint="remove --tear 0"
        )
    if "dropped_flushes" in given and spec.failure != "lying-disk":
        raise UsageError(
            f"--dropped-flushes is for --failure lying-disk, not {spec.failure}", hint="remove it"
        )
    least_mib = LEAST_BYTES[spec.fs] >> 20
    if spec.failure != "process" and spec.disk_size < least_mib:
        raise UsageError(
            f"--disk-size {spec.disk_size} is too small for {spec.fs}",
            hint=f"it takes at least {least_mib} (MiB)",
        )


def require_disk(spec: CrashSpec) -> None:
    if spec.failure == "process":
        return
    try:
        require_fault_disk(spec.fs)
    except FlushlabError as error:
        error.hint = f"{error.hint}; --failure process needs no disk of its own"
        raise
    require_images(spec.fs)


def which_nodes(spec: CrashSpec) -> NodesKind:
    nodes, cluster = spec.nodes, spec.server.cluster
    if cluster is None:
        if nodes is not None:
            raise UsageError("--nodes is of a cluster", hint="add --cluster 3")
        return "all"
    which: tuple[NodesKind, ...] = get_args(NodesKind)
    found = next((one for one in which if one == (nodes or "one")), None)
    if found is None:
        raise UsageError(f"--nodes {nodes!r} is not known", hint=f"there are {', '.join(which)}")
    if cluster < _LEAST_LEFT and found == "one":
        raise UsageError(
            "--nodes one needs three nodes: when one of two crashes, the other has no quorum",
            hint="use --cluster 3, or --nodes all",
        )
    if spec.failure in _ONE_DISK:
        hint = "use process, os, power, lying-disk or torn"
        raise UsageError(f"--failure {spec.failure} is for one server, not for a cluster", hint=hint)
    return found
