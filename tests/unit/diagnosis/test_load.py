"""The load of a server between two readings of its counters, from pasted answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pymysql
import pytest

from flushlab.diagnosis import load as load_module
from flushlab.diagnosis import load as recording
from flushlab.diagnosis.evidence import commits_counter
from flushlab.diagnosis.files.recording import parse
from flushlab.diagnosis.files.told import Told
from flushlab.diagnosis.load import Head, LoadObserver, _Looks, between, record
from flushlab.errors import CountersReset, NotWritable, ServerDied, ServerError
from flushlab.record import Endpoint, ObservedLoad, WrittenStatements
from flushlab.record.running import WatchedServer
from flushlab.report.words import source_words
from flushlab.telemetry.live import questions
from flushlab.telemetry.live.questions import (
    HISTOGRAM,
    STATEMENTS,
    ThreadState,
    load_questions,
    parse_histogram,
    parse_statements,
)
from flushlab.telemetry.live.session import Gone
from flushlab.telemetry.live.status import ServerStatus
from tests.command import flushlab
from tests.unit.telemetry.live.told import MARIADB, MYSQL57, MYSQL97, seen

COUNTERS = {
    "uptime": "100",
    "binlog_commits": "500",
    "handler_rollback": "3",
    "innodb_os_log_written": "1000",
}
LATER = {"uptime": "104", "binlog_commits": "900", "handler_rollback": "5", "innodb_os_log_written": "41000"}
LOGGED = {"log_bin": "ON"}
INSERT = "sql/insert"
MYSQL_ROWS = [
    (b"statement/sql/insert", 1000, 2_000_000_000_000, 2),
    ("statement/sql/commit", 500, 1_000_000_000_000, 0),
    ("statement/com/Execute", 10, 5_000_000_000, 7),
]


def status(**facts: Any) -> ServerStatus:
    return seen(MARIADB, **{"variables": LOGGED, "files": {}, **facts})


def looks(*moments: list[ThreadState]) -> _Looks:
    found = _Looks()
    for states in moments:
        found.add(status(states=tuple(states), status=COUNTERS), 0.05)
    return found


def writer(one: int, state: str, verb: str = "insert") -> ThreadState:
    return ThreadState(one, "Query", 0, state, verb)


def test_latency_is_the_mean_number_of_writers_over_commits_per_second() -> None:
    met = looks(
        [writer(1, "Commit"), writer(2, "Update")],
        [writer(1, "Commit"), ThreadState(3, "Query", 0, "Sending data", "select")],
        [],
        [ThreadState(1, "Sleep", 0, "", "")],
    )
    before, after = status(at_s=10.0, status=COUNTERS), status(at_s=14.0, status=LATER)
    load = between(before, after, met)
    assert (load.source, load.samples, load.commits, load.commits_by) == ("samples", 4, 400, "binlog_commits")
    assert load.write_us == pytest.approx(3 / 4 / 100 * 1e6)
    assert load.commit_us == pytest.approx(2 / 4 / 100 * 1e6)
    assert (load.redo_bytes, load.rollbacks, load.errors) == (40_000, 2, None)


def test_a_moment_weighs_by_the_time_that_it_stands_for() -> None:
    """Idle moments are sampled more often than busy ones."""
    met = _Looks()
    for states, weight in (((writer(1, "Commit"),), 0.05), ((), 0.015), ((), 0.015), ((), 0.02)):
        met.add(status(states=states, status=COUNTERS), weight)
    load = between(status(at_s=10.0, status=COUNTERS), status(at_s=14.0, status=LATER), met)
    assert load.write_us == pytest.approx(0.5 / 100 * 1e6)


@pytest.mark.parametrize(
    ("inserts", "picoseconds", "source"),
    [
        (1400, 10**12, "statements"),
        (1100, 10**12, "samples"),
        (1400, 0, "samples"),
        (1004, 10**12, "samples"),
    ],
)
def test_sums_that_miss_accounts_or_time_leave_it_to_samples(
    inserts: int, picoseconds: int, source: str
) -> None:
    before = status(at_s=10.0, status=COUNTERS, statements=told(1000, 10**15))
    after = status(at_s=14.0, status=LATER, statements=told(inserts, 10**15 + picoseconds))
    assert between(before, after, looks([writer(1, "Commit")])).source == source


def told(inserts: int, picoseconds: int, executed: int = 0, failed: int = 0) -> Any:
    rows = [
        ("statement/sql/insert", inserts, picoseconds, failed),
        ("statement/com/Execute", executed, 1, 0),
    ]
    return parse_statements(rows)


def test_sums_of_performance_schema_come_before_samples_and_only_as_differences() -> None:
    before = status(at_s=10.0, status=COUNTERS, statements=told(1000, 10**15))
    after = status(at_s=14.0, status=LATER, statements=told(1400, 10**15 + 800 * 10**9, failed=1))
    load = between(before, after, looks([writer(1, "Commit")]))
    assert load.source == "statements"
    assert load.statements == {INSERT: WrittenStatements(count=400, seconds=load.write_s)}
    assert load.write_us == pytest.approx(2000)
    assert load.errors == 1


def test_sums_that_somebody_emptied_are_no_load() -> None:
    before = status(at_s=10.0, status=COUNTERS, statements=told(1000, 10**15))
    after = status(at_s=14.0, status=LATER, statements=told(100, 10**12))
    with pytest.raises(CountersReset, match="was truncated"):
        between(before, after, looks([]))


def test_prepared_statements_which_are_of_any_kind_leave_it_to_samples() -> None:
    before = status(at_s=10.0, status=COUNTERS, statements=told(1000, 10**15))
    after = status(at_s=14.0, status=LATER, statements=told(1100, 10**15 + 10**9, executed=300))
    load = between(before, after, looks([writer(1, "Commit")]))
    assert (load.source, load.statements, load.errors) == ("samples", {}, None)
    assert load.write_us == pytest.approx(1 / 100 * 1e6)


@pytest.mark.parametrize("kind", ["sql/call_procedure", "sql/execute_sql"])
def test_statements_in_procedures_leave_it_to_samples(kind: str) -> None:
    def commits(count: int, inside: int) -> Any:
        rows = [
            ("statement/sql/commit", count, count * 10**9, 0),
            (f"statement/{kind}", inside, inside * 10**10, 9),
        ]
        return parse_statements(rows)

    before = status(at_s=10.0, status=COUNTERS, statements=commits(100, 100))
    after = status(at_s=14.0, status=LATER, statements=commits(200, 200))
    load = between(before, after, looks([writer(1, "Commit")]))
    assert (load.source, load.errors) == ("samples", None)


def test_buckets_that_are_not_about_the_statements_that_ended_are_left_out() -> None:
    def reading(
        at_s: float, counters: dict[str, str], inserts: int, buckets: list[tuple[int, int]]
    ) -> ServerStatus:
        return status(
            at_s=at_s, status=counters, statements=told(inserts, inserts), histogram=parse_histogram(buckets)
        )

    before = reading(10.0, COUNTERS, 100, [(1_000_000_000, 100)])
    whole = reading(14.0, LATER, 500, [(1_000_000_000, 300), (2_000_000_000, 200)])
    assert between(before, whole, looks([])).histogram == {1000.0: 200, 2000.0: 200}
    with_past = reading(14.0, LATER, 500, [(1_000_000_000, 300), (2_000_000_000, 5000)])
    assert between(before, with_past, looks([])).histogram == {}


def test_a_server_that_started_anew_has_no_difference() -> None:
    before = status(at_s=10.0, status=LATER)
    for counters in (COUNTERS, {**LATER, "uptime": "1"}):
        with pytest.raises(ServerError, match="started anew"):
            between(before, status(at_s=14.0, status=counters), looks([]))


@pytest.mark.parametrize(
    "flushed",
    [
        {"binlog_commits": "7"},
        {"binlog_commits": "1700", "uptime_since_flush_status": "1"},  # it grew past what it had been
    ],
)
def test_counters_that_flush_status_set_back_are_no_restart(flushed: dict[str, str]) -> None:
    before = status(at_s=10.0, status=LATER | {"uptime_since_flush_status": "104"})
    after = status(at_s=14.0, status=LATER | {"uptime": "108", "uptime_since_flush_status": "108"} | flushed)
    with pytest.raises(CountersReset, match="FLUSH STATUS set counters of one back"):
        between(before, after, looks([]))


def test_a_server_that_does_not_count_commits_is_named_with_the_counter() -> None:
    with pytest.raises(ServerError, match="has no binlog_cache_use"):
        between(status(at_s=1.0, status={"uptime": "1"}), status(at_s=2.0, status={"uptime": "2"}), looks([]))


@pytest.mark.parametrize(
    ("variables", "counters", "name"),
    [
        ({"log_bin": "ON"}, {"binlog_commits": "1"}, "binlog_commits"),
        ({"log_bin": "ON"}, {"binlog_cache_use": "1"}, "binlog_cache_use"),
        ({"log_bin": "OFF"}, {"binlog_commits": "0", "handler_commit": "1"}, "handler_commit"),
        ({"log_bin": "OFF"}, {"innodb_max_trx_id": "5", "handler_commit": "1"}, "innodb_max_trx_id"),
        ({"log_bin": "ON", "wsrep_on": "ON"}, {"binlog_commits": "9"}, "wsrep_local_commits"),
    ],
)
def test_commits_are_counted_where_reads_are_not_if_there_is_such_a_counter(
    variables: dict[str, str], counters: dict[str, str], name: str
) -> None:
    assert commits_counter(status(variables=variables, status=counters)) == name


def test_sums_by_kind_leave_out_errors_of_statements_of_any_kind() -> None:
    sums, errors = parse_statements(MYSQL_ROWS)
    assert sums[INSERT] == WrittenStatements(count=1000, seconds=2.0)
    assert (set(sums), errors) == ({INSERT, "sql/commit", "com/Execute"}, 2)


def test_only_a_server_with_histograms_and_performance_schema_is_asked_for_them() -> None:
    on = {"performance_schema": "ON"}
    names = {
        one.version_text: [question.name for question in load_questions(one, variables)]
        for one, variables in ((MYSQL97, on), (MYSQL57, on), (MARIADB, {"performance_schema": "OFF"}))
    }
    histograms = {name for name, asked in names.items() if any("histogram" in one for one in asked)}
    sums = {name for name, asked in names.items() if "perf_schema.events_statements" in asked}
    assert histograms == {"9.7.4"}
    assert sums == {"9.7.4", "5.7.22"}


def test_a_look_that_sees_nobody_leaves_no_commit_latency() -> None:
    blind = _Looks()
    blind.add(msgspec.structs.replace(status(status=COUNTERS), states=None), 0.05)
    load = between(status(at_s=10.0, status=COUNTERS), status(at_s=14.0, status=LATER), blind)
    assert (load.samples, load.commit_us) == (0, None)


def test_two_numbers_of_mariadb_are_one_transaction() -> None:
    before, after = ({"uptime": "1", "innodb_max_trx_id": number} for number in ("100", "500"))
    quiet: dict[str, Any] = {"variables": {"log_bin": "OFF"}}
    load = between(
        status(at_s=1.0, status=before, **quiet), status(at_s=2.0, status=after, **quiet), looks([])
    )
    assert (load.commits, load.commits_by) == (200, "innodb_max_trx_id")
    assert "commits are half of the growth of Innodb_max_trx_id" in source_words(load)


class Answering:
    """A session whose server writes some transactions between two questions for its status.

    Args:
        told: write statements per transaction that performance_schema counts, stretch by stretch.
        refused: questions that the server refuses from then on.
        cut: answers with its status that it cuts short.
        commits: transactions between two questions.
    """

    def __init__(
        self,
        told: list[float] | None = None,
        refused: tuple[str, ...] = (),
        cut: int = 0,
        commits: int = 400,
    ) -> None:
        self._commits = commits
        self._told, self._refused, self._cut = list(told or []), refused, cut
        self._statements, self._at = 1000, 0
        self.seen = status(status=COUNTERS, statements=told_of(1000), histogram={1000.0: 1000}, states=())

    def ask_now(self, *names: str) -> None:
        if questions.STATUS in names and self._cut:
            self._cut -= 1
            self.seen = msgspec.structs.replace(self.seen, failed=frozenset({questions.STATUS}))
            return
        news: dict[str, Any] = {"failed": frozenset(self._refused)}
        if STATEMENTS in names and self._at and STATEMENTS not in self._refused:
            self._statements += round(self._commits * (self._told.pop(0) if self._told else 1.0))
            news["statements"] = told_of(self._statements)
        if questions.STATUS in names:
            counters = {**COUNTERS, "uptime": str(100 + 4 * self._at)}
            counters["binlog_commits"] = str(500 + self._commits * self._at)
            news |= {"status": counters, "at_s": 10.0 + 4 * self._at}
            self._at += 1
        self.seen = msgspec.structs.replace(self.seen, **news)

    def close(self) -> None:
        pass


def told_of(count: int) -> Any:
    return told(count, count * 10**9)


def observing(session: Answering, monkeypatch: pytest.MonkeyPatch, **more: bool) -> LoadObserver:
    monkeypatch.setattr(load_module, "Session", lambda *_, **__: session)
    node: Any = object()
    return LoadObserver([node], **more)


def test_what_a_server_refuses_from_then_on_is_empty_and_no_old_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing = Answering(refused=(STATEMENTS, HISTOGRAM, questions.FILES))
    found = observing(refusing, monkeypatch).observe(0.0)
    assert (found.source, found.histogram, found.commits) == ("samples", {}, 400)


def test_a_status_that_is_cut_short_is_asked_for_again_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert observing(Answering(cut=2), monkeypatch).observe(0.0).commits == 400
    with pytest.raises(CountersReset, match="cut 3 answers short"):
        observing(Answering(cut=9), monkeypatch).observe(0.0)


@pytest.mark.parametrize(
    ("one_source", "sources"),
    [(True, ["statements", "samples", "samples"]), (False, ["statements", "samples", "statements"])],
)
def test_a_comparison_has_one_source(
    one_source: bool, sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements of one stretch were prepared; each stretch asks at both ends."""
    session = Answering([1.0, 1.0, 0.1, 1.0, 1.0])
    observer = observing(session, monkeypatch, one_source=one_source)
    assert [observer.observe(0.0).source for _ in range(3)] == sources


