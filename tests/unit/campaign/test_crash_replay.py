"""The line that names an image is read as the report writes it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from flushlab.campaign.crash.replay import read_line
from flushlab.errors import UsageError
from flushlab.record import CrashPoint
from flushlab.report.crash import line, moment
from tests.unit.crashes import LOSING


@pytest.mark.parametrize("kind", ["random", "in_recovery"])
def test_what_the_report_names_is_judged_again(kind: str) -> None:
    point = msgspec.convert({"at": 1007, "kind": kind, "seed": 7}, CrashPoint)
    image = msgspec.structs.replace(LOSING.images[0], point=point)
    said = line(LOSING, image)
    assert said is not None
    assert read_line(said) == (Path("/records/r1"), point)
    assert ("then in recovery" in moment(LOSING, image)) == (kind == "in_recovery")


@pytest.mark.parametrize("said", ["", "/r", "/r:at=x:seed=1", "/r:at=1", "/r:at=1:seed=1:nonsense"])
def test_what_names_no_image_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="names no image"):
        read_line(said)
