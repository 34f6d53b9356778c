"""Experiment: the crashes of every configuration, then those of the control if nothing was lost.

Sits in `campaign.crash`; pure. As every experiment, it is a function of its plan and the rows it was told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.campaign.crash.control import control_images, loses
from flushlab.experiment.protocol import Progress, Request
from flushlab.record import Arm, Crash, CrashArm


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
