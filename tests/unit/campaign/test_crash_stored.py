"""What is stored and said of a crash campaign that does not come to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash import campaign as campaigns
from flushlab.campaign.crash import stored
from flushlab.campaign.crash.campaign import CrashCampaign
from flushlab.campaign.crash.stored import Book, carry_out, record_of, remove_stumps
from flushlab.campaign.watcher import watching
from flushlab.errors import ServerError
from flushlab.record import CrashArm, CrashFacts, Failure
from flushlab.store import Store
from tests.unit.campaign.test_crash_replay import record
from tests.unit.crashes import REQUEST, facts, image

PLAN: Any = SimpleNamespace(
    images=2,
    which="",
    kind="power",
    fs="ext4",
    seed=1,
    failure=Failure(kind="power"),
    load=SimpleNamespace(has_ledger=True, beside_name=""),
    target=SimpleNamespace(identity=SimpleNamespace(title="MariaDB 10.11.19"), nodes=1),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def ending(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: BaseException, *, second: bool
) -> tuple[str, list[str]]:
    """Its id and what is said, if the first arm, or the second one, ends with an error."""
    said: list[str] = []
    ids: list[str] = []

    def crash(_plan: Any, arm: CrashArm, *_: Any) -> tuple[CrashArm, bool]:
        if second and arm.name == "base":
            return msgspec.structs.replace(arm, images=(image(0), image(1))), False
        raise error

    def run(book: Book) -> CrashFacts:
        ids.append(book.campaign)
        return CrashCampaign(PLAN, "ledger", book).crash_all({"base": {}, "new": {}}, controls=False)

    monkeypatch.setattr(campaigns, "crash_arm", crash)
    with pytest.raises(type(error)):
        carry_out(store, REQUEST, None, watching(said.append), run)
    return ids[0], said


def test_what_was_judged_before_an_error_is_kept_and_can_be_resumed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, said = ending(store, monkeypatch, ServerError("no room"), second=True)
    row = store.campaign(campaign)
    assert row.state == "failed"
    assert [arm.name for arm in msgspec.json.decode(row.result or b"", type=CrashFacts).arms] == ["base"]
    assert said[-1].endswith(f"resume it with: flushlab crash --resume {campaign}")


@pytest.mark.parametrize(("again", "outcome"), [(True, "kept"), (False, "unknown")])
def test_what_could_not_be_judged_of_a_whole_arm_is_judged_again_where_it_can_be(
    store: Store, monkeypatch: pytest.MonkeyPatch, again: bool, outcome: str
) -> None:
    monkeypatch.setattr(campaigns, "judges_again", lambda *_: again)

    def crash(_plan: Any, arm: CrashArm, *_: Any) -> tuple[CrashArm, bool]:
        return msgspec.structs.replace(arm, images=(image(0), image(1))), False

    monkeypatch.setattr(campaigns, "crash_arm", crash)
    unjudged = msgspec.structs.replace(image(1, "unknown"), reasons=("no space",))
    base = CrashArm(name="base", settings={}, images=(image(0), unjudged))
    book = Book(store, "crash-1", facts(base))
    found = CrashCampaign(PLAN, "ledger", book).crash_all({"base": {}}, controls=False)
    assert found.arms[0].images[1].outcome == outcome


def test_nothing_is_to_be_resumed_where_the_first_arm_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, said = ending(store, monkeypatch, ServerError("no room"), second=False)
    assert store.campaign(campaign).result is None
    assert not any("resume" in line for line in said)


def test_a_ctrl_c_before_anything_was_judged_says_how_it_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, said = ending(store, monkeypatch, KeyboardInterrupt(), second=False)
    assert store.campaign(campaign).state == "interrupted"
    assert said[-1].endswith(f"interrupted; resume it with: flushlab crash --resume {campaign}")


def test_a_record_that_was_cut_short_too_soon_is_removed_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {"stump": ("mine", False), "whole": ("mine", True), "other": ("another", False)}
    for name, (arm, whole) in begun.items():
        (tmp_path / f"{name}.record").mkdir()
        record(tmp_path / f"{name}.record", 7, arm=arm, whole=whole)
    (tmp_path / "nobodys.record").mkdir()
    (tmp_path / "newer.record").mkdir()
    record(tmp_path / "newer.record", 7, arm="mine", whole=False)
    (tmp_path / "newer.record/record.json").write_text('{"version": 2, "size": 4096}')
    removed: list[str] = []
    monkeypatch.setattr(stored, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["stump.record"]
    assert record_of(tmp_path, "mine") == tmp_path / "whole.record"
