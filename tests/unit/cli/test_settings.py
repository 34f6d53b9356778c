from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from flushlab.cli.settings import settings
from flushlab.errors import UnknownSetting

app = typer.Typer()
app.command()(settings)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_one_setting_is_explained_for_every_version(capsys: pytest.CaptureFixture[str]) -> None:
    settings("innodb-doublewrite", None)
    text = capsys.readouterr().out
    assert "mysql before 8.0.30: ON or OFF; default ON; needs a restart" in text
    assert "mariadb since 11.0.6: OFF, ON, fast; default ON; dynamic" in text
    assert "https://jira.mariadb.org/browse/MDEV-33545" in text


def test_all_settings_are_listed_as_json() -> None:
    document = json.loads(run("--json", "-"))
    assert document["schema"] == "flushlab.settings/1"
    names = [one["name"] for one in document["settings"]]
    assert "sync_binlog" in names
    assert len(names) == len(set(names)) >= 40


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownSetting) as caught:
        run("sync_binlogs")
    assert "sync_binlog" in str(caught.value.hint)
