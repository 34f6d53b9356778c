"""`flushlab doctor --from`: files in place of a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.inside import flushlab
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import VARIABLES, box, connection, processlists, tabs

COMMITTING = [connection(one, "Query", 0, "waiting for handler commit", "COMMIT") for one in (7, 8)]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A sample of pt-stalk: two writers that commit all the time."""
    for name, text in (
        ("mysqladmin", "".join(box(outputs.status(at, Com_insert=9 * at)) for at in range(31))),
        ("variables", tabs(VARIABLES)),
        ("processlist", processlists([COMMITTING] * 30)),
    ):
        (tmp_path / f"2026_01_01_00_00_00-{name}").write_text(text)
    return tmp_path


def test_a_sample_of_pt_stalk_is_judged_as_a_server_is(sample: Path) -> None:
    done = flushlab("doctor", "--from", str(sample), "--full")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "mysql@8.0.40" and str(sample) in done.stdout
    assert "from files 30 s in 3 files" in done.stdout
    assert (
        "\n".join(lines[1:5])
        .partition("?\n")[2]
        .startswith("Writes are bound: commits wait for the sync of redo log and binary log")
    )
    assert "  - 2026_01_01_00_00_00-mysqladmin: SHOW GLOBAL STATUS (31)" in lines
    short = flushlab("doctor", "--from", str(sample)).stdout.splitlines()
    assert max(map(len, short[2:])) <= 80


def test_the_document_and_the_plan_are_made_of_files_too(sample: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    done = flushlab("doctor", "--from", str(sample), "--json", "-", "--plan", str(plan))
    found = json.loads(done.stdout)
    assert found["address"] == str(sample)
    assert found["seconds"] == 30.0
    assert found["files"][0] == "2026_01_01_00_00_00-mysqladmin: SHOW GLOBAL STATUS (31)"
    assert plan.read_text().startswith("# Made by flushlab doctor from mysql@8.0.40, 30 s of it in files.")


def test_findings_without_a_share_are_shown_where_no_connections_were_seen(tmp_path: Path) -> None:
    waits = box(outputs.status()) + box(outputs.status(10, Innodb_log_waits=50, Com_insert=90))
    (tmp_path / "a").write_text(waits)
    done = flushlab("doctor", "--from", str(tmp_path))
    assert "Statements wait for room in the redo log buffer" in done.stdout
    assert "Not judged (--full): where writers spend their time" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("-h", "db1"),
        ("--seconds", "30"),
        ("--server", "sandbox:x"),
        ("--defaults-file", "/x"),
        ("-p",),
        ("--check-account",),
    ],
)
def test_options_for_a_server_are_refused(sample: Path, words: tuple[str, ...]) -> None:
    done = flushlab("doctor", "--from", str(sample), *words)
    assert done.returncode == 2
    assert "has no effect with --from" in done.stderr
    assert "hint: remove one of them" in done.stderr


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (None, 5, "cannot be read: No such file or directory"),
        ("hello\n", 2, "tells nothing of a server: not known"),
        ("\0\1", 5, "is no text but binary"),
        (box(outputs.status()) + box(outputs.status(-900)), 4, "Uptime falls from 1,000 s"),
    ],
)
def test_files_that_tell_nothing_have_their_exit_code(
    tmp_path: Path, text: str | None, code: int, says: str
) -> None:
    if text is not None:
        (tmp_path / "a").write_text(text)
    done = flushlab("doctor", "--from", str(tmp_path / "a"), "--json", str(tmp_path / "out.json"))
    assert done.returncode == code
    assert says in done.stderr
    assert "hint: " in done.stderr
    assert not (tmp_path / "out.json").exists()
