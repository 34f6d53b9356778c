from __future__ import annotations

import msgspec

from flushlab.campaign.tune_analysis import without_effect
from flushlab.record import Arm, Trial, Value, Warning
from tests.unit.records import trial

FLUSH = "innodb_flush_log_at_trx_commit"


def questioned(arm: str, setting: str, value: Value, result: int) -> Trial:
    warning = Warning("no-effect", f"{setting}={value} reads back, but {result} syncs were seen", setting)
    settings = {setting: value}
    return trial(settings, arm=Arm(name=arm, settings=settings), warnings=(warning, Warning("errors", "x")))


def test_the_bases_settings_are_told_once_without_a_name() -> None:
    trials = [
        questioned("base", FLUSH, 1, 3),
        questioned("control", FLUSH, 1, 4),
        questioned("screen-2", FLUSH, 1, 5),
    ]
    assert [warning.text for warning in without_effect(trials)] == [
        f"{FLUSH}=1 reads back, but 4 syncs were seen"
    ]


def test_an_arms_setting_is_told_with_the_arm_that_came_last() -> None:
    trials = [
        questioned("base", "innodb_flush_method", "O_DIRECT", 0),
        questioned("screen-2", FLUSH, 2, 700),
        questioned("flush 2", FLUSH, 2, 800),
    ]
    found = without_effect(trials)
    assert [warning.setting for warning in found] == ["innodb_flush_method", FLUSH]
    assert found[1].text == f"arm flush 2: {FLUSH}=2 reads back, but 800 syncs were seen"


def test_a_mixture_that_kept_a_setting_from_working_is_not_told() -> None:
    mixture = msgspec.structs.replace(questioned("screen-2", FLUSH, 2, 700), stage="screen")
    works = trial({FLUSH: 2}, arm=Arm(name="flush 2", settings={FLUSH: 2}))
    assert without_effect([mixture, works]) == []
    assert len(without_effect([mixture])) == 1
    confirmed = msgspec.structs.replace(mixture, stage="confirm")
    assert len(without_effect([confirmed, works])) == 1


def test_two_values_of_one_setting_are_two_warnings() -> None:
    found = without_effect([questioned("a", FLUSH, 0, 1), questioned("b", FLUSH, 2, 1)])
    assert [warning.text.split(":")[0] for warning in found] == ["arm a", "arm b"]


def test_settings_that_work_leave_nothing_to_tell() -> None:
    assert without_effect([trial(), trial(warnings=(Warning("errors", "x"),))]) == []
