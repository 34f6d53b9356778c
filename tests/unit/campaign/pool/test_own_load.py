"""The load on a user's own server: settings that it would not notice, and counters that are set back."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.campaign.pool import own_load
from flushlab.campaign.pool.own_load import TRIES, ObservedSlices, _require_noticed
from flushlab.errors import CountersReset, UsageError
from flushlab.server.control import READ_ONLY_VARIABLE, StatementFailed

ACCESS_DENIED = 1227


class Server:
    """One that answers a question for a session's value with this error; 0: with the value."""

    def __init__(self, errno: int) -> None:
        self._errno = errno

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        if self._errno:
            raise StatementFailed(self._errno, "no", sql)
        return [(1,)]


def required(errno: int) -> None:
    server: Any = Server(errno)
    _require_noticed(server, ["sync_binlog"])


def test_a_global_setting_is_noticed_and_a_copied_one_is_not() -> None:
    required(READ_ONLY_VARIABLE)
    with pytest.raises(UsageError, match="open connections keep the value"):
        required(0)


def test_another_error_is_no_proof_that_a_setting_is_global_alone() -> None:
    with pytest.raises(StatementFailed, match="1227"):
        required(ACCESS_DENIED)


class Observer:
    """One whose first slices have their counters set back."""

    def __init__(self, spoiled: int) -> None:
        self.spoiled, self.asked = spoiled, 0

    def observe(self, seconds: float) -> float:
        self.asked += 1
        if self.asked <= self.spoiled:
            raise CountersReset("FLUSH STATUS set counters of db1:3306 back")
        return seconds


@pytest.fixture
def no_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_load, "LEAD_S", 0.0)


@pytest.mark.parametrize("spoiled", range(TRIES))
def test_a_slice_whose_counters_are_set_back_is_observed_again(no_lead: None, spoiled: int) -> None:
    observer: Any = Observer(spoiled)
    windows: list[None] = []
    found: Any = ObservedSlices(observer).slice(5.0, lambda: windows.append(None))
    assert (found, observer.asked, len(windows)) == (5.0, spoiled + 1, 2)


def test_counters_that_are_set_back_again_and_again_end_the_trial_with_a_word(no_lead: None) -> None:
    observer: Any = Observer(TRIES)
    with pytest.raises(CountersReset, match="db1:3306 back, in each of 3 slices of 5 s") as raised:
        ObservedSlices(observer).slice(5.0)
    assert "find who runs it" in str(raised.value.hint)
