"""What keeps an arm from being crashed, with the way out that fits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.campaign.crash import arm as crash_arms
from flushlab.campaign.crash.arm import crash_arm
from flushlab.errors import NoMemory, NoSpace
from flushlab.record import CrashArm, CrashKind


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (NoSpace("the server's disk is full", hint="its own", of_data=True), "power", "--disk-size 2048"),
        (NoSpace("the server's disk is full", hint="its own", of_data=True), "process", "its own"),
        (NoSpace("the record in /k needs 64 MiB", hint="its own"), "power", "its own"),
        (NoMemory("the pool cannot be mapped", hint="its own"), "power", "its own"),
    ],
)
def test_only_a_disk_that_was_too_small_is_to_be_larger(
    error: NoSpace, kind: CrashKind, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise error

    for way in ("_killed", "_recorded"):
        monkeypatch.setattr(crash_arms, way, full)
    plan: Any = SimpleNamespace(kind=kind, which_of=lambda _: "", disk_bytes=1 << 30)
    with pytest.raises(NoSpace) as told:
        crash_arm(plan, CrashArm(name="base", settings={}), 1, (), lambda _: None, "")
    assert hint in (told.value.hint or "")
