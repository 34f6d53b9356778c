"""`flushlab fill` without a load: files of rows and plans, and flags that would have no meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flushlab.cli.app import make_app
from flushlab.errors import UsageError

app = make_app()


def run(*words: str) -> str:
    """What the command says on stdout; what stops it is raised."""
    result = CliRunner().invoke(app, ["fill", *words])
    if result.exception is not None:
        raise result.exception
    return str(result.stdout)


def test_rows_are_exported_with_the_statement_that_loads_them(tmp_path: Path) -> None:
    file, document = tmp_path / "u.tsv.gz", tmp_path / "u.json"
    said = run("users", "--rows", "50", "--export", str(file), "--json", str(document))
    assert "50 rows" in said
    assert f"LOAD DATA LOCAL INFILE '{tmp_path / 'u.tsv'}' INTO TABLE `users`" in said
    written = json.loads(document.read_text())
    assert (written["schema"], written["rows"]) == ("flushlab.fill-export/1", 50)
    assert written["bytes"] == file.stat().st_size


def test_a_plan_that_is_printed_is_one_of_your_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(run("users", "--print-plan"))
    run(str(mine), "--rows", "3", "--export", str(tmp_path / "mine.csv"))
    assert len((tmp_path / "mine.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--export", "u.csv", "--server", "mariadb"), "--server has no meaning"),
        (("--print-plan", "--rows", "3"), "--rows has no meaning"),
        (("--export", "u.xls"), "does not say what to write"),
        (("--from-schema", "shop"), "needs one server"),
        (("--from-schema", "shop", "--server", "mariadb"), "it is a build"),
        (("--from-schema", "mysql://me@localhost"), "names no database"),
    ],
)
def test_what_has_no_meaning_is_refused(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        run(*words)
    assert raised.value.hint


def test_a_plan_is_never_written_over_a_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("precious")
    with pytest.raises(UsageError, match="exists"):
        run(str(mine), "--from-schema", "mysql://me@localhost/shop")
    assert mine.read_text() == "precious"
