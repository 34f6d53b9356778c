"""Check: `tune --crash` crashes its winner before it is handed over.

    failure_mode(storage)  before anything is measured: what crashes here, or why nothing can
    check(experiment, crash, …)  after the confirmation: a winner that breaks its floor is rejected

Sits in `campaign.crash`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from flushlab.campaign.facts import BASE_BROKE
from flushlab.crashed.measured import age
from flushlab.datadir.fault_disk import require_fault_disk
from flushlab.errors import FlushlabError, HarnessError, MeasurementError, UsageError
from flushlab.experiment.tune_plan import TuneResult
from flushlab.record import BASE, CrashArm, CrashFacts, CrashKind, ServerIdentity, Storage, Value, Warning
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import FLUSH_INTERVAL_S
from flushlab.settings.floor import Floor
from flushlab.workload.options import EngineOptions
from flushlab.workload.protocol import Workload

FailureMode = tuple[Literal["process", "os", "power"], Warning | None]
UNCRASHED: FailureMode = ("power", None)
"""Where nothing was to be crashed."""
BROKE, NOT_CRASHED = "crash-broke-floor", "not-crashed"
"""Warnings with which `tune --crash` has not passed."""
BROKE_OFFER, OFFER_NOT_CRASHED = "crash-broke-offer", "offer-not-crashed"
"""Warnings of an offer below the floor: it is withdrawn; what is handed over has passed all the same."""
LEAST_DISK_MIB = 1024
_HINT = "tune without --crash, then crash its option file: flushlab crash --base my.cnf flushlab-ID/my.cnf"


Crash = Callable[[str, Mapping[str, Value]], CrashFacts]


class JudgedCrashes(Protocol):
    """An experiment with a winner that can be rejected."""

    def result(self) -> TuneResult:
        """Of all records told."""
        ...

    def reject(self, arm: str, reason: str) -> None:
        """The arm does not win."""
        ...


def require_crashable(workload: Workload, *, dataset: bool, disk: str | None) -> None:
    if dataset:
        raise UsageError("--crash crashes generated tables, not --dataset", hint=_HINT)
    if disk is not None:
        raise UsageError("--crash needs a disk of its own, and --disk is one already", hint=_HINT)
    if not isinstance(workload, EngineOptions):
        raise UsageError(
            f"{workload.name}: its commits are not known, so nothing can be said about them after a crash",
            hint=_HINT,
        )


def failure_mode(storage: Storage) -> FailureMode:
    """On a disk without a volatile cache a power cut leaves what a crash of the operating system leaves."""
    if storage.in_memory:
        why = "the data are in memory, so crashes were kills, not power cuts"
        return "process", Warning("crash-kills-only", why)
    try:
        require_fault_disk("ext4")
    except (UsageError, HarnessError) as error:
        why = f"crashes were kills of the server, which prove nothing of power cuts: {error.message}"
        return "process", Warning("crash-kills-only", why)
    return "os" if storage.volatile_cache is False else "power", None


def not_passed(warnings: Iterable[Warning]) -> bool:
    return any(warning.slug in (BROKE, BASE_BROKE, NOT_CRASHED) for warning in warnings)


def disk_mib(settings: Mapping[str, Value], identity: ServerIdentity) -> int:
    return LEAST_DISK_MIB + (2 * Configuration(settings, identity).redo_capacity_bytes >> 20)


def check(
    experiment: JudgedCrashes,
    crash: Crash,
    kind: CrashKind,
    floor: Floor,
    guard: Callable[[], object],
    raised: bool = False,
) -> tuple[CrashFacts | None, Sequence[Warning]]:
    """Crashes the base too where no winner is left, as its loss is not the fault of the changes, and where
    it is handed over."""
    found: list[CrashFacts] = []
    warnings: list[Warning] = []

    def why(arm: str, settings: Mapping[str, Value], promised: Floor) -> str | None:
        facts = crash(arm, settings)
        if facts.ending == "interrupted":
            raise KeyboardInterrupt
        found.append(facts)
        reason = broken(facts.arms[0], kind, promised)
        if reason is None and (caveat := unproven(facts.arms[0], promised)):
            raise MeasurementError(caveat)
        return reason

    rejected, passed = False, set[str]()
    try:
        while due := [point for point in experiment.result().proposed if point.arm not in passed]:
            arm, promised, winner = due[0].arm, due[0].floor, experiment.result().winner
            is_offer = winner is None or winner.arm != arm
            settings = {**experiment.result().base.settings, **due[0].settings}
            try:
                reason = why(arm, settings, promised)
            except FlushlabError as error:
                if not is_offer:
                    raise
                experiment.reject(arm, f"not crashed, so not checked: {error.message}")
                warnings.append(Warning(OFFER_NOT_CRASHED, f"{arm} is not offered: {error.message}"))
                guard()
                continue
            if reason is None:
                passed.add(arm)
                continue
            text = f"in crashes it broke its floor {promised}: {reason}"
            experiment.reject(arm, text)
            rejected = rejected or not is_offer
            slug, done = (BROKE_OFFER, "offered") if is_offer else (BROKE, "handed over")
            warnings.append(Warning(slug, f"{arm} is not {done}: {text}"))
            guard()
        if (
            (rejected or raised)
            and experiment.result().winner is None
            and (reason := why(BASE, experiment.result().base.settings, floor))
        ):
            warnings.append(Warning(BASE_BROKE, f"your base breaks the floor {floor} in crashes: {reason}"))
    except FlushlabError as error:
        warnings.append(Warning(NOT_CRASHED, f"not crashed, so not checked: {error.message}"))
    return _together(found), warnings


def _together(found: Sequence[CrashFacts]) -> CrashFacts | None:
    if not found:
        return None
    arms = [arm for facts in found for arm in facts.arms]
    return msgspec.structs.replace(
        found[0],
        arms=(
            *(arm for arm in arms if not arm.positive_control),
            *(arm for arm in arms if arm.positive_control),
        ),
        warnings=tuple(dict.fromkeys(warning for facts in found for warning in facts.warnings)),
    )


ABOUT_S = 2 * FLUSH_INTERVAL_S
"""Meaning of "about a second": servers flush once a second, but not exactly."""

_WORDS = {"not_started": "the server did not start again", "inconsistent": "what came back was inconsistent"}


def unproven(arm: CrashArm, floor: Floor) -> str | None:
    of = f"of {len(arm.crashes):,} crashes"
    if all(crash.outcome == "unknown" for crash in arm.crashes):
        why = next((crash.reasons[0] for crash in arm.crashes if crash.reasons), "")
        return f"none {of} could be judged" + (f" ({why})" if why else "")
    unread = [crash.binlog_unread for crash in arm.crashes if crash.binlog_unread]
    if unread and floor is Floor.STRICT:
        return f"the binary log could not be read after {len(unread):,} {of}: {unread[0]}"
    return None


PROMISED: tuple[CrashKind, ...] = ("process", "os", "power", "torn")
"""Failures of which a floor promises something; no floor covers a disk that lies, fails or is full."""


def broke_guarantee(facts: CrashFacts) -> tuple[str, ...]:
    """A floor with a condition on the disk counts as the weakest floor that the model names."""
    if facts.failure not in PROMISED:
        return ()
    found = []
    for arm in facts.arms:
        named = [floor for floor in Floor if floor in re.findall(r"\w+", arm.floor)]
        if named and not arm.positive_control and (reason := broken(arm, facts.failure, named[-1])):
            found.append(f"{arm.name}: in crashes it broke its floor {named[-1]}: {reason}")
    return tuple(found)


def broken(arm: CrashArm, kind: CrashKind, floor: Floor) -> str | None:
    """The losses of a configuration's crashes beyond its floor, in words; None if there are none.

    `throwaway` promises nothing. All other floors promise that the server starts and comes back in a state
    that it had before. Acknowledged commits that may be missing from the tables or from the binary log:

    - `strict`: none
    - `second`: the commits of about a second, but none if only mysqld was killed
    - `relaxed`: the commits of about a second, even if only mysqld was killed
    """
    if floor is Floor.THROWAWAY:
        return None
    of = f"of {len(arm.crashes):,} crashes"
    for outcome, words in _WORDS.items():
        seen = [crash for crash in arm.crashes if crash.outcome == outcome]
        if seen:
            why = seen[0].reasons[0] if seen[0].reasons else ""
            return f"{words} in {len(seen)} {of}" + (f" ({why})" if why else "")
    allowed_s = ABOUT_S
    if floor is Floor.STRICT or (floor is Floor.SECOND and kind == "process"):
        allowed_s = 0.0
    lost = [crash for crash in arm.crashes if crash.lost and (not allowed_s or crash.lost_s > allowed_s)]
    if lost:
        most, longest_s = max(crash.lost for crash in lost), max(crash.lost_s for crash in lost)
        return f"acknowledged commits were lost in {len(lost)} {of}, up to {most:,}, {age(longest_s)}"
    gone = [crash.binlog.lost for crash in arm.crashes if crash.binlog and crash.binlog.lost]
    if gone and floor is Floor.STRICT:
        return f"the binary log lacked acknowledged commits after {len(gone)} {of}, up to {max(gone):,}"
    return None
