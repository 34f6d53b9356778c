"""Recordings of a load: read back, cut by a kill, and compared without a claim about time."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from flushlab.diagnosis import recording
from flushlab.diagnosis.recording import Head, Recording, Stretch, read, record
from flushlab.errors import CountersReset, MeasurementError, NotWritable, StorageError
from flushlab.record import Endpoint, ObservedLoad
from flushlab.record.running import WatchedServer
from flushlab.report import load_diff
from tests.command import flushlab
from tests.unit.telemetry.live.told import MARIADB

REACH = WatchedServer(key="db1:3306", endpoint=Endpoint(host="db1", port=3306, user="me", password=""))
AT = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)


def load(commits: int, write_s: float, **more: Any) -> ObservedLoad:
    facts: dict[str, Any] = {"syncs": {"redo": 100.0}, "redo_bytes": 4000.0, "samples": 100, **more}
    return ObservedLoad(
        seconds=10.0, commits=commits, commits_by="binlog_commits", source="samples", write_s=write_s, **facts
    )


def made(
    path: str, loads: Sequence[ObservedLoad], settings: dict[str, Any] | None = None, **changed: Any
) -> Recording:
    head = Head(place="db1:3306", server=MARIADB, settings=settings or {"sync_binlog": 1})
    lines = tuple(Stretch(ended_at=AT, load=one, changed=changed) for one in loads)
    return Recording(path=path, head=head, stretches=lines)


def kept(path: Path, one: Recording, end: bytes = b"\n") -> Path:
    lines = [msgspec.json.encode(line) for line in (one.head, *one.stretches)]
    path.write_bytes(b"\n".join(lines) + end)
    return path


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
                cut(msgspec.structs.replace(load(50, 1.0), seconds=length))
            raise KeyboardInterrupt
        if self.left == self.reset_at:
            self.reset_at = 0
            raise CountersReset("FLUSH STATUS set counters of db1:3306 back")
        self.left -= 1
        self.settings_now["sync_binlog"] = self.left
        return load(100, 1.0)

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
    assert (found.load.commits, found.load.seconds, len(found.stretches)) == (350, 37.0, 4)
    assert found.changed == {"sync_binlog": 0}
    assert found.head == Head(place="db1:3306", server=MARIADB, settings={"sync_binlog": 1})


def test_no_file_is_overwritten(tmp_path: Path, observer: Any) -> None:
    path = tmp_path / "a.load"
    path.write_text("mine")
    with pytest.raises(NotWritable, match="exists already"):
        record(REACH, path, None, lambda _: None)
    assert path.read_text() == "mine"


def test_a_last_line_that_a_kill_has_cut_is_left_out(tmp_path: Path) -> None:
    one = made("a", [load(100, 1.0), load(200, 1.0)])
    path = kept(tmp_path / "a.load", one, end=b'\n{"ended_at":"2026-11-27T10:0')
    assert read(path).load.commits == 300


@pytest.mark.parametrize("text", ["", "{}\n", '{"schema":"flushlab.load/2"}\n', "garbage"])
def test_what_is_no_recording_is_named_so(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.load"
    path.write_text(text)
    with pytest.raises(StorageError, match="is no recording of a load"):
        read(path)


def test_a_recording_without_commits_has_nothing_to_compare(tmp_path: Path) -> None:
    for loads in ([], [load(0, 0.0)]):
        with pytest.raises(MeasurementError, match="nothing was committed in it"):
            read(kept(tmp_path / "a.load", made("a", loads)))


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


def test_a_short_stretch_is_no_scatter() -> None:
    loads = [load(100, 1.0)] * 3 + [msgspec.structs.replace(load(1, 5.0), seconds=1.0)]
    assert made("a", loads).scatter(lambda one: one.write_us) == 0.0


def test_ratios_are_those_of_whole_recordings_and_time_is_said_not_to_be_randomized() -> None:
    before = made("a", [load(100, 2.0), load(300, 6.0), load(200, 4.0)])
    after = made("b", [load(300, 3.0), load(600, 6.0), load(300, 3.0)], {"sync_binlog": 0})
    found = load_diff.document(before, after)
    assert found["schema"] == "flushlab.load-diff/1"
    assert (found["before"]["write_latency_us"], found["after"]["write_latency_us"]) == (20_000, 10_000)
    assert found["after_over_before"]["commits_per_s"] == 2.0
    assert found["after_over_before"]["redo_syncs_per_commit"] == 0.5
    assert found["settings"] == [{"name": "sync_binlog", "before": 1, "after": 0}]
    assert found["warnings"] == [load_diff.NOT_RANDOM]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(load_diff.render(before, after))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("warning: Time is not randomized") for line in lines)


def test_doubts_about_two_recordings_are_named() -> None:
    uneven = made("a", [load(100, 2.0), load(100, 4.0), load(100, 9.0)], sync_binlog=0)
    other = msgspec.structs.replace(
        made("b", [load(100, 2.0)]), head=Head(place="db2:3306", server=MARIADB, settings={"sync_binlog": 1})
    )
    told = "\n".join(load_diff.warnings(uneven, other))
    assert "a: sync_binlog changed during the recording" in told
    assert "a: write latency varies by 75% from one stretch to the next" in told
    assert "b: too short to see how much the load varies by itself" in told
    assert "two servers: mariadb@10.11.19 at db1:3306, mariadb@10.11.19 at db2:3306" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--diff", "a"], "--diff takes two recordings"),
        (["a"], "unexpected argument: a"),
        (["--diff", "a", "b", "--host", "db1"], "--host has no effect with --diff"),
        (["--diff", "a", "b", "--terminal"], "--terminal has no effect with --diff"),
        (["--record", "a", "--listen", "1"], "--listen has no effect with --record"),
        (["--json", "a"], "--json needs --diff"),
        (["--seconds", "3"], "--seconds needs --record"),
    ],
)
def test_words_without_effect_are_refused(words: list[str], message: str, tmp_path: Path) -> None:
    assert f"error: {message}" in flushlab("watch", *words, code=2, cwd=tmp_path).stderr


def test_the_command_compares_two_files(tmp_path: Path) -> None:
    for name, commits in (("a", 100), ("b", 200)):
        kept(tmp_path / name, made(name, [load(commits, 1.0)]))
    done = flushlab("watch", "--diff", "a", "b", "--json", "-", cwd=tmp_path)
    assert '"commits_per_s": 2.0' in done.stdout


def test_commits_of_two_counters_do_not_compare() -> None:
    before = made("a", [load(100, 1.0)] * 3)
    after = made("b", [msgspec.structs.replace(load(300, 1.0), commits_by="handler_commit")] * 3)
    found = load_diff.document(before, after)
    assert (
        not {"commits_per_s", "write_latency_us", "redo_bytes_per_commit"} & found["after_over_before"].keys()
    )
    assert any(
        "counted by binlog_commits before and by handler_commit after" in one for one in found["warnings"]
    )
