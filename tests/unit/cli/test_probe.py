from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from flushlab.cli.app import make_app
from flushlab.errors import FlushlabError
from flushlab.machine import ownership
from flushlab.store import Store
from tests.loading import loaded_by_command
from tests.unit.cli.inside import flushlab
from tests.unit.probes import probe_record


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home with one stored probe, that the servers' user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="flh-", dir="/tmp"))
    folder.chmod(0o755)
    mark = {"what": "home", "name": folder.name, "token": ownership.new_token()}
    ownership.mark_existing(str(folder), mark)
    with Store(folder / "store.sqlite") as store:
        store.create_campaign("probe-1", "probe", b'{"title": "x"}')
        store.set_state("probe-1", "done", msgspec.json.encode(probe_record()))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--data-root", "/nowhere/at/all"], 5, "does not exist"),
        (["--data-root", "/etc/passwd"], 5, "is not a directory"),
        (["--json", "/nowhere/x.json"], 5, "cannot be written"),
        (["--html", "/nowhere/x.html"], 5, "cannot be written"),
        (["--trx-commit", "fast"], 2, "is neither a floor nor two settings"),
        (["--trx-commit", "4/1"], 2, "does not exist"),
        (["--binlog-strategy", "quick"], 2, "is not a binlog write strategy"),
        (["--threads", "0"], 2, "--threads 0 is out of range"),
        (["--window", "0"], 2, "out of range"),
        (["--window", "nan"], 2, "out of range"),
        (["--against", "a:1", "--server", "mariadb"], 2, "cannot be combined"),
        (["--set", "sync_binlog=1"], 2, "--set needs --server"),
        (["--against", "probe-1:x"], 2, "is not a trial"),
        (["--against", "tune-9"], 2, "there is no campaign"),
        (["--against", "probe-1:1"], 2, "has no trial 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_said_before_anything_is_measured(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, told: str
) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(home))
    error = CliRunner().invoke(make_app(), ["probe", *words]).exception
    assert isinstance(error, FlushlabError)
    assert (error.exit_code, bool(error.hint)) == (code, True)
    assert told in error.message


def test_a_directory_that_may_not_be_written_to_is_named(home: Path) -> None:
    done = flushlab("probe", "--data-root", "/proc", home=home)
    assert done.returncode == 5
    assert "error:" in done.stderr and "hint:" in done.stderr


def test_help_has_an_example_and_fits_80_columns(home: Path) -> None:
    done = flushlab("probe", "--help", home=home)
    assert done.returncode == 0
    assert "flushlab probe --data-root /var/lib/mysql --quick" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_stored_probe_is_listed_and_rendered(home: Path, tmp_path: Path) -> None:
    listed = flushlab("report", "--list", home=home).stdout
    assert "xfs nvme0n1p2" in listed and "redo 1.50× [1.42, 1.58] at strict 1/1" in listed
    done = flushlab("report", cwd=tmp_path, home=home)
    assert (done.returncode, done.stdout) == (0, "wrote flushlab-probe-1.html\n")
    assert "ceiling at strict 1/1" in (tmp_path / "flushlab-probe-1.html").read_text()


def test_its_document_is_that_of_the_command(home: Path, tmp_path: Path) -> None:
    done = flushlab("report", "probe-1", "--html", str(tmp_path / "x.html"), "--json", "-", home=home)
    assert json.loads(done.stdout)["schema"] == "flushlab.probe/1"


def test_the_command_loads_no_heavy_library(home: Path, tmp_path: Path) -> None:
    fake = (
        "from flushlab.probe import run\nfrom tests.fakes.commit_path import FakeCommitPath\n"
        "run.FILE_BYTES = 1 << 20\nrun.probe.__defaults__ = (FakeCommitPath,)\n"
    )
    words = ("probe", "--quick", "--window", "0.05", "--data-root", str(tmp_path))
    loaded, printed = loaded_by_command(*words, before=fake, FLUSHLAB_HOME=str(home), COLUMNS="80")
    assert not loaded & {"scipy", "numpy", "matplotlib", "jinja2"}
    assert "\x1b" not in printed and max(map(len, printed.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []
