"""One run on every machine of a fleet; machines are threads here."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flushlab.campaign.bench import bench_on_fleet, compared
from flushlab.campaign.fleet.machines import Opening, Task
from flushlab.campaign.fleet.opened import OpenMachines, run_on_each
from flushlab.campaign.request import BenchRequest
from flushlab.campaign.target import NewServers
from flushlab.errors import NoSpace, UsageError
from flushlab.record import Trial
from flushlab.report.bench import fleet_as_json, fleet_document
from tests.fakes.machines import ThreadMachines
from tests.golden.test_reports import text_of
from tests.unit.builds import MARIADB
from tests.unit.records import trial

RESULTS = {"a": 1000.0, "b": 1250.0, "c": 800.0}


def machines(fate: dict[str, Exception] | None = None) -> ThreadMachines:
    """Three machines; those with a fate fail."""
    together = threading.Barrier(len(RESULTS))

    def run(machine: str, task: Task) -> Sequence[Trial]:
        together.wait(20)  # all at once
        if error := (fate or {}).get(machine):
            raise error
        return [trial(arm=task.block.arms[0], stage=task.block.stage, result=RESULTS[machine])]

    return ThreadMachines(RESULTS, run)


def test_all_machines_run_at_once_and_each_has_its_record() -> None:
    found = run_on_each(machines(), RESULTS)
    assert {name: one.result for name, one in found.items() if isinstance(one, Trial)} == RESULTS


def test_a_machine_that_fails_or_is_lost_leaves_the_results_of_the_others() -> None:
    fate = {"a": NoSpace("/data is full", hint="free some"), "b": ValueError("the node died")}
    found = run_on_each(machines(fate), RESULTS)
    assert found["a"] == "/data is full"
    assert "the node died" in str(found["b"])
    assert isinstance(found["c"], Trial)


def test_what_a_machine_refuses_ends_the_command() -> None:
    with pytest.raises(UsageError, match="machine b: no such setting"):
        run_on_each(machines({"b": UsageError("no such setting", hint="correct it")}), RESULTS)


def of(results: dict[str, float], **changes: Any) -> dict[str, Trial | str]:
    return {name: trial(result=one, **changes) for name, one in results.items()}


def test_the_fastest_and_the_slowest_are_named_with_what_lies_between_them() -> None:
    found = compared(of(RESULTS))
    assert (found.fastest, found.slowest) == ("b", "c")
    assert found.between == pytest.approx(1.5625)
    assert found.mean is not None
    assert found.mean.estimate == pytest.approx(1000.0)
    # Student's t of 2 degrees of freedom is 4.303; the logs are 0 and ±ln 1.25: sd 0.22314, error 0.12883.
    assert found.mean.low == pytest.approx(1000 / 1.7408, rel=1e-3)
    assert found.mean.high == pytest.approx(1000 * 1.7408, rel=1e-3)


def test_of_seconds_fewer_are_faster() -> None:
    found = compared(of({"a": 2.0, "b": 8.0}, unit="s"))
    assert (found.fastest, found.slowest) == ("a", "b")
    assert found.between == pytest.approx(4.0)


def test_two_machines_have_no_interval_and_one_has_nothing_between() -> None:
    two = compared(of({"a": 2.0, "b": 8.0}))
    assert two.mean is None
    assert two.between == pytest.approx(4.0)
    assert compared(of({"a": 2.0})).between is None


def test_a_disturbed_or_missing_run_counts_in_nothing_but_is_shown() -> None:
    disturbed = msgspec.structs.replace(trial(result=9e9), outcome="discarded", reason="the machine was busy")
    found = compared({**of({"a": 1000.0, "b": 1250.0}), "x": disturbed, "y": "/data is full"})
    assert (found.fastest, [run.machine for run in found.runs]) == ("b", ["a", "b", "x", "y"])
    told = text_of(fleet_document(found))
    assert "the machine was busy" in told
    assert "/data is full" in told
    assert "Fastest b, slowest a: 1.25× between them" in told
    written = msgspec.json.decode(msgspec.json.encode(fleet_as_json(found)))
    assert written["schema"] == "flushlab.fleet-bench/1"
    assert [one["problem"] for one in written["runs"]] == ["", "", "", "/data is full"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"server": "sandbox:mine"}, "sandbox:mine runs on this machine alone"),
        ({"per_second": "s.csv"}, "--per-second writes a file of one run"),
        ({"hdr_log": "s.hdr"}, "--hdr-log writes a file of one run"),
        ({"wait_for_quiet": True}, "--wait-for-quiet looks at this machine alone"),
        ({"client": ("load1",)}, "--client drives the load of one server"),
    ],
)
def test_what_several_machines_cannot_do_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as told:
        bench_on_fleet(fleet="127.0.0.1:9377", **given)
    assert "without --fleet" in (told.value.hint or "")


def test_machines_get_the_request_whose_content_they_need(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened = list[Opening]()

    class Opened(ThreadMachines):
        def open(self, opening: Opening) -> tuple[str, ...]:
            opened.append(opening)
            return super().open(opening)

    @contextmanager
    def claimed(*_: object) -> Iterator[object]:
        there = Opened(["a"], lambda machine, task: [trial(arm=task.block.arms[0], stage="bench")])
        yield SimpleNamespace(fleet=OpenMachines(there, ("a",)), build=MARIADB)

    monkeypatch.setattr(NewServers, "open", claimed)
    monkeypatch.chdir(tmp_path)
    bench_on_fleet(fleet="127.0.0.1:9377", workload="sql:a.sql", base="my.cnf")
    (found,) = opened
    assert isinstance(found.request, BenchRequest)
    assert (found.request.build_id, found.request.folder) == (MARIADB.id, str(tmp_path))
    assert found.request.spec.base.base == str(tmp_path / "my.cnf"), "workers run in other folders"


def test_without_a_fleet_the_command_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSHLAB_FLEET", raising=False)
    with pytest.raises(UsageError, match="no fleet is named"):
        bench_on_fleet()


def test_if_no_machine_measured_anything_nothing_is_compared() -> None:
    found = compared({"a": "full"})
    assert (found.fastest, found.slowest, found.between, found.mean) == ("", "", None, None)
