"""Arms: an arm as it is on this server and this machine, with what the server keeps under it. Pure.

`record.Arm` is what a trial runs under. `BoundArm` adds what the arm is, `facts.ArmResult` what was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record import Arm, Launch, ServerIdentity, Storage, Value
from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import described, verdict
from flushlab.settings.floor import Floor
from flushlab.spec.parts import WorkloadSpec, difference

ArmOutcome = Literal["measured", "refused", "failed", "skipped", "not_in_version"]


class BoundArm(Arm, frozen=True, kw_only=True):
    """An arm as it is on this server and this machine.

    Attributes:
        name: as the plan, the command line or the tuning names it.
        text: what it stands for, in words.
        outcome: `measured`, `refused`, `failed`, `skipped`, `not_in_version`. Refused: the server refused it
            or read back other values. Failed: the server or the load died, or memory was short. Skipped: its
            place, or something it requires, is missing, or the campaign ended before it.
        reason: why it was not measured, in the server's words where it has any; else empty.
        settings: everything that it sets, the base's settings included; of a measured base all, as the server
            reported them.
        changes: its settings that differ from the base's; null: back to the server's default.
        workload: what writes, with all options that were given.
        workload_changes: what differs from the base's workload: options, and its `name` if that is another.
        workload_digest: changes with the content of the workload's file; a resumed series must find the same.
        other_event: how its result counts other work than the base's, a sentence; empty if it does not.
        data_root, disk: its own place; null: that of the base.
        fixed: its settings that change the service itself: binary log, isolation, checksums.
        no_effect: its settings that have no effect, as there is no binary log.
        floor: the safest floor that it meets; empty: it could not run.
        guarantees: plain words per failure (`process_crash`, `os_crash`, `power_loss`, `torn_page`,
            `replication`). `floor` is the floor with its condition on the disk.
        build, build_id: of its server, where that is not the first one; else empty.
        server: the server that it ran on, where that is not the first one; else null.
        against: the arm that it is compared with, where that is the base of a further server; else empty. The
            base of a further server is compared with the first server's.
    """

    settings: Mapping[str, Value] = {}
    text: str = ""
    outcome: ArmOutcome = "measured"
    reason: str = ""
    changes: Mapping[str, Value | None] = {}
    workload: WorkloadSpec = WorkloadSpec()
    workload_changes: Mapping[str, Value] = {}
    workload_digest: str = ""
    other_event: str = ""
    data_root: str | None = None
    disk: str | None = None
    fixed: tuple[str, ...] = ()
    no_effect: tuple[str, ...] = ()
    floor: str = ""
    guarantees: Mapping[str, str] = {}
    build: str = ""
    build_id: str = ""
    server: ServerIdentity | None = None
    against: str = ""

    @property
    def composable(self) -> bool:
        """A place is no setting that one could keep, and a ratio of other work no gain."""
        return not (self.is_place or self.other_event)

    @property
    def is_place(self) -> bool:
        return self.data_root is not None or self.disk is not None

    @property
    def effective(self) -> dict[str, Value | None]:
        return {name: value for name, value in self.changes.items() if name not in self.no_effect}

    @property
    def changes_nothing(self) -> bool:
        changed = self.changes or self.no_effect
        return bool(changed) and not (self.effective or self.workload_changes or self.is_place)

    def is_below(self, floor: str) -> bool:
        return bool(self.floor and floor) and not Floor(self.floor).at_least(Floor(floor))


def changes_of(base: Mapping[str, Value], settings: Mapping[str, Value]) -> dict[str, Value | None]:
    own: dict[str, Value | None] = {
        name: value for name, value in settings.items() if name not in base or base[name] != value
    }
    return own | {name: None for name in base if name not in settings}


def judged(
    arm: BoundArm,
    base: BoundArm,
    identity: ServerIdentity,
    storage: Storage,
    launch: Launch,
    has: Mapping[str, Value],
) -> BoundArm:
    changes, catalog = changes_of(base.settings, arm.settings), load_catalog()
    situation = {**has, **arm.settings}, identity, storage, launch
    runs = arm.outcome == "measured"
    return msgspec.structs.replace(
        arm,
        changes=changes,
        workload_changes=difference(arm.workload, base.workload),
        fixed=tuple(name for name in changes if name in catalog and catalog.setting(name).fixed),
        no_effect=tuple(
            name for name in changes if Configuration(situation[0], identity).without_effect(name)
        ),
        floor=verdict(*situation).floor.value if runs else "",
        guarantees=described(*situation) if runs else {},
    )
