"""Where the store lies, and who may use it."""

from __future__ import annotations

import fcntl
import importlib
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from flushlab.errors import StorageError, UsageError
from flushlab.store import Store, open_store


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The cache and the state folder."""
    monkeypatch.delenv("FLUSHLAB_HOME", raising=False)
    home = importlib.import_module("flushlab.machine.home")
    monkeypatch.setattr(home, "ROOT_HOME", tmp_path / "cache")
    monkeypatch.setattr(home, "ROOT_STATE", tmp_path / "state")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "cache", tmp_path / "state"


def test_new_store_lies_in_the_state_folder_and_is_closed_to_others(folders: tuple[Path, Path]) -> None:
    with open_store() as store:
        store.create_campaign("tune-1", "tune", b"{}")
        files = list(folders[1].glob("store.sqlite*"))
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert len(files) == 3, "the log that is written ahead and its index too"
    assert stat.S_IMODE(folders[1].stat().st_mode) == 0o700
    assert not folders[0].exists()


def test_home_that_is_chosen_has_everything(private_home: Path) -> None:
    with open_store() as store:
        assert store.path == private_home / "store.sqlite"


@pytest.mark.parametrize("sql", ["CREATE TABLE mine (x)", ""])
def test_somebody_elses_file_is_refused_and_left(tmp_path: Path, sql: str) -> None:
    file = tmp_path / "store.sqlite"
    file.touch()
    with sqlite3.connect(file) as connection:
        connection.execute(sql)
    connection.close()
    before = file.read_bytes()
    with pytest.raises(StorageError, match="is not a store of flushlab"):
        Store(file)
    assert file.read_bytes() == before


HOLD = """
import sys
from pathlib import Path
from flushlab.store import Store
with Store(Path(sys.argv[1])) as store, store.hold("tune-1"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_campaign_is_held_by_one_process_and_let_go_by_sigkill(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with Store(file) as store:
            with (
                pytest.raises(UsageError, match="campaign tune-1 is running already") as raised,
                store.hold("tune-1"),
            ):
                pass
            assert raised.value.hint
            with store.hold("tune-2"):
                pass
            other.kill()
            other.wait()
            with store.hold("tune-1"):
                pass
    assert [path.name for path in tmp_path.iterdir()] == ["store.sqlite"]


def test_files_that_killed_processes_left_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        for name in ("tune-1", "tune-2", "tune-3"):
            store.create_campaign(name, "tune", b"{}")
        for name in ("tune-1", "tune-2", "strange"):
            (tmp_path / f".{name}.running").touch()
        with (tmp_path / ".tune-2.running").open("rb") as of_another:
            fcntl.flock(of_another, fcntl.LOCK_EX)
            with store.hold("tune-3"):
                pass
    left = sorted(path.name for path in tmp_path.glob(".*.running"))
    assert left == [".strange.running", ".tune-2.running"]


@pytest.mark.parametrize("name", ["../x", "tune/1", "", ".", "Tune-1"])
def test_what_cannot_be_an_id_is_no_campaign(tmp_path: Path, name: str) -> None:
    with Store(tmp_path / "store.sqlite") as store, pytest.raises(UsageError, match="there is no campaign"):
        store.campaign(name)
