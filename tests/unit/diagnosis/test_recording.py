"""Recordings of a load: what is in the file, and what the command refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flushlab.diagnosis import load as recording
from flushlab.diagnosis.files.recording import parse
from flushlab.diagnosis.files.told import Told
from flushlab.diagnosis.load import Head, record
from flushlab.errors import CountersReset, NotWritable
from flushlab.record import Endpoint, ObservedLoad
from flushlab.record.running import WatchedServer
from tests.command import flushlab
from tests.unit.telemetry.live.told import MARIADB

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