def test_a_slow_load_has_one_source_after_some_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stretch has ten commits."""
    session = Answering([1.0, 1.0, 0.1, 1.0, 0.1], commits=10)
    observer = observing(session, monkeypatch, one_source=True)
    sources = [observer.observe(0.0).source for _ in range(5)]
    assert sources == ["statements", *["samples"] * 4]


def test_another_server_at_the_address_is_no_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Answering()
    here = {**session.seen.variables, "hostname": "db1"}
    session.seen = msgspec.structs.replace(session.seen, variables=here)
    observer = observing(session, monkeypatch)
    observer.observe(0.0)
    moved = {**here, "hostname": "db2"}
    session.seen = msgspec.structs.replace(session.seen, variables=moved)
    for _ in range(2):
        with pytest.raises(ServerError, match="another server answers"):
            observer.observe(0.0)


@pytest.mark.parametrize(("errno", "kind"), [(1045, ServerError), (2013, ServerDied)])
def test_a_login_that_is_refused_is_no_server_to_be_asked_again(
    errno: int, kind: type[ServerError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Gone(pymysql.OperationalError(errno, "refused"))

    monkeypatch.setattr(load_module, "Session", refuse)
    with pytest.raises(ServerError, match=f"error {errno}") as raised:
        LoadObserver([WatchedServer(key="db1", endpoint=Endpoint(user="me", password=""))]).observe(0)
    assert type(raised.value) is kind and raised.value.hint


REACH = WatchedServer(key="db1:3306", endpoint=Endpoint(host="db1", port=3306, user="me", password=""))


def load(commits: int, seconds: float = 10.0) -> ObservedLoad:
    return ObservedLoad(
        seconds=seconds, commits=commits, commits_by="binlog_commits", source="samples", write_s=1.0
    )


def read(path: Path) -> Told:
    return parse(path.read_text())


class Observer:
    """One whose every stretch is the same, until Ctrl-C."""

    def __init__(self, *_: object) -> None:
        self.settings_now = {"sync_binlog": 1}
        self.left = 3
        self.reset_at = 0

    def settings(self) -> Any:
        return MARIADB, dict(self.settings_now)

    def observe(self, seconds: float, cut: Callable[[ObservedLoad], None]) -> ObservedLoad:
        if not self.left:
            for length in (0.2, 7.0):
                cut(load(50, length))
            raise KeyboardInterrupt
        if self.left == self.reset_at:
            self.reset_at = 0
            raise CountersReset("FLUSH STATUS set counters of db1:3306 back")
        self.left -= 1
        self.settings_now["sync_binlog"] = self.left
        return load(100)

    def close(self) -> None:
        self.left = -1


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Observer]:
    made_: list[Observer] = []

    def make(*_: object) -> Observer:
        made_.append(Observer())
        return made_[-1]

    monkeypatch.setattr(recording, "LoadObserver", make)
    return lambda: made_[-1]


def test_what_was_recorded_until_ctrl_c_is_read_back(tmp_path: Path, observer: Any) -> None:
    path = tmp_path / "a.load"
    with pytest.raises(KeyboardInterrupt):
        record(REACH, path, None, lambda _: None)
    assert observer().left == -1
    found = read(path)
    loads = [(one.load.commits, one.load.seconds) for one in found.stretches]
    assert loads == [(100, 10.0), (100, 10.0), (100, 10.0), (50, 7.0)]
    assert found.stretches[-1].changed == {"sync_binlog": 0}
    assert found.head == Head(place="db1:3306", server=MARIADB, settings={"sync_binlog": 1})


def test_no_file_is_overwritten(tmp_path: Path, observer: Any) -> None:
    path = tmp_path / "a.load"
    path.write_text("mine")
    with pytest.raises(NotWritable, match="exists already"):
        record(REACH, path, None, lambda _: None)
    assert path.read_text() == "mine"


def test_a_stretch_in_which_counters_were_set_back_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = Observer()
    observer.reset_at = 2
    monkeypatch.setattr(recording, "LoadObserver", lambda *_: observer)
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        record(REACH, tmp_path / "a.load", None, told.append)
    assert told[1:] == ["FLUSH STATUS set counters of db1:3306 back: the last 10 s are left out"]
    assert len(read(tmp_path / "a.load").stretches) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--record", "a", "--terminal"], "--terminal has no effect with --record"),
        (["--record", "a", "--listen", "1"], "--listen has no effect with --record"),
        (["--record", "-"], "--record writes a file"),
        (["--seconds", "3"], "--seconds needs --record"),
    ],
)
def test_words_without_effect_are_refused(words: list[str], message: str, tmp_path: Path) -> None:
    assert f"error: {message}" in flushlab("watch", *words, code=2, cwd=tmp_path).stderr
