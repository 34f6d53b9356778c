"""`import flushlab`: what it offers, under which names, and that it costs nothing until it is used."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import flushlab
from flushlab.campaign.watcher import Spent, Watcher, watching
from flushlab.cli.app import make_app
from flushlab.errors import UsageError
from flushlab.experiment.protocol import Request, Standing
from flushlab.record import Arm
from flushlab.store import Store
from tests.loading import loaded_by
from tests.unit.crashes import CONTROL, LOSING, rows
from tests.unit.probes import SHARE, SWITCHING, probe_record
from tests.unit.records import load_result, trial

FUNCTIONS = [name for name in flushlab.__all__ if name.islower() and not name.startswith("_")]
OWN_TO_THE_COMMAND_LINE = {
    "help",
    "json",
    "markdown",
    "html",
    "out",
    "init",
    "force",
    "watch",
    "terminal",
    "per_machine",
}
SUITES = {
    *("command", "env", "workers", "pool", "compare", "blocks", "disk"),
    *("print_compose", "print_testcontainers", "print_github_action"),
}
"""Flags of `flushlab test` that are about the command that it runs."""
PLANS = {"print_plan", "from_schema"}
"""Flags of `flushlab fill` that write plans instead of loading."""
COMMANDS: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("tune", ("tune",), set()),
    ("series", ("series",), set()),
    ("compare", ("compare",), set()),
    ("bench", ("bench",), set()),
    ("crash", ("crash",), set()),
    ("fill", ("fill",), PLANS),
    ("watching", ("watch",), {"print_grafana", "print_prometheus", "record", "seconds"}),
    ("sandbox", ("server", "start"), set()),
    ("database", ("test",), SUITES),
]


def test_importing_flushlab_loads_none_of_its_parts() -> None:
    loaded, _ = loaded_by("import flushlab; dir(flushlab)")
    assert {one for one in loaded if "flushlab" in one} == {"flushlab", "flushlab.version"}


def test_what_needs_no_statistics_loads_none() -> None:
    used = "import flushlab; flushlab.sandbox, flushlab.database, flushlab.records, flushlab.bench"
    assert not loaded_by(used)[0] & {"scipy", "prometheus_client", "rich", "click"}


def test_every_name_is_there_and_explained() -> None:
    assert set(flushlab.__all__) <= set(dir(flushlab))
    for name in FUNCTIONS:
        function = getattr(flushlab, name)
        assert function.__doc__, name
        hidden = [one for one in inspect.signature(function).parameters if f"{one}:" not in function.__doc__]
        assert [one for one in hidden if f"{one}," not in function.__doc__] == [], name


def test_arguments_are_explained_before_results_and_errors() -> None:
    for name in FUNCTIONS:
        text = inspect.getdoc(getattr(flushlab, name)) or ""
        places = [text.index(one) for one in ("Args:", "Returns:", "Raises:") if one in text]
        assert places == sorted(places), name


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tuna'"):
        getattr(flushlab, "tuna")  # noqa: B009


@pytest.mark.parametrize(("name", "command", "not_here"), COMMANDS, ids=[name for name, _, _ in COMMANDS])
def test_arguments_have_the_names_of_the_flags(
    name: str, command: tuple[str, ...], not_here: set[str]
) -> None:
    group: Any = make_app()
    for word in command:
        group = group.get_command(None, word)
    flags = {
        "settings" if "--set" in one.opts else max(one.opts, key=len).lstrip("-").replace("-", "_")
        for one in group.params
    }
    taken = inspect.signature(getattr(flushlab, name)).parameters
    takes_options = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    from flushlab.workload.parse import all_options

    options = set(all_options()) if takes_options else set()
    assert flags - OWN_TO_THE_COMMAND_LINE - not_here - options <= {name.rstrip("_") for name in taken}


# -- records -------------------------------------------------------------------------------------------------


def test_records_are_flat_rows_of_a_stored_campaign(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("c", "tune", b"{}")
        arm = Arm(name="A", settings={"sync_binlog": 1})
        store.save("c", trial(arm=arm, stage="confirm", block=2, load=load_result()))
        store.save("c", trial(arm=arm, stage="confirm", block=3))
        store.set_state("c", "done")
    first, second = flushlab.records(store=tmp_path / "store.sqlite")
    assert (first["campaign"], first["number"], second["number"]) == ("c", 1, 2)
    assert (first["arm.name"], first["arm.settings.sync_binlog"], first["block"]) == ("A", 1, 2)
    assert (latency := load_result().latency_us) is not None
    assert first["load.latency_us.p99"] == latency.p99
    assert not any(isinstance(value, (list, dict)) for value in (first | second).values())
    assert flushlab.records("c", store=tmp_path / "store.sqlite") == [first, second]


def test_records_of_a_probe_are_its_cells_and_those_of_crashes_their_images(tmp_path: Path) -> None:
    probed = probe_record(switches=(SWITCHING,), against=(SHARE,))
    with Store(tmp_path / "store.sqlite") as store:
        store.create_campaign("probe", "probe", b"{}")
        store.set_state("probe", "done", msgspec.json.encode(probed))
        store.create_campaign("crash", "crash", b"{}")
        for crash in (*rows(LOSING), *rows(CONTROL)):
            store.save("crash", crash)
        store.create_campaign("begun", "crash", b"{}")

    cells = flushlab.records("probe", store=tmp_path / "store.sqlite")
    assert [one["number"] for one in cells] == list(range(1, len(cells) + 1))
    parts = ["disk"] * len(probed.disk) + ["ceilings"] * len(probed.ceilings) + ["switches", "against"]
    assert [one["part"] for one in cells] == parts
    ceilings = [one for one in cells if one["part"] == "ceilings"]
    assert [one["commits_per_s"] for one in ceilings] == [one.commits_per_s for one in probed.ceilings]
    assert ceilings[0]["latency_us.p99"] == probed.ceilings[0].latency_us.p99

    crashes = flushlab.records("crash", store=tmp_path / "store.sqlite")
    assert [one["arm.name"] for one in crashes] == [LOSING.name] * 12 + [CONTROL.name] * 2
    assert {one["arm.settings.innodb_flush_log_at_trx_commit"] for one in crashes} == {2}
    assert [one["arm.positive_control"] for one in crashes] == [False] * 12 + [True] * 2
    last = crashes[11]
    assert (last["number"], last["outcome"], last["lost"], last["point.at"]) == (
        12,
        "not_started",
        4000,
        1011,
    )

    assert not any(isinstance(value, (list, dict)) for one in (*cells, *crashes) for value in one.values())
    assert flushlab.records("begun", store=tmp_path / "store.sqlite") == []


def test_records_of_a_campaign_that_there_is_not_are_an_error(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite"):
        pass
    with pytest.raises(UsageError, match="no campaign"):
        flushlab.records("nonsense", store=tmp_path / "store.sqlite")


# -- compare -------------------------------------------------------------------------------------------------


def test_a_configuration_under_comparison_is_whole(decided: list[Any]) -> None:
    flushlab.compare(
        {
            "safe": {"sync-binlog": "1", "innodb_flush_method": "O_DIRECT"},
            "fast": {"innodb_flush_log_at_trx_commit": 2},
        },
        blocks=3,
        threads=4,
        fresh=True,
    )
    (request,) = decided
    assert request.base.settings == {"sync_binlog": 1, "innodb_flush_method": "O_DIRECT"}
    assert request.base.workload.options["threads"] == 4
    assert [(arm.name, arm.settings) for arm in request.arms] == [
        ("fast", {"innodb_flush_log_at_trx_commit": 2})
    ]
    assert (request.blocks, request.best) == (3, False)


@pytest.mark.parametrize(
    ("configurations", "why"),
    [
        ({"only": {}}, "nothing to compare"),
        ({"a": {}, "control": {}}, "cannot be called 'control'"),
        ({"a": {}, "b": {"sync_binlog": "many"}}, "sync_binlog"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    configurations: Mapping[str, Mapping[str, Any]], why: str, decided: list[Any]
) -> None:
    with pytest.raises(UsageError, match=why):
        flushlab.compare(configurations)
    assert decided == []


# -- progress ------------------------------------------------------------------------------------------------


def test_progress_takes_a_line_per_trial() -> None:
    lines: list[str] = []
    watcher = Watcher(lines.append)
    request = Request(arm=Arm(name="A", settings={}), stage="arms", block=1)
    progress = Standing(stage="arms", done=1, total=20)
    with watcher.campaign(None):
        watcher.starting(request, progress, Spent())
        done = trial(arm=request.arm, stage="arms", seconds={"window": 10.0, "prepare": 500.0})
        watcher.ended(done, progress, Spent(510.0, 20.0, 2))
    watcher.warn("careful")
    assert lines[0].startswith("arms 1 · A: ")
    assert lines[0].endswith("(about 3 min left)")
    assert lines[1:] == ["warning: careful"]
    assert watching(watcher) is watcher
