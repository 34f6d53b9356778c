"""What a campaign leaves when the store cannot keep its result."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.loop import Budget, Ending
from flushlab.campaign.stored import run_campaign, stored_request
from flushlab.campaign.watcher import watching
from flushlab.errors import NoSpace, StorageError, UsageError
from flushlab.experiment.protocol import Conversation, Steps
from flushlab.record import Ratio
from flushlab.store import Store


def nothing() -> Steps[None]:
    """Asks for no trial."""
    yield from ()


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
    monkeypatch.setattr("flushlab.campaign.stored.msgspec.json.encode", lambda _: b"{}")
    target: Any = SimpleNamespace(build=SimpleNamespace(id="x"))
    experiment: Any = Conversation(nothing())
    said: list[str] = []
    with Store(tmp_path / "store.sqlite") as store:
        found = run_campaign(
            REQUEST,
            target,
            store,
            None,
            watching(said.append),
            about="",
            experiment=experiment,
            known=store.trials,
            run_trial=lambda _: pytest.fail("nothing is asked for"),
            budget=Budget(),
            budget_s=None,
            began=0.0,
            conclude=conclude,
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

    monkeypatch.setattr("flushlab.campaign.stored.msgspec.json.encode", lambda _: b"{}")
    target: Any = SimpleNamespace(build=SimpleNamespace(id="x"))
    experiment: Any = Conversation(nothing())
    with Store(tmp_path / "store.sqlite") as store:
        found = run_campaign(
            REQUEST,
            target,
            store,
            None,
            watching(lambda _: None),
            about="",
            experiment=experiment,
            known=store.trials,
            run_trial=lambda _: pytest.fail("nothing is asked for"),
            budget=Budget(),
            budget_s=None,
            began=0.0,
            conclude=conclude,
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
            target: Any = SimpleNamespace(build=SimpleNamespace(id="x"))
            experiment: Any = Conversation(nothing())
            run_campaign(
                REQUEST,
                target,
                second,
                "tune-1",
                watching(lambda _: None),
                about="",
                experiment=experiment,
                known=second.trials,
                run_trial=lambda _: pytest.fail("nothing is asked for"),
                budget=Budget(),
                budget_s=None,
                began=0.0,
                conclude=lambda *_: pytest.fail("nothing ended"),
            )
        assert second.campaign("tune-1").state == "running"


def test_a_campaign_with_a_plan_that_is_only_half_understood_is_not_resumed(tmp_path: Path) -> None:
    plan = msgspec.json.encode({"estimate": 1.0, "low": 0.9, "high": 1.1, "standing": True})
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("tune-1", "tune", plan)
        with pytest.raises(StorageError, match="another version of flushlab: standing is not known here"):
            stored_request(store, "tune-1", "tune", Ratio)
