"""What a machine tells of itself for `fleet status`."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.cli.fleet import _lines
from flushlab.errors import NoSpace
from flushlab.fleet import connect, status
from flushlab.fleet.status import MachineStatus
from flushlab.record import OtherLoad


def test_a_machine_without_room_tells_all_but_its_disks_speed(
    monkeypatch: pytest.MonkeyPatch, private_home: object
) -> None:
    def full(directory: object) -> tuple[float, float]:
        raise NoSpace("the probe needs 100 MiB", hint="make room")

    quiet = OtherLoad(seconds=1.0, cpu_share=0.0, steal_share=0.0)
    monkeypatch.setattr(status, "_disk", full)
    monkeypatch.setattr("flushlab.machine.pressure.watch", lambda *_: quiet)
    monkeypatch.setattr(connect, "require_ray", lambda: "2.60.0")
    found = msgspec.json.decode(status.facts("m2", "10.0.0.6"), type=MachineStatus)
    assert (found.problem, found.sync_us_p50) == ("the probe needs 100 MiB", None)
    assert found.cpu_count > 0
    lines = _lines(found)
    assert lines[1] == "  not usable: the probe needs 100 MiB"
    assert lines[3].endswith(" free; not measured")
    user = msgspec.structs.replace(found, is_root=False)
    assert f"  flushlab {found.flushlab} without root, Ray 2.60.0, Python {found.python}" in _lines(user)
    assert not [
        line for line in _lines(msgspec.structs.replace(found, is_root=True)) if "without root" in line
    ]


def test_a_machine_that_does_not_answer_has_one_line_of_why() -> None:
    gone = MachineStatus(name="m2", address="10.0.0.6", problem="no answer within 60 s")
    assert _lines(gone) == ["m2  10.0.0.6", "  not usable: no answer within 60 s"]
