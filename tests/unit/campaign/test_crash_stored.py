"""What is stored and said of a crash campaign that does not come to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash import campaign as campaigns
from flushlab.campaign.crash import stored
from flushlab.campaign.crash.campaign import CrashCampaign
from flushlab.campaign.crash.request import CrashRequest
from flushlab.campaign.crash.stored import Book, carry_out, record_of, remove_stumps
from flushlab.campaign.stored import stored_request
from flushlab.campaign.watcher import watching
from flushlab.crashed.cluster_recorded import ClusterRun
from flushlab.errors import ServerError
from flushlab.machine import ownership
from flushlab.record import CrashArm, CrashFacts, CrashImage, Failure, Warning
from flushlab.spec.kinds import CrashSpec
from flushlab.store import Store
from tests.unit.campaign.test_crash_replay import record
from tests.unit.crashes import REQUEST, facts, image

PLAN: Any = SimpleNamespace(
    images=2,
    which="",
    kind="power",
    fs="ext4",
    emulate=None,
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


def resumed(store: Store, known: CrashFacts, request: CrashRequest = REQUEST) -> str:
    """A campaign of an earlier session that has found this."""
    store.create_campaign("crash-1", "crash", msgspec.json.encode(request))
    store.set_state("crash-1", "interrupted", msgspec.json.encode(known))
    return "crash-1"


def arm_of(name: str, *images: CrashImage) -> CrashArm:
    return CrashArm(name=name, settings={}, images=images, guarantee=f"of {name}")


UNJUDGED = msgspec.structs.replace(image(1, "unknown"), reasons=("no space",))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ServerError("no room")])
@pytest.mark.parametrize("at_once", [True, False])
def test_nothing_that_was_judged_is_lost_when_a_later_session_ends_early(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: BaseException, at_once: bool
) -> None:
    known = facts(arm_of("base", image(0), UNJUDGED), arm_of("new", image(0), image(1)))
    campaign = resumed(store, known)
    monkeypatch.setattr(campaigns, "judges_again", lambda *_: True)
    monkeypatch.setattr(stored, "EVERY_S", 0.0)

    def crash(
        _plan: Any, _arm: CrashArm, _images: int, known: Any, note: Any, _mine: str
    ) -> tuple[CrashArm, bool]:
        if not at_once:
            note([known[0]])
            row = store.campaign(campaign)
            assert {arm.name for arm in msgspec.json.decode(row.result or b"", type=CrashFacts).arms} == {
                "base",
                "new",
            }, "a kill -9 now loses nothing either"
        raise error

    def run(book: Book) -> CrashFacts:
        return CrashCampaign(PLAN, "ledger", book).crash_all({"base": {}, "new": {}}, controls=False)

    monkeypatch.setattr(campaigns, "crash_arm", crash)
    with suppress(ServerError):
        carry_out(store, REQUEST, campaign, watching(lambda _: None), run)
    found = msgspec.json.decode(store.campaign(campaign).result or b"", type=CrashFacts)
    assert [(arm.name, len(arm.images)) for arm in found.arms] == [("base", 2 if at_once else 1), ("new", 2)]
    assert [arm.guarantee for arm in found.arms] == ["of base", "of new"]


def test_what_was_judged_of_an_arm_before_an_error_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(
        _plan: Any, _arm: CrashArm, _images: int, _known: Any, note: Any, _mine: str
    ) -> tuple[CrashArm, bool]:
        note([image(0)])
        raise ServerError("no room")

    ids: list[str] = []

    def run(book: Book) -> CrashFacts:
        ids.append(book.campaign)
        return CrashCampaign(PLAN, "ledger", book).crash_all({"base": {}}, controls=False)

    monkeypatch.setattr(campaigns, "crash_arm", crash)
    said: list[str] = []
    with pytest.raises(ServerError):
        carry_out(store, REQUEST, None, watching(said.append), run)
    found = msgspec.json.decode(store.campaign(ids[0]).result or b"", type=CrashFacts)
    assert [len(arm.images) for arm in found.arms] == [1]
    assert "has what was judged" in said[-1]


def test_a_campaign_goes_on_with_the_settings_that_it_began_with(tmp_path: Path, store: Store) -> None:
    request = msgspec.structs.replace(
        REQUEST,
        spec=CrashSpec(configurations=(str(tmp_path / "fast.cnf"),)),
        build_id="b1",
        planned={"fast": {"sync_binlog": 0, "innodb_doublewrite": "ON"}},
        warnings=(Warning("scaled", "the buffer pool is smaller"),),
    )
    resumed(store, facts(), request)
    assert stored_request(store, "crash-1", "crash", CrashRequest) == request


def test_a_record_that_was_cut_short_too_soon_is_removed_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {"stump": ("mine", False), "whole": ("mine", True), "other": ("another", False)}
    for name, (arm, whole) in begun.items():
        record(marked(tmp_path / f"{name}.record", arm), 7, whole=whole)
    (tmp_path / "nobodys.record").mkdir()
    marked(tmp_path / "without a load yet.record", "mine")
    marked(tmp_path / "nor of another.record", "another")
    record(marked(tmp_path / "newer.record", "mine"), 7, whole=False)
    (tmp_path / "newer.record/record.json").write_text('{"version": 2, "size": 4096}')
    removed: list[str] = []
    monkeypatch.setattr(stored, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["stump.record", "without a load yet.record"]
    assert record_of(tmp_path, "mine") == tmp_path / "whole.record"


def test_the_records_of_a_cluster_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ClusterRun(
        build="b",
        settings={},
        arguments=(),
        disks=("d1",),
        datadirs=("x",),
        fs="ext4",
        first_ns=0,
        last_ns=9,
        rows=1,
        database="d",
        commits_per_s=1.0,
    )
    marked(tmp_path / "a node's, not whole.record", "mine")
    whole = marked(tmp_path / "whole.record", "mine")
    (whole / "cluster.json").write_bytes(msgspec.json.encode(run))
    removed: list[str] = []
    monkeypatch.setattr(stored, "remove_record", lambda folder: removed.append(folder.name))
    remove_stumps(tmp_path, "mine")
    assert removed == ["a node's, not whole.record"]
    assert record_of(tmp_path, "mine") == whole


def marked(folder: Path, arm: str) -> Path:
    """The folder of a record, as a disk makes it."""
    ownership.make(str(folder), {"what": "disk-record", "token": ownership.new_token(), "arm": arm})
    return folder
