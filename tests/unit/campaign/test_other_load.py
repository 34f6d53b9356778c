"""Before the first trial: is the machine quiet, and is it waited for?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from flushlab.campaign import loop
from flushlab.campaign.loop import blame, check_other_load, reasons
from flushlab.campaign.watcher import Watcher
from flushlab.errors import MeasurementError
from flushlab.record import OtherLoad

QUIET = OtherLoad(seconds=3.0, cpu_share=0.02, steal_share=0.01, disk_share=0.0)
BUSY = OtherLoad(seconds=3.0, cpu_share=0.62, steal_share=0.12, disk_share=0.4)
NOWHERE = Path("/")


def seeing(*seen: OtherLoad) -> Callable[[float, Path], OtherLoad]:
    left = list(seen)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(loop.SWITCH, raising=False)
    monkeypatch.setattr(loop, "PAUSE_S", 0.0)


def test_a_quiet_machine_is_said_in_one_line() -> None:
    lines: list[str] = []
    assert check_other_load(NOWHERE, Watcher(lines.append), wait=False, watch=seeing(QUIET)) == QUIET
    assert lines == ["machine: quiet (others: CPU 2%, disk 0%, steal 1%)"]


def test_a_busy_machine_is_said_with_the_way_out_and_measured_all_the_same() -> None:
    lines: list[str] = []
    assert check_other_load(NOWHERE, Watcher(lines.append), wait=False, watch=seeing(BUSY)) == BUSY
    (line,) = lines
    assert line.startswith(
        "warning: the machine is busy: other programs use 62% of the CPU time, the disk is busy for 40% of "
        "the time, the hypervisor takes 12% of the CPU time. "
    )
    assert "--wait-for-quiet" in line


@pytest.mark.parametrize(
    ("field", "share"), [("cpu_share", 0.26), ("steal_share", 0.11), ("disk_share", 0.26)]
)
def test_each_kind_of_load_alone_makes_it_busy(field: str, share: float) -> None:
    assert not reasons(QUIET)
    assert f"{share:.0%}" in reasons(msgspec.structs.replace(QUIET, **{field: share}))
    assert not reasons(msgspec.structs.replace(QUIET, disk_share=None))


def test_waiting_checks_again_until_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "TELL_S", 0.0)
    lines: list[str] = []
    seen = check_other_load(NOWHERE, Watcher(lines.append), wait=True, watch=seeing(BUSY, BUSY, QUIET))
    assert seen is not None
    assert seen.waited_s > 0
    assert lines[0].startswith("waiting for a quiet machine, at most 30 min: other programs use 62%")
    assert lines[1].startswith("still waiting after ")
    assert lines[-1].startswith("machine: quiet after ")


def test_waiting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MOST_WAIT_S", 0.0)
    with pytest.raises(MeasurementError, match="not quiet within") as raised:
        check_other_load(NOWHERE, Watcher(), wait=True, watch=seeing(BUSY))
    assert raised.value.exit_code == 4
    assert raised.value.hint


def test_ctrl_c_ends_the_waiting() -> None:
    looks = iter([BUSY])

    def watch(*_: object) -> OtherLoad:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        check_other_load(NOWHERE, Watcher(), wait=True, watch=watch)


def test_the_check_can_be_switched_off_but_waiting_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loop.SWITCH, "off")
    lines: list[str] = []
    assert check_other_load(NOWHERE, Watcher(lines.append), wait=False, watch=seeing(BUSY)) is None
    assert lines == []
    assert check_other_load(NOWHERE, Watcher(lines.append), wait=True, watch=seeing(BUSY, QUIET)) is not None


def test_a_machine_that_was_busy_is_blamed_where_trials_cannot_tell() -> None:
    assert blame(40, 0, BUSY).startswith(
        "The machine was busy before the first trial: other programs used 62% of the CPU time"
    )
    assert blame(40, 31, BUSY) == "The machine was too busy: 31 of 40 trials disturbed"
    assert blame(40, 0, QUIET) == blame(40, 0, None) == ""
