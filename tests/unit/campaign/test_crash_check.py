"""`tune --crash`: a winner that breaks its floor is not handed over; what cannot be crashed is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from flushlab.campaign.crash import check as crash_check
from flushlab.campaign.crash.check import (
    BROKE,
    BROKE_OFFER,
    NOT_CRASHED,
    OFFER_NOT_CRASHED,
    Crash,
    broke_guarantee,
    check,
    failure_mode,
    not_passed,
    require_crashable,
)
from flushlab.errors import HarnessError, StartFailed, UsageError
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import CrashArm, CrashFacts, CrashKind, Storage, Value, Warning
from flushlab.settings.floor import Floor
from flushlab.workload.parse import parse_workload
from tests.unit.crashes import BASE as SECOND
from tests.unit.crashes import CONTROL, LOSING, Proven, facts, judged
from tests.unit.report.campaigns import ratio

DISK = Storage(filesystem="ext4", volatile_cache=True)
BASE: Mapping[str, Value] = {"sync_binlog": 1}


def point(arm: str, **settings: Value) -> FrontierPoint:
    return FrontierPoint(
        floor=Floor.STRICT, arm=arm, settings=settings, ratio=ratio(1.5, 1.4, 1.6), free_ratio=None
    )


class Crashes:
    """Crashes that leave what was told; everything else is kept."""

    def __init__(self, **losing: int) -> None:
        self.losing, self.asked = losing, list[tuple[str, Mapping[str, Value]]]()

    def __call__(self, name: str, settings: Mapping[str, Value]) -> CrashFacts:
        self.asked.append((name, settings))
        crashes = tuple(judged(n, "lost", 9) if n < self.losing.get(name, 0) else judged(n) for n in range(4))
        arm = CrashArm(name=name, settings=settings, crashes=crashes)
        return facts(arm) if name in self.losing else facts(arm, CONTROL)


def checked(
    proven: Proven, crash: Crash, guard: Callable[[], object] = list
) -> tuple[CrashFacts | None, Sequence[Warning]]:
    return check(proven, crash, "power", Floor.STRICT, guard)


def test_a_winner_that_keeps_its_floor_is_handed_over() -> None:
    proven, crash = Proven(BASE, point("fast", innodb_flush_method="fsync")), Crashes()
    found, warnings = checked(proven, crash)
    assert crash.asked == [("fast", {"sync_binlog": 1, "innodb_flush_method": "fsync"})]
    assert (proven.rejected, warnings) == ({}, [])
    assert found is not None
    assert [arm.name for arm in found.arms] == ["fast", CONTROL.name]


def test_a_winner_that_breaks_its_floor_is_rejected_and_the_next_one_crashed() -> None:
    proven, crash = Proven(BASE, point("fast"), point("next")), Crashes(fast=2)
    guarded: list[str] = []
    found, warnings = checked(proven, crash, lambda: guarded.append("again"))
    assert list(proven.rejected) == ["fast"]
    assert (
        "in crashes it broke its floor strict: acknowledged commits were lost in 2 of 4"
        in (proven.rejected["fast"])
    )
    assert [name for name, _ in crash.asked] == ["fast", "next"]
    assert guarded == ["again"], "the next one is judged in the other ways too"
    assert [warning.slug for warning in warnings] == [BROKE]
    assert not_passed(warnings)
    assert found is not None
    assert [arm.name for arm in found.arms] == ["fast", "next", CONTROL.name]


@pytest.mark.parametrize(("of_base", "told"), [(0, 1), (1, 2)])
def test_where_all_are_rejected_the_base_is_crashed_too(of_base: int, told: int) -> None:
    proven, crash = Proven(BASE, point("fast")), Crashes(fast=4, **({"base": of_base} if of_base else {}))
    _, warnings = checked(proven, crash)
    assert crash.asked[-1] == ("base", BASE)
    assert len(warnings) == told
    assert ("your base breaks the floor strict" in warnings[-1].text) == bool(of_base)


def test_without_a_winner_nothing_is_crashed() -> None:
    crash = Crashes()
    assert checked(Proven(BASE), crash) == (None, [])
    assert crash.asked == []


def test_what_fails_at_the_end_costs_no_tuning_but_has_not_passed() -> None:
    def crash(name: str, settings: Mapping[str, Value]) -> CrashFacts:
        raise StartFailed("no server")

    found, warnings = checked(proven := Proven(BASE, point("fast")), crash)
    assert (found, proven.rejected) == (None, {})
    assert [warning.slug for warning in warnings] == [NOT_CRASHED]
    assert not_passed(warnings)


def test_a_winner_of_which_no_crash_could_be_judged_has_not_passed() -> None:
    def crash(name: str, settings: Mapping[str, Value]) -> CrashFacts:
        unjudged = msgspec.structs.replace(judged(0, "unknown"), reasons=("no image can be mounted",))
        return facts(CrashArm(name=name, settings=settings, crashes=(unjudged,)))

    found, warnings = checked(proven := Proven(BASE, point("fast")), crash)
    assert proven.rejected == {}
    assert [warning.slug for warning in warnings] == [NOT_CRASHED]
    assert "none of 1 crashes could be judged (no image can be mounted)" in warnings[0].text
    assert found is not None


def test_ctrl_c_while_it_is_crashed_ends_the_command() -> None:
    def crash(name: str, settings: Mapping[str, Value]) -> CrashFacts:
        return msgspec.structs.replace(facts(), ending="interrupted")

    with pytest.raises(KeyboardInterrupt):
        checked(Proven(BASE, point("fast")), crash)


def test_the_power_fails_where_a_disk_of_its_own_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_check, "require_fault_disk", lambda fs: None)
    assert failure_mode(DISK) == ("power", None)
    through = msgspec.structs.replace(DISK, volatile_cache=False)
    assert failure_mode(through) == ("os", None), "nothing is in its cache that a power cut could take"


@pytest.mark.parametrize("error", [UsageError("it needs root"), HarnessError("/dev/fuse is missing")])
def test_without_such_a_disk_the_server_is_killed_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, error: UsageError | HarnessError
) -> None:
    def refuse(fs: str) -> None:
        raise error

    monkeypatch.setattr(crash_check, "require_fault_disk", refuse)
    kind, caveat = failure_mode(DISK)
    assert kind == "process"
    assert caveat is not None
    assert caveat.text.endswith(f"which prove nothing of power cuts: {error.message}")


@pytest.mark.parametrize(
    ("workload", "dataset", "disk", "complaint"),
    [
        ("command: true", False, None, "its commits are not known"),
        ("sql:load.sql", False, None, "its commits are not known"),
        ("upsert", True, None, "not --dataset"),
        ("upsert", False, "gp3", "--disk is one already"),
    ],
)
def test_what_cannot_be_crashed_is_refused_with_a_way_out(
    workload: str,
    dataset: bool,
    disk: str | None,
    complaint: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "load.sql").write_text("CREATE TABLE a (i INT);\n")
    parsed = parse_workload(workload, folder=tmp_path)
    with pytest.raises(UsageError, match=complaint) as caught:
        require_crashable(parsed, dataset=dataset, disk=disk)
    assert caught.value.hint


def test_offers_are_crashed_too_and_rejected_by_themselves() -> None:
    lower = msgspec.structs.replace(point("lower"), floor=Floor.SECOND)
    proven, crash = Proven(BASE, point("fast"), offers=(lower,)), Crashes()
    checked(proven, crash)
    assert [name for name, _ in crash.asked] == ["fast", "lower"]
    broke, crash = Proven(BASE, point("fast"), offers=(lower,)), Crashes(lower=2)
    late = crash.__call__

    def older(name: str, settings: Mapping[str, Value]) -> CrashFacts:
        found = late(name, settings)
        arms = (
            msgspec.structs.replace(
                arm, crashes=tuple(msgspec.structs.replace(one, lost_s=9.0) for one in arm.crashes)
            )
            for arm in found.arms
        )
        return msgspec.structs.replace(found, arms=tuple(arms))

    guarded: list[str] = []
    _, warnings = checked(broke, older, lambda: guarded.append("again"))
    assert (list(broke.rejected), guarded) == (["lower"], ["again"])
    assert broke.result().winner == point("fast")
    assert [warning.slug for warning in warnings] == [BROKE_OFFER]
    assert not not_passed(warnings), "what is handed over has passed"


def test_an_offer_that_cannot_be_crashed_is_withdrawn_and_costs_the_winner_nothing() -> None:
    lower = msgspec.structs.replace(point("lower"), floor=Floor.SECOND)
    crashes = Crashes()

    def crash(name: str, settings: Mapping[str, Value]) -> CrashFacts:
        if name == "lower":
            raise StartFailed("no server")
        return crashes(name, settings)

    proven = Proven(BASE, point("fast"), offers=(lower,))
    guarded: list[str] = []
    _, warnings = checked(proven, crash, lambda: guarded.append("again"))
    assert (list(proven.rejected), guarded) == (["lower"], ["again"])
    assert proven.result().winner == point("fast")
    assert [warning.slug for warning in warnings] == [OFFER_NOT_CRASHED]
    assert not not_passed(warnings)


@pytest.mark.parametrize(
    ("floor", "failure", "named"),
    [
        ("strict", "power", ["strict"]),
        ("strict, if the disk honors flushes", "torn", ["strict"]),
        ("strict, if the disk has no volatile write cache; throwaway with one", "power", []),
        ("throwaway", "power", []),
        ("", "power", []),
        ("strict", "lying-disk", []),
        ("strict", "eio", []),
    ],
)
def test_a_guarantee_is_broken_only_where_the_model_states_one(
    floor: str, failure: CrashKind, named: list[str]
) -> None:
    losing = msgspec.structs.replace(LOSING, floor=floor)
    control = msgspec.structs.replace(CONTROL, floor="strict")
    found = broke_guarantee(msgspec.structs.replace(facts(SECOND, losing, control), failure=failure))
    start = "innodb_flush_log_at_trx_commit=2: in crashes it broke its floor"
    assert [
        one.startswith(f"{start} {floor}: the server did not start")
        for one, floor in zip(found, named, strict=True)
    ] == [True] * len(named)
