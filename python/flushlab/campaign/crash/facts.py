"""Facts: what stored crashes come to. Sits in `campaign.crash`; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from flushlab.campaign.crash.experiment import warnings_of
from flushlab.campaign.crash.request import CrashRequest, which_nodes
from flushlab.datadir import own_disk
from flushlab.record import CrashArm, CrashFacts, CrashRow, SourceText, Warning
from flushlab.redact import without_passwords
from flushlab.spec.kinds import CrashSpec

Ending = Literal["done", "interrupted"]


def facts_of(
    spec: CrashSpec,
    server: str,
    arms: Sequence[CrashArm],
    ending: Ending,
    *,
    warnings: Sequence[Warning] = (),
    sources: tuple[SourceText, ...] = (),
    campaign: str = "",
) -> CrashFacts:
    """What crashed, and what became of it; the campaign's id is empty if it is not stored."""
    on_disk, disk = spec.failure != "process", own_disk(spec.storage.disk)
    return CrashFacts(
        server=server,
        workload=without_passwords(spec.workload.name),
        background=without_passwords(spec.background or ""),
        sources=sources,
        failure=spec.failure,
        fs=spec.fs if on_disk else "",
        disk=disk.name if disk else "",
        tear=spec.tear,
        dropped_flushes=spec.dropped_flushes if spec.failure == "lying-disk" else 0,
        nodes=spec.server.cluster or 1,
        crashed=which_nodes(spec) if spec.server.cluster else "",
        ending=ending,
        arms=tuple(arms),
        seed=spec.seed,
        warnings=(*warnings, *warnings_of(arms)),
        campaign=campaign,
    )


def facts_of_campaign(
    request: CrashRequest, rows: Iterable[CrashRow], ending: Ending, campaign: str
) -> CrashFacts:
    """What the rows of a stored campaign come to, whether it has ended, was interrupted or was killed."""
    return facts_of(
        request.spec,
        request.server,
        arms_of(rows),
        ending,
        warnings=request.warnings,
        sources=request.sources,
        campaign=campaign,
    )


def arms_of(rows: Iterable[CrashRow]) -> tuple[CrashArm, ...]:
    """Arms with their crashes, the positive control last; a later row replaces an earlier one."""
    found: dict[str, dict[int, CrashRow]] = {}
    for row in rows:
        found.setdefault(row.arm.name, {})[row.number] = row
    arms = [_arm([of_arm[number] for number in sorted(of_arm)]) for of_arm in found.values()]
    return tuple(sorted(arms, key=lambda arm: arm.positive_control))


def _arm(rows: Sequence[CrashRow]) -> CrashArm:
    last = rows[-1].arm
    folders = {row.arm.folder for row in rows}
    return msgspec.structs.replace(
        last,
        commits_per_s=sum(row.arm.commits_per_s for row in rows) / len(rows),
        folder=last.folder if len(folders) == 1 else "",  # the record of some of them is gone
        crashes=tuple(row.crash for row in rows),
    )
