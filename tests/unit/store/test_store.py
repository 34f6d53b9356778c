from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import cast

import msgspec
import pytest

from flushlab.errors import StorageError, UsageError
from flushlab.store import State, Store, open_store
from flushlab.store.store import VERSION
from flushlab.version import __version__
from tests.unit.crashes import CONTROL, judged, rows
from tests.unit.records import trial


def test_trials_come_back_equal_and_in_order(tmp_path: Path) -> None:
    saved = [trial(result=float(n)) for n in (3, 1, 2)]
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("tune-1", "tune", b"{}")
        for record in saved:
            store.save("tune-1", record)
    with Store(tmp_path / "store.sqlite") as store:
        assert list(store.trials("tune-1")) == saved
        assert store.campaign("tune-1").trials == 3


def test_crashes_are_rows_beside_trials_and_a_later_row_of_one_number_replaces_an_earlier_one(
    tmp_path: Path,
) -> None:
    unknown, again, other = rows(msgspec.structs.replace(CONTROL, crashes=(judged(0, "unknown"),) * 3))
    again = msgspec.structs.replace(again, number=0, crash=judged(0))
    with Store(tmp_path / "store.sqlite") as store:
        for campaign in ("tune", "crash"):
            store.create_campaign(campaign, campaign, b"{}")
            for row in (unknown, trial(), other, again):
                store.save(campaign, row)
    with Store(tmp_path / "store.sqlite") as store:
        assert list(store.crashes("crash")) == [other, again]
        assert list(store.trials("tune")) == [trial()]
        counts = [store.campaign(campaign).trials for campaign in ("tune", "crash")]
    assert counts == [1, 3], "the rows of its own kind"


def test_result_survives_a_later_change_of_state(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("tune-1", "tune", b"{}")
        store.set_state("tune-1", "done", b'{"winner":1}')
        store.set_state("tune-1", "done")
        assert store.campaign("tune-1").result == b'{"winner":1}'


def test_unknown_campaign_names_one_that_is_near(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("tune-1", "tune", b"{}")
        with pytest.raises(UsageError) as raised:
            store.campaign("tune-2")
    assert raised.value.hint == "the nearest is tune-1"


def test_a_file_that_is_no_store_is_a_storage_error(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(StorageError, match=r"store\.sqlite"):
        Store(path)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_store_of_another_schema_is_refused_and_left_alone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "store.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StorageError, match="schema version"):
        Store(path)
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (version,)


def test_a_saved_trial_survives_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    program = (
        "import os, pathlib, signal, sys\n"
        "from flushlab.store import Store\n"
        "from tests.unit.records import trial\n"
        "store = Store(pathlib.Path(sys.argv[1]))\n"
        "store.create_campaign('tune-1', 'tune', b'{}')\n"
        "store.save('tune-1', trial())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -9
    with Store(path) as store:
        row = store.campaign("tune-1")
        assert (row.trials, row.state) == (1, "running")
        assert store.as_it_stands(row).state == "interrupted", "whoever carried it on was killed"
        with store.hold("tune-1"):
            assert store.as_it_stands(row).state == "running"
        ended = msgspec.structs.replace(row, state="done")
        assert store.as_it_stands(ended) == ended


def test_a_full_file_system_says_so_and_keeps_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        store.create_campaign("tune-1", "tune", b"{}")
        store.save("tune-1", trial())
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StorageError, match="full"):
            for _ in range(100):
                store.save("tune-1", trial())
        kept = list(store.trials("tune-1"))
    assert kept and kept[0] == trial()


def test_an_unknown_campaign_names_the_nearest(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        for campaign in (
            "tune-20261121-104206-79a6",
            "tune-20261121-104206-79a7",
            "series-20261003-000000-beef",
        ):
            store.create_campaign(campaign, "tune", b"{}")
        with pytest.raises(UsageError) as raised:
            store.campaign("tune-20261121-104206-79aa")
    assert raised.value.hint == "the nearest are tune-20261121-104206-79a7, tune-20261121-104206-79a6"


def test_campaigns_are_listed_the_latest_first(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        for campaign in ("tune-1", "series-2", "tune-3"):
            store.create_campaign(campaign, campaign.split("-")[0], b"{}")
        set_created(store.path, {"tune-1": "2026-11-01", "series-2": "2026-11-03", "tune-3": "2026-11-02"})
        store.save("tune-3", trial())
        rows = store.campaigns()
    assert [(row.id, row.kind, row.trials) for row in rows] == [
        ("series-2", "series", 0),
        ("tune-3", "tune", 1),
        ("tune-1", "tune", 0),
    ]
    assert rows[0].flushlab == __version__


def test_the_latest_finished_campaign_is_neither_running_nor_interrupted(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        for day, state in enumerate(("done", "done", "interrupted", "failed"), 1):
            store.create_campaign(f"tune-{day}", "tune", b"{}")
            store.set_state(f"tune-{day}", cast(State, state))
        store.create_campaign("tune-5", "tune", b"{}")
        set_created(store.path, {f"tune-{day}": f"2026-11-0{day}" for day in range(1, 6)})
        assert store.latest_finished().id == "tune-2"


def test_a_store_without_a_finished_campaign_says_so(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        with pytest.raises(UsageError) as raised:
            store.latest_finished()
        assert raised.value.hint == "no campaign has been run yet"
        store.create_campaign("tune-1", "tune", b"{}")
        with pytest.raises(UsageError, match="no finished campaign") as raised:
            store.latest_finished()
        assert raised.value.hint == "the latest are tune-1"


def test_asking_for_an_existing_store_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with pytest.raises(UsageError, match="does not exist"):
        Store.existing(path)
    assert not path.exists()
    Store(path).close()
    with Store.existing(path) as store:
        assert store.campaigns() == []


def set_created(path: Path, days: dict[str, str]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "UPDATE campaign SET created_at = ? WHERE id = ?", [(day, one) for one, day in days.items()]
        )


def test_finished_campaigns_of_one_kind_come_latest_first(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        for name, kind, state in (
            ("probe-1", "probe", "done"), ("tune-2", "tune", "done"), ("probe-3", "probe", "failed"),
            ("probe-4", "probe", "done"),
        ):  # fmt: skip
            store.create_campaign(name, kind, b"{}")
            store.set_state(name, cast(State, state), b"{}")
        assert [row.id for row in store.finished("probe")] == ["probe-4", "probe-1"]


def test_trials_and_crashes_of_another_format_are_an_error_that_names_who_wrote_them(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        for kind, row in (("trial", "tune"), ("crash", "crash")):
            store.create_campaign(f"{row}-1", row, b"{}")
            store._connection.execute(
                "INSERT INTO trial (campaign_id, number, ended_at, record, kind)"
                " VALUES (?, 1, ?, x'7b7d', ?)",
                (f"{row}-1", "2026-11-26T10:00:00.000+00:00", kind),
            )
        with pytest.raises(StorageError, match=r"campaign tune-1 of .* stored by another build of flushlab"):
            list(store.trials("tune-1"))
        with pytest.raises(StorageError, match=r"campaign crash-1 of .* stored by another build of flushlab"):
            list(store.crashes("crash-1"))


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
