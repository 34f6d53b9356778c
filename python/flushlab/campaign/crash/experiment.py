"""Experiment: the crashes of every configuration, then those of the positive control if nothing was lost.

Sits in `campaign.crash`; pure. As every experiment, it is a function of its plan and its rows.

If nothing was lost, an unsafe configuration is crashed too, to prove that losses are detected: the positive
control. Without an acknowledgement table, it must damage tables instead; if the disk keeps all writes
(`process`, `os`), no setting damages tables, and no positive control runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Literal, get_args

import msgspec

from flushlab.campaign.request import CampaignRequest
from flushlab.datadir import own_disk
from flushlab.datadir.fault_disk import LEAST_BYTES, require_fault_disk, require_images
from flushlab.errors import FlushlabError, MeasurementError, UsageError
from flushlab.experiment.protocol import BlockAhead, Request, Standing
from flushlab.record import (
    Arm,
    Crash,
    CrashArm,
    CrashFacts,
    CrashKind,
    CrashRow,
    NodesKind,
    SourceText,
    Value,
    Warning,
)
from flushlab.redact import without_passwords
from flushlab.settings import durability
from flushlab.spec import fields
from flushlab.spec.build import names_given
from flushlab.spec.kinds import CrashSpec
from flushlab.units import counted

MODEL_FAILURES: Mapping[CrashKind, durability.Failure] = {
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


class CrashExperiment:
    """`control` must lose, if nothing else does."""

    def __init__(self, arms: Sequence[CrashArm], crashes: int, control: CrashArm | None) -> None:
        self._arms: Mapping[str, CrashArm] = {arm.name: arm for arm in arms}
        self._control = control
        self._crashes = dict.fromkeys(self._arms, crashes)
        if control is not None:
            self._crashes[control.name] = positive_control_crashes(crashes)
        self._missing = {name: dict.fromkeys(range(most)) for name, most in self._crashes.items()}
        self._not_judged: dict[str, list[int]] = {}
        self._losing = False
        self._has_begun = False
        self.rows: list[CrashRow] = []

    def ask(self) -> Request | None:
        if not self._has_begun:
            self._has_begun = True
            self._ask_again()
        arm = self._due
        if arm is None:
            return None
        return Request(
            arm=Arm(name=arm.name, settings=arm.settings),
            stage="crash",
            block=next(iter(self._missing[arm.name])),
        )

    def ahead(self, most: int) -> tuple[BlockAhead, ...]:
        if self.ask() is None:
            return ()
        arms = [arm for arm in self._arms.values() if self._missing[arm.name]]
        due = self._due
        assert due is not None, "it was asked for"
        found = (
            BlockAhead(stage="crash", block=number, arms=(Arm(name=arm.name, settings=arm.settings),))
            for arm in arms or [due]
            for number in self._missing[arm.name]
        )
        return tuple(islice(found, most))

    def tell(self, row: CrashRow) -> None:
        arm = self.arm(row.arm.name)
        if arm is None or arm.settings != row.arm.settings:
            return
        self.rows.append(row)
        self._missing[arm.name].pop(row.number, None)
        if not self._has_begun and row.crash.outcome == "unknown":
            self._not_judged.setdefault(arm.name, []).append(row.number)
        self._losing |= not arm.positive_control and loses(row.crash)

    @property
    def standing(self) -> Standing:
        arm = self._due
        if arm is None:
            return Standing(stage=None, done=len(self.rows), total=len(self.rows))
        left = {name: len(missing) for name, missing in self._missing.items()}
        if self._control is not None and self._losing:
            left[self._control.name] = 0
        total = self._crashes[arm.name]
        return Standing(
            stage="crash",
            done=total - left[arm.name],
            total=total,
            after=float(sum(left.values()) - left[arm.name]),
        )

    def arm(self, name: str) -> CrashArm | None:
        if self._control is not None and name == self._control.name:
            return self._control
        return self._arms.get(name)

    def crashes(self, name: str) -> int:
        return self._crashes[name]

    def missing(self, name: str) -> list[int]:
        return list(self._missing[name])

    @property
    def _due(self) -> CrashArm | None:
        for arm in self._arms.values():
            if self._missing[arm.name]:
                return arm
        control = self._control
        return control if control is not None and self._missing[control.name] and not self._losing else None

    def _ask_again(self) -> None:
        for name, numbers in self._not_judged.items():
            self._missing[name] = dict.fromkeys(sorted({*self._missing[name], *numbers}))


_SPOILED: Mapping[CrashKind, Mapping[str, Value]] = {
    "process": {"innodb_flush_log_at_trx_commit": 0},
    "os": {"innodb_flush_log_at_trx_commit": 2},
    "power": {"innodb_flush_log_at_trx_commit": 2},
    "lying-disk": {"innodb_flush_log_at_trx_commit": 2},
    "torn": {"innodb_doublewrite": "OFF"},
    "eio": {"innodb_flush_log_at_trx_commit": 2},
    "full": {"innodb_flush_log_at_trx_commit": 2},
}
_UNSOUND: Mapping[str, Value] = {"innodb_doublewrite": "OFF"}
_HARMLESS: tuple[CrashKind, ...] = ("process", "os")
"""They leave whole pages, whatever the settings."""
_LEAST, _SHARE = 8, 4


def positive_control_of(
    settings: Mapping[str, Value], kind: CrashKind, *, cluster: bool, acks: bool
) -> CrashArm | None:
    if not acks and kind in _HARMLESS:
        return None
    spoiled = _SPOILED[kind] if acks else _UNSOUND
    name = " ".join(f"{setting}={value}" for setting, value in spoiled.items())
    name += ", all nodes at once" if cluster else ""
    return CrashArm(
        name=f"positive control: {name}",
        settings={**settings, **spoiled},
        positive_control=True,
        checks_rows=acks,
    )


def positive_control_crashes(crashes: int) -> int:
    return min(crashes, max(_LEAST, crashes // _SHARE))


def loses(crash: Crash) -> bool:
    return crash.outcome in ("lost", "inconsistent", "not_started")


def judged_crashes(arm: CrashArm) -> int:
    return sum(crash.outcome != "unknown" for crash in arm.crashes)


def require_judged(facts: CrashFacts) -> None:
    asked = [arm for arm in facts.arms if not arm.positive_control]
    crashes = sum(len(arm.crashes) for arm in asked)
    if crashes and not any(judged_crashes(arm) for arm in asked):
        raise MeasurementError(
            f"none of {counted(crashes, 'crash')} could be judged", hint="the warning says why"
        )


def warnings_of(arms: Sequence[CrashArm]) -> list[Warning]:
    found = []
    control = next((arm for arm in arms if arm.positive_control), None)
    if control is not None and not any(map(loses, control.crashes)) and (judged := judged_crashes(control)):
        found.append(
            Warning(
                "positive-control-kept",
                f"the positive control kept all of {counted(judged, 'crash')}, so nothing proves that"
                " losses are detected; increase --crashes or --duration"
                if control.checks_rows
                else f"the positive control's tables are sound in all of {counted(judged, 'crash')}, so"
                " nothing proves that damage is detected; increase --crashes",
            )
        )
    if any(not arm.checks_rows for arm in arms):
        found.append(
            Warning(
                "no-acks",
                "without an acknowledgement table, only the start of the server and its tables are judged; to"
                " count lost commits, give this workload to --background",
            )
        )
    for arm in arms:
        if unknown := sum(crash.outcome == "unknown" for crash in arm.crashes):
            said = next(crash.reasons[0] for crash in arm.crashes if crash.outcome == "unknown")
            found.append(Warning("not-judged", f"{arm.name}: {counted(unknown, 'crash')} not judged: {said}"))
        if unread := [crash.binlog_unread for crash in arm.crashes if crash.binlog_unread]:
            of = counted(len(unread), "crash")
            found.append(
                Warning(
                    "binlog-not-read",
                    f"{arm.name}: the binary log of {of} could not be read, so nothing is known of what it"
                    f" lacks: {unread[0]}",
                )
            )
    return found


def facts_of(
    spec: CrashSpec,
    server: str,
    arms: Sequence[CrashArm],
    ending: str,
    *,
    warnings: Sequence[Warning] = (),
    sources: tuple[SourceText, ...] = (),
    campaign: str = "",
) -> CrashFacts:
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
        ending="interrupted" if ending == "interrupted" else "done",
        arms=tuple(arms),
        seed=spec.seed,
        warnings=(*warnings, *warnings_of(arms)),
        campaign=campaign,
    )


def facts_of_campaign(
    request: CrashRequest, rows: Iterable[CrashRow], ending: str, campaign: str
) -> CrashFacts:
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
