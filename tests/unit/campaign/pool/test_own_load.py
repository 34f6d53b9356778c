"""The load on a user's own server: settings that it would not notice, and counters that are set back."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.campaign.pool import own_load
from flushlab.campaign.pool.own_load import (
    TRIES,
    ObservedSlices,
    _require_difference,
    _require_no_group,
    _require_noticed,
)
from flushlab.errors import CountersReset, FlushlabError, LoadPaused, MeasurementError, ServerDied, UsageError
from flushlab.record import ObservedLoad, Value
from flushlab.server.control import READ_ONLY_VARIABLE, StatementFailed
from flushlab.server.remote.server import RemoteGroup
from tests.fakes.server import FakeServer

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


BACK = CountersReset("FLUSH STATUS set counters of db1:3306 back", hint="find who runs it")


def load(commits: int, seconds: float = 5.0) -> ObservedLoad:
    return ObservedLoad(
        seconds=seconds, commits=commits, commits_by="binlog_commits", source="samples", write_s=1.0
    )


class Observer:
    """One whose first slices are spoiled."""

    def __init__(self, spoiled: int, error: FlushlabError = BACK) -> None:
        self.spoiled, self.asked, self.error, self.commits = spoiled, 0, error, 0

    def observe(self, seconds: float) -> ObservedLoad:
        self.asked += 1
        if self.asked <= self.spoiled:
            raise self.error
        self.commits += 400
        return load(400, seconds)


@pytest.fixture
def no_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_load, "OWN_LOAD_LEAD_S", 0.0)


@pytest.mark.parametrize("error", [BACK, ServerDied("db1:3306 does not answer any more")])
@pytest.mark.parametrize("spoiled", range(TRIES))
def test_a_slice_that_is_spoiled_is_observed_again_in_a_window_of_its_own(
    no_lead: None, spoiled: int, error: FlushlabError
) -> None:
    observer: Any = Observer(spoiled, error)
    windows: list[int] = []
    found = ObservedSlices(observer, lambda: True).slice(5.0, lambda: windows.append(observer.asked))
    assert (found.seconds, observer.asked) == (5.0, spoiled + 1)
    assert windows[-2:] == [spoiled, spoiled + 1], "the last two are around the slice that counts"


def test_counters_that_are_set_back_again_and_again_end_the_trial_with_a_word(no_lead: None) -> None:
    observer: Any = Observer(TRIES)
    with pytest.raises(CountersReset, match="db1:3306 back, in each of 3 slices of 5 s") as raised:
        ObservedSlices(observer, lambda: True).slice(5.0)
    assert "find who runs it" in str(raised.value.hint)


def test_a_server_without_a_sign_of_life_is_not_observed_again(no_lead: None) -> None:
    observer: Any = Observer(TRIES, ServerDied("db1:3306 does not answer any more"))
    with pytest.raises(ServerDied):
        ObservedSlices(observer, lambda: False).slice(5.0)
    assert observer.asked == 1


def test_a_configuration_that_changes_nothing_is_refused() -> None:
    node: Any = FakeServer(values={"sync_binlog": 1, "innodb_flush_log_at_trx_commit": 2})
    node.address = type("Address", (), {"name": "db1:3306"})
    server = RemoteGroup([node])
    base: dict[str, Value] = {"sync_binlog": 1}
    _require_difference(server, [base, {"innodb_flush_log_at_trx_commit": 1}])
    with pytest.raises(UsageError, match="innodb_flush_log_at_trx_commit=2 changes nothing: db1:3306"):
        _require_difference(server, [base, {"innodb_flush_log_at_trx_commit": 2}])
    with pytest.raises(UsageError, match="sync_binlog=0 changes nothing"):
        _require_difference(server, [{"sync_binlog": 0}, {"sync_binlog": 1}, {"sync_binlog": 0}])


def test_a_load_that_pauses_is_no_fault_of_the_arm_and_one_that_never_ran_is(no_lead: None) -> None:
    observer: Any = Observer(0)
    slices: Any = ObservedSlices(observer, lambda: True)
    with pytest.raises(MeasurementError, match="has no load to measure") as raised:
        slices.measured([load(0)])
    assert not isinstance(raised.value, LoadPaused)
    slices.slice(5.0)
    alone = slices.measured([load(0), load(0)])
    assert (alone.result, alone.observed.commits) == (0.05, 0), "others committed in the block"
    with pytest.raises(LoadPaused, match="nothing was committed within 10"):
        slices.measured([load(0), load(0)])


class Member:
    """A server with these variables of Group Replication."""

    def __init__(self, told: dict[str, str]) -> None:
        self.nodes = (self,)
        self.address = type("Address", (), {"name": "db1:3306"})
        self._told = told

    def query(self, sql: str) -> list[tuple[str, str]]:
        return [*self._told.items()]


def test_a_member_of_a_group_with_several_primaries_is_refused() -> None:
    group = {"group_replication_group_name": "6f1b0c3e"}
    for told in ({}, {"group_replication_group_name": ""}, {**group, own_load._SINGLE: "ON"}):
        member: Any = Member(told)
        _require_no_group(member)
    several: Any = Member({**group, own_load._SINGLE: "OFF"})
    with pytest.raises(UsageError, match="several primaries"):
        _require_no_group(several)


@pytest.mark.parametrize("name", ["binlog_cache_size", "binlog_stmt_cache_size"])
def test_a_cache_that_a_connection_keeps_is_refused(name: str) -> None:
    server: Any = Server(READ_ONLY_VARIABLE)
    with pytest.raises(UsageError, match="makes its cache with the first transaction"):
        _require_noticed(server, ["sync_binlog", name])
