"""Control: the configuration that must lose, and what is doubtful of a crash campaign. Pure.

Where nothing was lost, a control runs in the same way, to show that loss would have been seen. Without a
ledger it must damage tables instead; no setting does so where the disk has kept all that was written to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flushlab.errors import MeasurementError
from flushlab.record import CrashArm, CrashFacts, CrashImage, CrashKind, Value, Warning
from flushlab.units import counted

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
