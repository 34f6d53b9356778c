from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flushlab.record import Launch, Trial
from flushlab.store import CampaignRow, Store
from flushlab.store.store import records
from tests.loading import loaded_by_command
from tests.unit.cli.inside import Done, flushlab
from tests.unit.report import campaigns as made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a finished series, a later finished tuning and one that runs."""
    folder = tmp_path_factory.mktemp("home")
    with Store(folder / "store.sqlite") as store:
        for number, (row, trials) in enumerate([made.serial(), made.tuned()], 1):
            store.create_campaign(f"{row.kind}-{number}", row.kind, row.plan)
            for trial in trials:
                store.save(f"{row.kind}-{number}", trial)
            store.set_state(f"{row.kind}-{number}", "done", row.result)
        running: CampaignRow = made.row("series", None)
        store.create_campaign("series-3", "series", running.plan)
        for trial in made.trials_of(made.SERIES_ARMS, "arms", blocks=1):
            store.save("series-3", trial)
    yield folder


def report(home: Path, *words: str, cwd: Path | None = None) -> Done:
    return flushlab("report", *words, home=home, cwd=cwd)


def test_the_latest_finished_campaign_is_rendered(home: Path, tmp_path: Path) -> None:
    done = report(home, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "wrote flushlab-tune-2.html\n"
    page = (tmp_path / "flushlab-tune-2.html").read_text()
    assert "1.62× as fast as the base at floor second" in page
    assert "innodb_log_buffer_size = 64M" in page
    assert "SET GLOBAL innodb_flush_log_at_trx_commit = 2;" in page


def test_a_page_needs_no_home_directory_of_the_user(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MPLCONFIGDIR")  # which tests share
    monkeypatch.setenv("HOME", "/nonexistent")
    done = subprocess.run(
        [sys.executable, "-m", "flushlab", "report"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "FLUSHLAB_HOME": str(home)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list((home / "matplotlib").iterdir()), "the list of fonts is in flushlab's home"


@pytest.mark.parametrize(
    ("campaign", "words"), [("series-1", "2.40×"), ("series-3", "Nothing is proven yet")]
)
def test_a_campaign_is_rendered_by_its_id(home: Path, tmp_path: Path, campaign: str, words: str) -> None:
    done = report(home, campaign, "--html", str(tmp_path / "x.html"))
    assert (done.returncode, done.stderr) == (0, "")
    assert words in (tmp_path / "x.html").read_text()


def test_a_page_goes_to_stdout(home: Path) -> None:
    done = report(home, "tune-2", "--html", "-")
    assert done.stdout.startswith("<!DOCTYPE html>") and done.stdout.endswith("</html>\n")


def test_json_is_the_document_of_the_command_that_ran(home: Path, tmp_path: Path) -> None:
    for campaign, kind in (("tune-2", "tune"), ("series-1", "series")):
        done = report(home, campaign, "--html", str(tmp_path / "x.html"), "--json", "-")
        document = json.loads(done.stdout)
        assert (document["schema"], document["kind"]) == ("flushlab.campaign/1", kind)


def test_json_and_trials_write_no_page_unless_it_is_named(home: Path, tmp_path: Path) -> None:
    for words in (["--json", "a.json"], ["--trials", "a.jsonl"], ["--json", "-"]):
        assert report(home, "tune-2", *words, cwd=tmp_path).returncode == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.json", "a.jsonl"]
    done = report(home, "tune-2", "--json", "-", "--html", "a.html", cwd=tmp_path)
    assert json.loads(done.stdout)["campaign_id"]
    assert (tmp_path / "a.html").is_file()


def test_trials_are_whole_records_a_line_each(home: Path) -> None:
    lines = report(home, "tune-2", "--trials", "-").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["number"] for row in rows] == list(range(1, 21))
    assert {row["campaign"] for row in rows} == {"tune-2"}
    (first, *_) = made.tuned()[1]
    plain = {name: value for name, value in rows[0].items() if name not in ("campaign", "number")}
    assert msgspec.convert(plain, Trial) == first


def test_trials_of_a_running_campaign_are_those_so_far(home: Path) -> None:
    assert len(report(home, "series-3", "--trials", "-").stdout.splitlines()) == 6


def test_trials_as_a_table_have_the_columns_of_the_python_records(home: Path, tmp_path: Path) -> None:
    assert report(home, "tune-2", "--trials", "t.csv", cwd=tmp_path).returncode == 0
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = records("tune-2", store=home / "store.sqlite")
    assert list(rows[0]) == [*dict.fromkeys(name for row in expected for name in row)]
    shown = [[row["arm.name"], row["block"], row["load.latency_us.p99"]] for row in rows]
    assert shown == [
        [row["arm.name"], str(row["block"]), str(row["load.latency_us.p99"])] for row in expected
    ]


def test_the_list_has_two_lines_a_campaign_and_a_document(home: Path) -> None:
    done = report(home, "--list")
    assert [line.split()[0] for line in done.stdout.splitlines()[::2]] == ["series-3", "tune-2", "series-1"]
    assert max(map(len, done.stdout.splitlines())) <= 80
    listed = json.loads(report(home, "--list", "--json", "-").stdout)
    assert [one["trials"] for one in listed["campaigns"]] == [6, 20, 40]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["tune-22"], 2, "the nearest is tune-2"),
        (["--list", "tune-2"], 2, "--list takes no campaign"),
        (["series-3", "--json", "-"], 2, "has no result yet"),
        (["tune-2", "--html", "/nowhere/x.html"], 5, "cannot be written"),
        (["tune-2", "--json", "-", "--trials", "-"], 2, "stdout takes one output only"),
        (["--list", "--trials", "-"], 2, "no --markdown and no --trials"),
        (["tune-2", "--html", "-", "--json", "-"], 2, "stdout takes one output only"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_said(home: Path, words: list[str], code: int, told: str) -> None:
    done = report(home, *words)
    assert done.returncode == code
    assert told in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_home_without_a_store_is_left_alone(tmp_path: Path) -> None:
    done = report(tmp_path / "home", "--list")
    assert done.returncode == 2
    assert "there are no campaigns" in done.stderr
    assert not (tmp_path / "home").exists()


def test_the_list_loads_no_heavy_library(home: Path) -> None:
    loaded, printed = loaded_by_command("report", "--list", FLUSHLAB_HOME=str(home))
    assert not loaded & {"scipy", "numpy", "matplotlib", "jinja2"}
    assert "tune-2" in printed


def test_a_page_loads_no_scipy(home: Path, tmp_path: Path) -> None:
    words = ("report", "--html", str(tmp_path / "x.html"))
    assert not loaded_by_command(*words, FLUSHLAB_HOME=str(home))[0] & {"scipy", "matplotlib.pyplot"}


def test_help_has_an_example_and_fits_80_columns(home: Path) -> None:
    done = report(home, "--help")
    assert done.returncode == 0
    assert "flushlab report tune-" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_stored_tuning_hands_over_the_files_of_another_floor(tmp_path: Path) -> None:
    row, trials = made.tuned()
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("tune-1", "tune", row.plan)
        for trial in trials:
            store.save("tune-1", msgspec.structs.replace(trial, launch=Launch()))
        store.set_state("tune-1", "done", row.result)
    done = report(tmp_path, "tune-1", "--floor", "strict", "--out", str(tmp_path / "strict"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "1.08× as fast as the base at floor strict" in done.stdout
    page = (tmp_path / "strict" / "report.html").read_text()
    assert "1.08× as fast as the base at floor strict" in page
    statements = (tmp_path / "strict" / "settings.sql").read_text()
    assert "innodb_log_buffer_size" in statements and "trx_commit" not in statements
    lower = report(tmp_path, "tune-1", "--floor", "relaxed", "--out", str(tmp_path / "relaxed"))
    assert lower.returncode == 2
    assert "tried candidates for a result at floor second, none at floor relaxed" in lower.stderr
    assert not (tmp_path / "relaxed").exists()
