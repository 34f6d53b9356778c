"""`flushlab fill` without a load: plans, and flags that would have no meaning."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from flushlab.cli.app import make_app
from flushlab.errors import UsageError
from flushlab.generate.plan import read_plan

app = make_app()


def run(*words: str) -> str:
    """What the command says on stdout; what stops it is raised."""
    result = CliRunner().invoke(app, ["fill", *words])
    if result.exception is not None:
        raise result.exception
    return str(result.stdout)


def test_a_plan_that_is_printed_is_one_of_your_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(run("users", "--print-plan"))
    assert read_plan(str(mine)).json == read_plan("users").json


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--print-plan", "--server", "mariadb"), "--server has no meaning"),
        (("--print-plan", "--rows", "3"), "--rows has no meaning"),
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
