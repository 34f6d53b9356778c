"""Experiment: the crashes of every configuration, then those of the control if nothing was lost.

Sits in `campaign.crash`; pure. As every experiment, it is a function of its plan and the rows it was told.

Where nothing was lost, a control runs in the same way, to show that loss would have been seen. Without a
ledger it must damage tables instead; no setting does so where the disk has kept all that was written to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.errors import MeasurementError
from flushlab.experiment.protocol import Progress, Request
from flushlab.record import Arm, Crash, CrashArm, CrashFacts, CrashImage, CrashKind, Value, Warning
from flushlab.units import counted


class CrashExperiment:
    """Which crash is next; as of `experiment.protocol.Experiment`.

    Args:
        arms: that are asked for, without images.
        images: crashes of each.
        control: that must lose, if nothing else does; None: there is none.
    """

    def __init__(self, arms: Sequence[CrashArm], images: int, control: CrashArm | None) -> None:
        self._arms: Mapping[str, CrashArm] = {arm.name: arm for arm in arms}
        self._control = control
        self._images = dict.fromkeys(self._arms, images)
        if control is not None:
            self._images[control.name] = control_images(images)
        self._missing = {name: dict.fromkeys(range(most)) for name, most in self._images.items()}
        self._not_judged: dict[str, list[int]] = {}
        self._losing = False
        self._has_begun = False
        self.crashes: list[Crash] = []
        """Those told that belong to these arms."""

    def ask(self) -> Request | None:
        """The next crash; rows of any crash of its arm may be told instead."""
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

    def tell(self, crash: Crash) -> None:
        """Takes a row; one of another configuration of the campaign's is left out."""
        arm = self.arm(crash.arm.name)
        if arm is None or arm.settings != crash.arm.settings:
            return
        self.crashes.append(crash)
        self._missing[arm.name].pop(crash.number, None)
        if not self._has_begun and crash.image.outcome == "unknown":
            self._not_judged.setdefault(arm.name, []).append(crash.number)
        self._losing |= not arm.control and loses(crash.image)

    @property
    def progress(self) -> Progress:
        """Of the arm that is due."""
        arm = self._due
        if arm is None:
            return Progress(stage=None, done=len(self.crashes), total=len(self.crashes))
        left = {name: len(missing) for name, missing in self._missing.items()}
        if self._control is not None and self._losing:
            left[self._control.name] = 0
        total = self._images[arm.name]
        return Progress(
            stage="crash",
            done=total - left[arm.name],
            total=total,
            after=float(sum(left.values()) - left[arm.name]),
        )

    def arm(self, name: str) -> CrashArm | None:
        """The arm of that name, without images; None: there is none."""
        if self._control is not None and name == self._control.name:
            return self._control
        return self._arms.get(name)

    def images(self, name: str) -> int:
        """How often an arm crashes in all."""
        return self._images[name]

    def missing(self, name: str) -> list[int]:
        """Numbers of an arm's crashes that are still to come."""
        return list(self._missing[name])

    @property
    def _due(self) -> CrashArm | None:
        for arm in self._arms.values():
            if self._missing[arm.name]:
                return arm
        control = self._control
        return control if control is not None and self._missing[control.name] and not self._losing else None

    def _ask_again(self) -> None:
        """What an earlier session could not judge is due once more."""
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


def control_of(
    settings: Mapping[str, Value], kind: CrashKind, *, cluster: bool, ledger: bool
) -> CrashArm | None:
    """An arm that must lose; None: there is none.

    Args:
        settings: that it has but for the one that spoils it.
        ledger: it is known which commits were acknowledged.
    """
    if not ledger and kind in _HARMLESS:
        return None
    spoiled = _SPOILED[kind] if ledger else _UNSOUND
    name = " ".join(f"{setting}={value}" for setting, value in spoiled.items())
    name += ", all nodes at once" if cluster else ""
    return CrashArm(
        name=f"control: {name}", settings={**settings, **spoiled}, control=True, checks_rows=ledger
    )


def control_images(images: int) -> int:
    """How often a control crashes, of how often arms do."""
    return min(images, max(_LEAST, images // _SHARE))


def loses(image: CrashImage) -> bool:
    """Whether a crash has left less than everything."""
    return image.outcome in ("lost", "inconsistent", "not_started")


def judged_images(arm: CrashArm) -> int:
    """How many of its images could be judged."""
    return sum(image.outcome != "unknown" for image in arm.images)


def require_judged(facts: CrashFacts) -> None:
    """Refuses facts that say nothing, with a MeasurementError: there are images, and none could be judged."""
    asked = [arm for arm in facts.arms if not arm.control]
    images = sum(len(arm.images) for arm in asked)
    if images and not any(judged_images(arm) for arm in asked):
        raise MeasurementError(
            f"none of {counted(images, 'image')} could be judged", hint="the warning says why"
        )


def warnings_of(arms: Sequence[CrashArm]) -> list[Warning]:
    """What should be known of what was found."""
    found = []
    control = next((arm for arm in arms if arm.control), None)
    if control is not None and not any(map(loses, control.images)) and (judged := judged_images(control)):
        found.append(
            Warning(
                "control-kept",
                f"the control kept all of {counted(judged, 'image')}, so nothing shows that"
                " a loss would have been seen; take more --images or --seconds"
                if control.checks_rows
                else f"the control's tables are sound in all of {counted(judged, 'image')}, so"
                " nothing shows that damage would have been seen; take more --images",
            )
        )
    if any(not arm.checks_rows for arm in arms):
        found.append(
            Warning(
                "no-ledger",
                "without a ledger no commits are known: this judges only whether the server starts and its"
                " tables are sound; to count lost commits, run it beside the ledger with --beside",
            )
        )
    for arm in arms:
        if unknown := sum(image.outcome == "unknown" for image in arm.images):
            said = next(image.reasons[0] for image in arm.images if image.outcome == "unknown")
            found.append(Warning("not-judged", f"{arm.name}: {counted(unknown, 'image')} not judged: {said}"))
        if unread := [image.binlog_unread for image in arm.images if image.binlog_unread]:
            of = counted(len(unread), "image")
            found.append(
                Warning(
                    "binlog-not-read",
                    f"{arm.name}: the binary log of {of} could not be read, so nothing is known of what it"
                    f" lacks: {unread[0]}",
                )
            )
    return found
