"""What a campaign leaves when the store cannot keep its result."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash.experiment import CrashRequest
from flushlab.campaign.loop import CampaignSession, Ending, Run, run_campaign, stored_request
from flushlab.campaign.request import SeriesRequest, TuneRequest
from flushlab.campaign.watcher import watching
from flushlab.errors import NoSpace, StorageError, UsageError
from flushlab.experiment.protocol import Conversation, Steps
from flushlab.record import Ratio, Trial
from flushlab.store import Store


def nothing() -> Steps[None]:
    """Asks for no trial."""
    yield from ()


def campaign(conclude: Callable[[str, Ending], Ratio]) -> Run[Trial, Ratio]:
    """A campaign that asks for no trial."""
    experiment: Any = Conversation(nothing())
    return Run("", experiment, lambda _: (), lambda _: pytest.fail("nothing is asked for"), conclude)


REQUEST: Any = SimpleNamespace(kind="tune", build="mariadb@10.11.19", build_id="x", workload="upsert")


def test_a_result_that_the_store_cannot_keep_is_returned_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Store.set_state

    def full(self: Store, campaign_id: str, state: Any, result: bytes | None = None) -> None:
        if result is not None:
            raise NoSpace("the file system is full", hint="free some space and go on with --resume")
        kept(self, campaign_id, state)

    def conclude(campaign_id: str, ending: Ending) -> Ratio:
        return Ratio(estimate=1.5, low=1.4, high=1.6)

    monkeypatch.setattr(Store, "set_state", full)
    monkeypatch.setattr("flushlab.campaign.loop.msgspec.json.encode", lambda _: b"{}")
    said: list[str] = []
    with Store(tmp_path / "store.sqlite") as store:
        found = run_campaign(
            REQUEST, "x", CampaignSession(store, watching(said.append), "tune-1", 0.0), campaign(conclude)
        )
    assert found.estimate == 1.5
    assert "the file system is full; free some space and go on with --resume" in said[-1]


def test_ctrl_c_while_the_result_is_gathered_tells_what_was_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endings: list[Ending] = []

    def conclude(campaign_id: str, ending: Ending) -> Ratio:
        endings.append(ending)
        if ending == "done":
            raise KeyboardInterrupt
        return Ratio(estimate=1.5, low=1.4, high=1.6)

    monkeypatch.setattr("flushlab.campaign.loop.msgspec.json.encode", lambda _: b"{}")
    with Store(tmp_path / "store.sqlite") as store:
        found = run_campaign(
            REQUEST, "x", CampaignSession(store, watching(lambda _: None), "tune-1", 0.0), campaign(conclude)
        )
        assert [row.state for row in store.campaigns()] == ["interrupted"]
    assert found.estimate == 1.5
    assert endings == ["done", "interrupted"]


def test_a_campaign_that_runs_cannot_be_resumed_and_its_state_stays(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as first, Store(tmp_path / "store.sqlite") as second:
        first.create_campaign("tune-1", "tune", b"{}")
        with (
            first.hold("tune-1"),
            pytest.raises(UsageError, match="campaign tune-1 is running already") as raised,
        ):
            stored_request(second, "tune-1", "tune", Ratio)
        assert raised.value.hint is not None
        assert second.campaign("tune-1").state == "running"
        with first.hold("tune-1"), pytest.raises(UsageError, match="running already"):
            session = CampaignSession(second, watching(lambda _: None), "tune-1", 0.0, resumes=True)
            run_campaign(REQUEST, "x", session, campaign(lambda *_: pytest.fail("nothing ended")))
        assert second.campaign("tune-1").state == "running"


def test_a_campaign_with_a_plan_that_is_only_half_understood_is_not_resumed(tmp_path: Path) -> None:
    plan = msgspec.json.encode({"estimate": 1.0, "low": 0.9, "high": 1.1, "kept_running": True})
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("tune-1", "tune", plan)
        with pytest.raises(StorageError, match=r"another build of flushlab .*does not read$") as raised:
            stored_request(store, "tune-1", "tune", Ratio)
    assert "use the flushlab that stored it, or start a new campaign" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("kind", "request_type"),
    [
        ("tune", TuneRequest),
        ("series", SeriesRequest),
        ("compare", SeriesRequest),
        ("crash", CrashRequest),
    ],
)
@pytest.mark.parametrize("plan", [b"{}", b'{"spec": 1}', b"no JSON", b"[]"])
def test_a_campaign_of_another_format_is_not_resumed_and_no_decoder_speaks(
    kind: str, request_type: type[Any], plan: bytes, tmp_path: Path
) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign(f"{kind}-1", kind, plan)
        with pytest.raises(StorageError, match=rf"^campaign {kind}-1 of .* was stored by .*") as raised:
            stored_request(store, f"{kind}-1", kind, request_type)
    assert not re.search(r"Object|Expected|`|\$|malformed", raised.value.message)
    assert raised.value.hint == (
        f"use the flushlab that stored it, or start a new campaign with flushlab {kind}"
    )
