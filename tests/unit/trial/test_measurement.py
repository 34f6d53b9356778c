from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest

from flushlab.errors import MeasurementError, NoMemory, StartFailed
from flushlab.record import Arm, FileActivity, ServerIdentity, Stage, Storage, TableRows, Value, Warning
from flushlab.server import Server
from flushlab.telemetry import Observation
from flushlab.trial import measurement
from flushlab.trial.measurement import SIZES, Draft, compare_settings, disturbance, measure
from flushlab.workload.command import CommandWorkload
from flushlab.workload.protocol import Measured, Reset, Timing
from tests.fakes.server import FakeServer
from tests.unit.records import load_result

STAGES: tuple[Stage, Stage] = ("arms", "bench")
HERE = ServerIdentity(flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB")


def new(stage: Stage = "screen") -> Draft:
    return Draft(arm=Arm(name="a", settings={}), stage=stage, block=1, variant=0)


def test_equal_values_in_another_spelling_are_the_same() -> None:
    assert compare_settings({"innodb_doublewrite": "ON"}, {"innodb_doublewrite": "ON"}, HERE) == ([], "")


def test_a_rounded_size_is_a_caveat() -> None:
    asked: Mapping[str, Value] = {"innodb_buffer_pool_size": 200_000_000}
    caveats, broken = compare_settings(asked, {"innodb_buffer_pool_size": 199_229_440}, HERE)
    assert broken == ""
    assert [caveat.slug for caveat in caveats] in ([], ["rounded"])  # [] where the catalog knows the rounding


@pytest.mark.parametrize(
    ("name", "asked", "got"),
    [
        ("innodb_flush_log_at_trx_commit", 2, 1),
        ("innodb_buffer_pool_size", 1 << 30, 128 << 20),
        ("innodb_doublewrite", "OFF", "ON"),
    ],
)
def test_a_value_that_was_not_taken_makes_the_trial_invalid(name: str, asked: Value, got: Value) -> None:
    _, broken = compare_settings({name: asked}, {name: got}, HERE)
    assert f"{name} was set to" in broken and "the server reports" in broken


def test_a_variable_that_the_server_lacks_makes_the_trial_invalid() -> None:
    _, broken = compare_settings({"innodb_doublewrite": "ON"}, {}, HERE)
    assert "no such variable" in broken


def test_an_option_that_no_variable_shows_is_a_caveat() -> None:
    caveats, broken = compare_settings({"debug_no_sync": "ON"}, {}, HERE)
    assert not broken
    assert [caveat.slug for caveat in caveats] == ["not-shown"]


@pytest.mark.parametrize(
    ("asked", "got", "slugs"),
    [
        ("1M", 1_048_576, []),
        ("off", "OFF", []),
        ("FORCE,BACKUP", "BACKUP,FORCE", []),
        ("mrr=on", "index_merge=on,mrr=on,mrr_cost_based=off", []),
        ("mrr=on", "index_merge=on,mrr=off", ["rounded"]),
        ("utf8", "utf8mb3", ["rounded"]),
        (50_000, 9_909, ["rounded"]),
    ],
)
def test_what_the_server_makes_of_settings_outside_the_catalog_is_a_caveat(
    asked: Value, got: Value, slugs: list[str]
) -> None:
    caveats, broken = compare_settings({"not_in_the_catalog": asked}, {"not_in_the_catalog": got}, HERE)
    assert ([caveat.slug for caveat in caveats], broken) == (slugs, "")


def test_a_window_is_disturbed_by_steal_and_by_strangers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert disturbance(Observation(steal_share=0.02, foreign_cpu_share=0.05)) == ""
    assert "stolen" in disturbance(Observation(steal_share=0.2))
    assert "other programs" in disturbance(Observation(wanted_by_others=0.4))
    assert disturbance(Observation(foreign_cpu_share=0.9)) == "", (
        "what the server left them tells of the server"
    )
    assert disturbance(Observation(io_pressure_share=0.9, cpu_pressure_share=0.9)) == ""  # our own load


class Whole:
    """What workloads without data that cannot be paused have in common."""

    data_key: Mapping[str, str] = {}
    reset: Reset = "each"
    slice_s = None

    def prepare(self, server: Server) -> None:
        pass

    def driving(self, server: Server) -> None:
        pass


class Broken(Whole):
    """A workload whose server dies under it."""

    name = "broken"

    def run(self, server: Server, timing: Timing, window: AbstractContextManager[object]) -> Measured:
        server.query("SELECT 1")
        raise AssertionError("a dead server answered")


def test_a_server_that_dies_is_a_failed_trial_not_an_exception() -> None:
    server = FakeServer()
    server.die("out of memory")
    trial = measure(new(), server, Broken(), Timing())
    assert (trial.outcome, trial.block, trial.result) == ("failed", 1, None)
    assert "out of memory" in trial.reason
    assert sum(trial.seconds.values()) >= 0
    assert not [w for w in trial.warnings if not isinstance(w, Warning)]


class TooLong(Whole):
    """A workload whose statements the server does not take."""

    name = "too long"

    def run(self, server: Server, timing: Timing, window: AbstractContextManager[object]) -> Measured:
        raise MeasurementError("a packet is too long (error 1153)", hint="raise max_allowed_packet")


def test_a_load_that_fails_keeps_its_way_out() -> None:
    trial = measure(new("bench"), FakeServer(answers={SIZES: []}), TooLong(), Timing())
    assert (trial.outcome, trial.reason) == ("failed", "a packet is too long (error 1153)")
    assert trial.hint == "raise max_allowed_packet"


class Ended(Whole):
    """A workload whose window does nothing, and that knows its commits."""

    name = "ended"

    def run(self, server: Server, timing: Timing, window: AbstractContextManager[object]) -> Measured:
        with window:
            pass
        return Measured(
            result=1.0,
            unit="transactions/s",
            higher_is_better=True,
            warm_up_s=0.0,
            window_s=1.0,
            commits=1000,
            connections=1,
        )


@pytest.fixture(autouse=True)
def nothing_is_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the hypervisor does to the machine of the tests."""
    monkeypatch.setattr(measurement, "DISCARD_STEAL_SHARE", 2.0)


class Loaded(Ended):
    """The same, driven by the load engine."""

    def run(self, server: Server, timing: Timing, window: AbstractContextManager[object]) -> Measured:
        return msgspec.structs.replace(super().run(server, timing, window), load=load_result())


class Stalled(Ended):
    """Driven by the load engine, and nothing was committed in the window."""

    def run(self, server: Server, timing: Timing, window: AbstractContextManager[object]) -> Measured:
        load = msgspec.structs.replace(load_result(0.0), latency_us=None).stalled()
        ran = super().run(server, timing, window)
        return msgspec.structs.replace(ran, load=load, result=load.throughput, window_s=load.seconds)


def test_a_window_in_which_nothing_was_committed_is_a_fact_of_its_arm_and_no_figure_of_bench() -> None:
    compared, alone = (measure(new(stage), two_samples(), Stalled(), Timing()) for stage in STAGES)
    assert (compared.outcome, compared.result) == ("measured", 0.1)
    assert (alone.outcome, alone.result) == ("failed", None)
    assert alone.reason == "ended: nothing was committed within 5.0 s"
    assert alone.hint == "measure longer with --duration"


def test_too_little_memory_is_no_refusal_of_the_settings() -> None:
    draft = new("arms")
    trial = draft.not_started(NoMemory("cannot allocate memory", hint="free some"))
    assert (trial.outcome, trial.reason, trial.hint) == ("failed", "cannot allocate memory", "free some")
    assert trial.lacked_memory
    refused = draft.not_started(StartFailed("it did not start", refusal="unknown variable 'x'"))
    assert (refused.outcome, refused.lacked_memory) == ("refused", False)


def two_samples(*sizes: tuple[str | int | None, ...]) -> FakeServer:
    """A server with these tables that was looked at before and after a window."""
    counts = {"Innodb_os_log_fsyncs": 10, "Innodb_os_log_written": 1_000_000, "Innodb_pages_written": 5}
    later = {"Innodb_os_log_fsyncs": 12, "Innodb_os_log_written": 1_400_000, "Innodb_pages_written": 5}
    status = iter([counts, later])
    monitor = "Log sequence number 100\nLast checkpoint at 90\n"
    return FakeServer(
        values={"innodb_flush_log_at_trx_commit": 2, "innodb_flush_method": "O_DIRECT"},
        storage=Storage(filesystem="tmpfs", in_memory=True),
        answers={
            "SHOW GLOBAL STATUS": lambda: [(name, str(n)) for name, n in next(status).items()],
            "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'": [("Innodb_buffer_pool_reads", "0")],
            "SHOW GLOBAL STATUS LIKE 'Innodb_page_size'": [("Innodb_page_size", "16384")],
            "SHOW ENGINE INNODB STATUS": [("InnoDB", "", monitor)],
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin_basename', 'innodb_data_file_path')": [],
            SIZES: list(sizes),
        },
    )


def test_a_setting_without_effect_is_a_caveat_that_names_it() -> None:
    trial = measure(new(), two_samples(), Ended(), Timing())
    assert trial.outcome == "measured", trial.reason
    (caveat,) = [warning for warning in trial.warnings if warning.slug == "no-effect"]
    assert caveat.setting == "innodb_flush_method"
    assert caveat.text.startswith("innodb_flush_method=O_DIRECT reads back, but the data files are in memory")
    assert trial.file_activity["redo"] == FileActivity(fsyncs=2, bytes=400_000)
    assert trial.file_activity["data"] == FileActivity(bytes=0)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [(0.1, 0.2, "measured"), (0.0, 0.5, "discarded"), (None, None, "measured")],
)
def test_others_are_judged_by_what_they_take_while_no_load_runs(
    before: float | None, after: float | None, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = iter([before, after])
    monkeypatch.setattr(measurement, "wanted_by_others", lambda pid, seconds: next(samples))
    monkeypatch.setattr("flushlab.telemetry.observation.foreign_share", lambda *_: 0.9)
    trial = measure(new(), two_samples(), Loaded(), Timing())
    assert trial.outcome == outcome, trial.reason
    assert trial.foreign_cpu_share == 0.9, "it is told all the same"
    assert ("other programs used 50%" in trial.reason) is (outcome == "discarded")


@pytest.mark.parametrize(("window_s", "samples"), [(8.0, 2), (0.1, 1)])
def test_nobody_is_watched_after_a_window_that_is_not_judged(
    window_s: float, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Short(Loaded):
        def run(self, *asked: Any) -> Measured:
            return msgspec.structs.replace(super().run(*asked), window_s=window_s)

    left = iter([0.0] * samples)
    monkeypatch.setattr(measurement, "wanted_by_others", lambda pid, seconds: next(left))
    assert measure(new(), two_samples(), Short(), Timing()).outcome == "measured"
    assert list(left) == []


def test_nobody_is_watched_beside_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "wanted_by_others", lambda *_: pytest.fail("it is not judged"))
    monkeypatch.setattr(CommandWorkload, "run", lambda _, *asked: Ended().run(*asked))
    assert measure(new(), two_samples(), CommandWorkload(command="true"), Timing()).outcome == "measured"


def test_tables_of_other_engines_are_a_caveat() -> None:
    server = two_samples(
        ("shop", "orders", "InnoDB", 7, 1000),
        ("shop", "hits", "MyISAM", 9, 24),
        ("shop", "heap", "MEMORY", None, None),
    )
    trial = measure(new("bench"), server, Ended(), Timing())
    assert trial.data_bytes == 1024
    assert trial.tables[:2] == (TableRows("shop.hits", 9), TableRows("shop.orders", 7))
    (caveat,) = [one for one in trial.warnings if one.slug == "other-engines"]
    assert "MEMORY, MyISAM" in caveat.text
