"""What is stored and said of a crash campaign, whatever ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash import crash as crashes
from flushlab.campaign.crash.crash import _crash_all
from flushlab.campaign.crash.experiment import CrashExperiment, CrashRequest
from flushlab.campaign.crash.plan import load_of
from flushlab.campaign.loop import stored_request
from flushlab.campaign.watcher import Watcher
from flushlab.errors import ServerError
from flushlab.experiment.protocol import Request
from flushlab.record import CrashArm, CrashFacts, CrashRow, Warning
from flushlab.report.stored import crash_of
from flushlab.spec.kinds import CrashSpec
from flushlab.store import Store
from tests.unit.builds import MARIADB
from tests.unit.crashes import REQUEST, judged

ASKED = msgspec.structs.replace(REQUEST, build_id=MARIADB.id, planned={"base": {}, "new": {}})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


class Killed(BaseException):
    """Stands for SIGKILL: nothing behind it runs."""


def crashed(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    fate: Callable[[str, int], BaseException | None] = lambda *_: None,
    resumed: str | None = None,
) -> tuple[CrashFacts, list[str]]:
    """A campaign of two crashes of two configurations without a positive control, and what is said.

    Args:
        fate: what ends it at a crash of an arm, if anything does.
        resumed: campaign that goes on.
    """
    said: list[str] = []

    class Runner:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Runner:
            return self

        def __exit__(self, *_: object) -> None: ...

        def run(self, request: Request) -> CrashRow:
            if (error := fate(request.arm.name, request.block)) is not None:
                raise error
            arm = CrashArm(name=request.arm.name, settings=request.arm.settings, guarantee="its own")
            return CrashRow(arm=arm, number=request.block, crash=judged(request.block))

    monkeypatch.setattr(crashes, "CrashRunner", Runner)
    arms = [CrashArm(name=name, settings={}) for name in ASKED.planned]
    plan: Any = SimpleNamespace(
        watcher=Watcher(said.append),
        target=SimpleNamespace(build=MARIADB, settings=SimpleNamespace(key=MARIADB.id), fleet=None),
        experiment=lambda _: CrashExperiment(arms, 2, None),
    )
    return _crash_all(ASKED, plan, store, resumed, 0.0), said


def found(store: Store) -> list[tuple[str, list[str]]]:
    """What a report says of the only campaign: its arms with their outcomes."""
    (row,) = store.campaigns()
    facts = crash_of(store.as_it_stands(row), store.crashes(row.id))
    return [(arm.name, [one.outcome for one in arm.crashes]) for arm in facts.arms]


def test_every_crash_is_a_row_as_soon_as_it_is_judged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[int] = []

    def look(arm: str, number: int) -> None:
        (row,) = store.campaigns()
        stored.append(row.trials)

    facts, said = crashed(store, monkeypatch, look)
    (row,) = store.campaigns()
    assert (stored, row.trials, row.state) == ([0, 1, 2, 3], 4, "done")
    assert (facts.ending, facts.campaign) == ("done", row.id)
    assert found(store) == [("base", ["kept"] * 2), ("new", ["kept"] * 2)]
    assert said == [
        f"campaign {row.id}: 2 crashes of each configuration",
        *(line for line in said if "judged" in line),
    ]
    assert "base: 2 of 2 judged, 2 kept all" in said[1]


@pytest.mark.parametrize(
    ("error", "state"),
    [(KeyboardInterrupt(), "interrupted"), (ServerError("no room"), "failed"), (Killed(), "interrupted")],
)
def test_whatever_ends_a_campaign_nothing_that_was_judged_is_lost_and_it_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: BaseException, state: str
) -> None:
    def ends(arm: str, number: int) -> BaseException | None:
        return error if (arm, number) == ("new", 1) else None

    if isinstance(error, KeyboardInterrupt):
        facts, _ = crashed(store, monkeypatch, ends)
        assert facts.ending == "interrupted"
    else:
        with pytest.raises(type(error)):
            crashed(store, monkeypatch, ends)
    (row,) = store.campaigns()
    assert store.as_it_stands(row).state == state
    assert found(store) == [("base", ["kept"] * 2), ("new", ["kept"])]
    ran: list[tuple[str, int]] = []
    facts, _ = crashed(store, monkeypatch, lambda *request: ran.append(request), row.id)
    assert ran == [("new", 1)]
    assert [len(arm.crashes) for arm in facts.arms] == [2, 2]
    assert [arm.guarantee for arm in facts.arms] == ["its own"] * 2
    (row,) = store.campaigns()
    assert row.state == "done"


def test_an_error_says_how_it_goes_on_where_something_was_judged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Watcher, "warn", lambda _, text: said.append(text))
    with pytest.raises(ServerError):
        crashed(store, monkeypatch, lambda *_: ServerError("no room"))
    assert said == []
    (row,) = store.campaigns()
    with pytest.raises(ServerError):
        crashed(store, monkeypatch, lambda arm, _: ServerError("no room") if arm == "new" else None, row.id)
    assert said == [f"resume it with: flushlab crash --resume {row.id}"]


def test_what_could_not_be_judged_is_judged_again_when_it_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(store, monkeypatch)
    (row,) = store.campaigns()
    unknown = msgspec.structs.replace(judged(1, "unknown"), reasons=("no space",))
    store.save(row.id, CrashRow(arm=CrashArm(name="base", settings={}), number=1, crash=unknown))
    assert found(store)[0] == ("base", ["kept", "unknown"])
    crashed(store, monkeypatch, resumed=row.id)
    assert found(store)[0] == ("base", ["kept", "kept"])


def test_a_campaign_goes_on_with_the_settings_that_it_began_with(tmp_path: Path, store: Store) -> None:
    request = msgspec.structs.replace(
        REQUEST,
        spec=CrashSpec(configurations=(str(tmp_path / "fast.cnf"),)),
        build_id="b1",
        planned={"fast": {"sync_binlog": 0, "innodb_doublewrite": "ON"}},
        warnings=(Warning("scaled", "the buffer pool is smaller"),),
    )
    store.create_campaign("crash-1", "crash", msgspec.json.encode(request))
    assert stored_request(store, "crash-1", "crash", CrashRequest) == request


def test_a_file_by_its_relative_name_is_the_same_one_when_the_campaign_is_resumed_from_elsewhere(
    private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def servers(*_: object) -> Iterator[object]:
        yield SimpleNamespace(build=MARIADB, identity=SimpleNamespace(title="MariaDB"))

    def plan(**_: object) -> object:
        return SimpleNamespace(settings_of=lambda *_: {})

    def stop(request: CrashRequest, *_: object) -> object:
        return request

    monkeypatch.setattr("flushlab.campaign.target.open_servers", servers)
    monkeypatch.setattr(crashes, "CrashPlan", plan)
    monkeypatch.setattr(crashes, "_crash_all", stop)
    (tmp_path / "load.sql").write_text("SELECT 1;\n")
    monkeypatch.chdir(tmp_path)
    request: Any = crashes.crash([], workload="sql:load.sql", failure="process")
    monkeypatch.chdir(private_home)
    assert load_of(request).name == f"sql:{tmp_path}/load.sql"
