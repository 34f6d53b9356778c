"""`flushlab crash` without a server: flags that contradict each other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from flushlab.cli.app import make_app
from flushlab.errors import UsageError
from flushlab.record import CrashFacts
from tests.unit.crashes import BASE, LOSING, facts


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What crashes were asked for."""
    calls: list[dict[str, Any]] = []

    def crash(*_: object, **flags: Any) -> CrashFacts:
        calls.append(flags)
        return facts(BASE)

    monkeypatch.setattr("flushlab.campaign.crash.crash.crash", crash)
    return calls


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--replay", "r:at=1:seed=1", "--crashes", "4"], "--replay takes no --crashes:"),
        (["--replay", "r:at=1:seed=1", "--set", "sync_binlog=1"], "--replay takes no --set:"),
        (["--replay", "r:at=1:seed=1", "sync_binlog=1"], "--replay takes no configurations:"),
        (["--replay", "r:at=1:seed=1", "--tables", "2"], "--replay takes no --tables:"),
        (["--resume", "crash-1", "--crashes", "4"], "--resume takes no --crashes"),
        (["--resume", "crash-1", "--set", "sync_binlog=1"], "--resume takes no --set"),
    ],
)
def test_what_a_record_or_a_campaign_was_made_with_cannot_be_changed(flags: list[str], named: str) -> None:
    done = CliRunner().invoke(make_app(), ["crash", *flags])
    assert isinstance(done.exception, UsageError)
    assert done.exception.message.startswith(named)
    assert done.exception.hint


def test_what_fails_and_how_may_be_said_of_a_record(asked: list[dict[str, Any]]) -> None:
    flags = ["--server", "mysql@8.0", "--failure", "lying-disk", "--dropped-flushes", "3"]
    done = CliRunner().invoke(make_app(), ["crash", "--replay", "r:at=1:seed=1", *flags])
    assert done.exception is None
    assert asked[0]["dropped_flushes"] == 3


def test_a_broken_guarantee_is_exit_code_1_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    broke = msgspec.structs.replace(LOSING, floor="strict")
    monkeypatch.setattr("flushlab.campaign.crash.crash.crash", lambda **_: facts(broke))
    done = CliRunner().invoke(make_app(), ["crash", "--server", "mysql@8.0"])
    assert done.exit_code == 1
    assert "it broke its floor strict" in " ".join(done.stderr.split())
