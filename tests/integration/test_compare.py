"""`flushlab compare` on real servers: what a user types, what comes out, and what is left after Ctrl-C."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flushlab.experiment.protocol import is_stalled
from flushlab.statistics import compare
from flushlab.store import Store
from tests.command import flushlab
from tests.conftest import require_build
from tests.waiting import wait_until

COMPARE = [sys.executable, "-m", "flushlab", "compare"]
RELAXED = "innodb_flush_log_at_trx_commit=0"
SMALL = ["--server", "mariadb@10.11", "--threads", "2", "--tables", "1", "--table-size", "100"]


def compared(folder: Path, *words: str) -> tuple[dict[str, Any], str]:
    """The document of a comparison in a folder, and what it printed; its page is in `out` there."""
    done = flushlab("compare", *words, "--out", "out", cwd=folder)
    return json.loads((folder / "out" / "compare.json").read_text()), done.stdout


@pytest.mark.server("mariadb@10.11")
def test_settings_and_an_option_file_are_compared_and_the_page_is_written(
    furnished_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "my.cnf").write_text(f"[mysqld]\n{RELAXED}\n")
    words = ["my.cnf", "other: innodb_log_buffer_size=32M", *SMALL, "--blocks", "2", "--duration", "3"]
    found, said = compared(tmp_path, *words)
    (arm,) = found["arms"]
    assert (found["base"]["name"], arm["name"], arm["outcome"]) == ("my.cnf", "other", "measured")
    assert arm["changes"] == {"innodb_log_buffer_size": 32 << 20}
    assert arm["guarantees"] == found["base"]["guarantees"]  # it is on top of the file that stands first
    for ratio in (arm["comparison"]["ratio"], arm["p99"]["ratio"]):
        assert ratio["low"] <= ratio["estimate"] <= ratio["high"]
    assert found["objective"] == "throughput"
    assert found["control"]["comparison"] is not None and found["control"]["p99"] is not None
    assert (found["interleaved"], found["plan"]["rounds"] > 0) == (True, True)
    assert "again: flushlab compare " in said
    assert "Every slice over time" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.server("mariadb@10.11")
def test_statements_are_compared_on_the_same_data(furnished_home: Path, tmp_path: Path) -> None:
    (tmp_path / "setup.sql").write_text(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1);"
    )
    txn = """setup_file = "setup.sql"
    parameter.n = {{ type = "integer", low = 1, high = 1000000 }}
    [transaction.write]
    autocommit = true
    statements = ["{sql}"]
    """
    (tmp_path / "old.toml").write_text(txn.format(sql="REPLACE INTO t VALUES (1, :n)"))
    update = "INSERT INTO t VALUES (1, 1), (2, 2) ON DUPLICATE KEY UPDATE n = :n"
    (tmp_path / "new.toml").write_text(txn.format(sql=update))
    words = ["old: --workload txn:old.toml", "new: --workload txn:new.toml", "base --workload upsert"]
    small = [
        "--server",
        "mariadb@10.11",
        "--threads",
        "2",
        "--tables",
        "1",
        "--blocks",
        "2",
        "--duration",
        "1",
    ]
    found, said = compared(tmp_path, *words, *small)
    assert [(arm["name"], arm["outcome"], arm["unit"]) for arm in found["arms"]] == [
        ("new", "measured", "transactions/s"),
        ("upsert", "measured", "rows/s"),
    ]
    assert found["arms"][0]["workload_changes"] == {"name": f"txn:{tmp_path}/new.toml"}
    assert found["arms"][1]["workload_changes"] == {"name": "upsert", "tables": 1}
    assert [Path(one["name"]).name for one in found["sources"]] == ["old.toml", "setup.sql", "new.toml"]
    questioned = [one["text"] for one in found["warnings"] if one["slug"].startswith("other-")]
    assert [text.split()[0] for text in questioned] == ["new", "upsert", "upsert"]
    assert f"workload=txn:{tmp_path}/new.toml" in said.replace("\n  ", "")


@pytest.mark.server("mariadb@10.11")
def test_at_a_fixed_rate_the_ratios_are_those_of_the_p99_latencies_in_the_records(
    furnished_home: Path, tmp_path: Path
) -> None:
    words = ["base", "innodb_flush_log_at_trx_commit=2", *SMALL, "--rate", "200"]
    found, said = compared(tmp_path, *words, "--blocks", "2", "--duration", "3")
    (arm,) = found["arms"]
    with Store(furnished_home / "store.sqlite") as store:
        trials = [trial for trial in store.trials(found["campaign_id"]) if trial.outcome == "measured"]
    scores: dict[str, dict[int, float]] = {"base": {}, "control": {}, arm["name"]: {}}
    for trial in trials:
        assert trial.load is not None
        latency = trial.load.latency_us
        p99 = latency.p99 if latency is not None else trial.load.seconds * 1e6
        scores[trial.arm.name][trial.block] = -math.log(p99)
    stalled = {trial.arm.name for trial in trials if is_stalled([trial])}
    control, due = compare(scores, "base", twin="control", apart=stalled)
    assert found["objective"] == "p99"
    for shown, one in (
        (arm["comparison"], due),
        (arm["p99"], due),
        (found["control"]["comparison"], control),
    ):
        ratio = {"estimate": one.ratio.estimate, "low": one.ratio.low, "high": one.ratio.high}
        assert shown["ratio"] == pytest.approx(ratio)
    assert arm["comparison"]["verdict"] == due.verdict
    assert "Ratio: how many times lower p99 latency is than that of the base" in " ".join(said.split())
    assert "--objective p99" in next(line for line in said.splitlines() if line.startswith("again: "))
    assert "How many times lower p99 latency" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.server("mariadb@10.11")
def test_after_ctrl_c_what_is_known_is_printed_and_the_comparison_can_be_resumed(
    furnished_home: Path, tmp_path: Path
) -> None:
    words = ["base", RELAXED, *SMALL, "--duration", "60", "--blocks", "100", "--json", "found.json"]
    errors = tmp_path / "err"
    with errors.open("w") as stderr:
        running = subprocess.Popen(
            [*COMPARE, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        try:
            wait_until(
                lambda: "arms 0 · " in errors.read_text() or running.poll() is not None,
                "a first block",
            )
            os.kill(running.pid, signal.SIGINT)
            said, _ = running.communicate(timeout=600)
        finally:
            running.kill()
    assert running.returncode == 130, errors.read_text()
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["ending"] == "interrupted"
    assert f"resume with: flushlab compare --resume {found['campaign_id']}" in said


@pytest.mark.server("mysql@5.7")
@pytest.mark.server("mariadb@10.11")
def test_each_of_two_servers_has_a_base_of_its_own_and_servers_are_a_table_of_their_own(
    furnished_home: Path, tmp_path: Path
) -> None:
    words = ["base", RELAXED, *SMALL, "--server", "mysql@5.7", "--floor", "relaxed"]
    words += ["--blocks", "2", "--duration", "5"]
    found, said = compared(tmp_path, *words)
    mariadb, mysql = require_build("mariadb@10.11").name, require_build("mysql@5.7").name
    first, name = f"{mariadb} base", f"{mysql} {RELAXED}"
    assert found["base"]["name"] == first
    assert {arm["name"]: arm["against"] for arm in found["arms"]} == {
        f"{mariadb} {RELAXED}": "",
        f"{mysql} base": "",
        name: f"{mysql} base",
    }
    assert "Between servers" in said
    for one in found["recommended"]:  # whatever this disk makes of it: only the servers' own ratios
        (arm,) = [arm for arm in found["arms"] if arm["name"] == one["arm"]]
        assert (one["server"], one["base"]) == (arm["server"] or found["server"], arm["against"] or first)
        assert (one["ratio"], arm["comparison"]["verdict"]) == (arm["comparison"]["ratio"], "faster")
        assert arm["name"].endswith(RELAXED)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Between servers" in page
    again = next(line for line in said.splitlines() if line.startswith("again: "))
    assert "--floor relaxed" in again
    assert "wrote out/report.html" in said and "HTML page:" not in said
    folders = {one["server"]["flavor"] for one in found["recommended"]}
    assert {one.parent.name.partition("@")[0] for one in (tmp_path / "out").glob("*/my.cnf")} == folders
