"""What a crash campaign refuses once it knows the server, before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash import crash as crashes
from flushlab.campaign.pool.sandboxes import SandboxPool
from flushlab.campaign.watcher import Watcher
from flushlab.errors import UsageError
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.parts import RunSpec, ServerSpec
from flushlab.store import Store
from tests.unit.builds import MARIADB
from tests.unit.crashes import REQUEST


def test_a_setting_that_there_is_not_is_refused_before_the_campaign_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume: Any = None

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[SandboxPool]:
        yield SandboxPool(MARIADB, volume)

    monkeypatch.setattr(crashes, "open_servers", opened)
    monkeypatch.setattr(crashes, "open_store", lambda: Store(tmp_path / "store.sqlite"))
    said: list[str] = []
    with pytest.raises(UsageError, match="innodb_flush_log_at_trx_comit"):
        crashes.crash(failure="process", settings={"innodb_flush_log_at_trx_comit": 2}, progress=said.append)
    with Store(tmp_path / "store.sqlite") as store:
        assert list(store.campaigns()) == []
    assert said == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cluster": 3}, "not of a cluster"),
        ({"save_recording": "records"}, "--save-recording keeps recordings on this machine"),
        ({"replay": "records/r1:at=1:seed=1"}, "--replay takes no --fleet"),
    ],
)
def test_what_cannot_be_spread_over_machines_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as told:
        crashes.crash(fleet="127.0.0.1:9377", **given)
    assert told.value.hint


@pytest.mark.parametrize(
    ("began", "now", "goes_on"),
    [("", "", ""), ("a:1", "", "a:1"), ("a:1", "b:2", "b:2")],
)
def test_a_campaign_goes_on_where_it_began_or_at_the_fleets_new_address(
    began: str, now: str, goes_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUSHLAB_FLEET", now)
    request = msgspec.structs.replace(REQUEST, fleet=began)
    assert crashes._resumed_fleet(CrashSpec(), request, Watcher()) == goes_on


def test_a_campaign_that_began_on_one_machine_is_not_resumed_on_a_fleet() -> None:
    spec = CrashSpec(run=RunSpec(fleet="a:1"))
    with pytest.raises(UsageError, match="its crashes cannot go on elsewhere"):
        crashes._resumed_fleet(spec, REQUEST, Watcher())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (CrashSpec(server=ServerSpec(cluster=3)), "not of a cluster"),
        (CrashSpec(save_recording="records"), "--save-recording"),
    ],
)
def test_what_cannot_be_spread_crashes_here_if_only_the_environment_names_a_fleet(
    monkeypatch: pytest.MonkeyPatch, spec: CrashSpec, words: str
) -> None:
    monkeypatch.setenv("FLUSHLAB_FLEET", "a:1")
    said = list[str]()
    assert crashes._fleet(spec, Watcher(said.append)) == ""
    assert len(said) == 1
    assert words in said[0]
    assert crashes._fleet(CrashSpec(), Watcher(pytest.fail)) == "a:1"


def test_a_campaign_that_began_on_one_machine_goes_on_there_whatever_fleet_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLUSHLAB_FLEET", "a:1")
    said = list[str]()
    assert crashes._resumed_fleet(CrashSpec(), REQUEST, Watcher(said.append)) == ""
    assert "the campaign began on this machine alone" in said[0]
