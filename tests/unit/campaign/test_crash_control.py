"""Caveats of a crash campaign: crashes that could not be judged show nothing."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.campaign.crash.experiment import require_judged, warnings_of
from flushlab.errors import MeasurementError
from flushlab.record import CrashArm
from tests.unit.crashes import BASE, CONTROL, facts, judged

UNKNOWN = msgspec.structs.replace(judged(0, "unknown"), reasons=("its disk cannot be served",))


def control(*crashes: object) -> CrashArm:
    return msgspec.structs.replace(CONTROL, crashes=crashes)


def test_a_control_has_kept_only_what_could_be_judged() -> None:
    kept, unjudged = warnings_of([BASE, control(judged(0), UNKNOWN)])
    assert kept.text == (
        "the positive control kept all of 1 crash, so nothing proves that losses are detected; increase"
        " --crashes or --duration"
    )
    assert unjudged.slug == "not-judged"
    (unjudged,) = warnings_of([BASE, control(UNKNOWN)])
    assert unjudged.text == f"{CONTROL.name}: 1 crash not judged: its disk cannot be served"


def test_a_binary_log_that_could_not_be_read_is_told_with_the_reason() -> None:
    unread = msgspec.structs.replace(judged(0), binlog=None, binlog_unread="it is encrypted")
    (caveat,) = warnings_of([msgspec.structs.replace(BASE, crashes=(unread, judged(1)))])
    assert (caveat.slug, caveat.text) == (
        "binlog-not-read",
        "base: the binary log of 1 crash could not be read, so nothing is known of what it lacks: it is"
        " encrypted",
    )


def test_a_campaign_of_which_nothing_could_be_judged_has_failed() -> None:
    unknown = msgspec.structs.replace(BASE, crashes=(UNKNOWN, UNKNOWN))
    with pytest.raises(MeasurementError, match="none of 2 crashes could be judged") as failed:
        require_judged(facts(unknown, CONTROL))
    assert failed.value.hint
    require_judged(facts(unknown, BASE))
