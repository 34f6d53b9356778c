"""`flushlab tune` end to end on real servers: small campaigns, kills, Ctrl-C, planted mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flushlab.build import find_build
from flushlab.server import Sandbox, SandboxSpec
from flushlab.settings.check import check
from flushlab.store import Store
from tests.command import flushlab
from tests.integration.interrupted import interrupted_twice, servers_of, trials_saved

FLUSHLAB = [sys.executable, "-m", "flushlab"]
SECRET = "planted-s3cret"
SMALL = ["--tables", "1", "--table-size", "100", "--threads", "4", "--window", "0.5"]


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*FLUSHLAB, "tune", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.long
def test_tune_survives_kill_and_ctrl_c_and_hands_over_a_file_that_works(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    base = tmp_path / "my.cnf"
    base.write_text(f"[mysqld]\nreport_password = {SECRET}\n[galera]\nwsrep_sst_auth = sst:{SECRET}\n")
    fixed = ("innodb_flush_method", "innodb_log_file_buffering", "innodb_log_buffer_size")
    few = [*(word for name in fixed for word in ("--fixed", name)), "--trials", "20"]
    words = ["--base", str(base), *few, *SMALL, "--out", str(out), "--seed", "7"]
    campaign, before = interrupted_twice(start, home, words, ["--out", str(out)])

    # Resumed to the end.
    third = start("--resume", campaign.id, "--out", str(out), "--json", str(tmp_path / "tune.json"))
    stdout, stderr = third.communicate(timeout=800)
    assert third.returncode == 0, stderr
    # A path stays whole, to be copied.
    assert [line for line in stdout.splitlines() if len(line) > 80 and str(tmp_path) not in line] == []
    assert f"wrote {out / 'tune.json'}\n" in stdout
    with Store(home / "store.sqlite") as store:
        after = list(store.trials(campaign.id))
        assert store.campaign(campaign.id).state == "done"
    assert after[: len(before)] == before, "stored trials are never run again"
    assert len(after) <= 24
    assert all(trial.slices for trial in after if trial.outcome == "measured"), "servers ran side by side"

    kept = [file for folder in (home, out) for file in folder.rglob("*") if file.is_file()]
    assert {"store.sqlite", "report.html", "tune.json"} <= {file.name for file in kept}
    assert [file for file in kept if SECRET.encode() in file.read_bytes()] == [], "no credential is kept"
    assert SECRET not in stdout + stderr + (tmp_path / "tune.json").read_text()

    result = json.loads((tmp_path / "tune.json").read_text())
    assert result["schema"] == "flushlab.campaign/1"
    found = result["tuning"]
    assert [point["floor"] for point in found["frontier"]] == ["strict", "second"]
    for one in (result["control"]["comparison"], *found["frontier"]):
        assert one["ratio"]["low"] <= one["ratio"]["estimate"] <= one["ratio"]["high"]
    assert "nothing is lost" in result["base"]["guarantees"]["os_crash"]
    assert [point["floor"] for point in found["offers"]] in ([], ["second"])
    for trial in after:  # never below the lowest floor, fixed settings untouched
        assert trial.settings.get("innodb_flush_log_at_trx_commit") in (1, 2, 3)
        assert trial.settings.get("innodb_doublewrite") == "ON"
        assert trial.settings.get("log_bin") == "OFF"
    if found["winner"] is not None:
        assert found["winner"]["floor"] == "strict"
        check_option_file(out / "my.cnf", found["winner"]["settings"])
    else:
        assert not (out / "my.cnf").exists(), "your settings stay"


def check_option_file(file: Path, expected: dict[str, object]) -> None:
    """A server started with the file has exactly these settings."""
    build = find_build("mariadb@10.11", get=False)
    with Sandbox.start(SandboxSpec(build)) as plain:
        checked = check(file.read_text(), plain.identity, path=str(file))
        assert not checked.others
    with Sandbox.start(SandboxSpec(build, settings=checked.settings)) as server:
        assert server.read_back(expected) == expected


def test_a_dry_run_starts_nothing_and_leaves_no_trace(home: Path, tmp_path: Path) -> None:
    before = sorted(home.rglob("*"))
    words = ["--dry-run", "--minutes", "6", "--out", str(tmp_path / "out"), "--json", "-"]
    done = flushlab("tune", *words)
    assert json.loads(done.stdout)["schema"] == "flushlab.forecast/1"
    assert sorted(home.rglob("*")) == before
    assert not (tmp_path / "out").exists()
    assert not servers_of(home)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--trials", "3"], 2, "need at least"),
        (["--minutes", "0.1"], 2, "is too short"),
        (["--minutes", "0"], 2, "--minutes 0 is out of range"),
        (["--threads", "1,x"], 2, "--threads"),
        (["--threads", "4,4"], 2, "repeats"),
        (["--floor", "paranoid"], 2, "paranoid"),
        (["--objective", "p99"], 2, "--rate"),
        (["--rate", "100", "--objective", "throughput"], 2, "the rate of the load fixes the throughput"),
        (["--resume", "tune-nope"], 2, "--resume takes no --threads"),
        (["--base", "/nowhere/my.cnf"], 5, "/nowhere/my.cnf"),
        (["--dataset", "/nowhere/data"], 2, "--dataset needs a workload"),
        (["--dataset", "/nowhere/data", "--workload", "oltp_update_non_index"], 5, "/nowhere/data"),
        (["--ssl-mode", "required"], 2, "choose --transport tcp"),
        (["--ssl-mode", "verify_ca", "--transport", "tcp"], 2, "needs --ssl-ca"),
        (["--fixed", "innodb_flush_lag"], 2, "innodb_flush_lag"),
        (["--memory", "lots"], 2, "lots"),
        (["--cluster-load", "spread"], 2, "--cluster-load spread needs a cluster"),
        (["--set", "gcs.fc_limit=64"], 2, "gcs.fc_limit acts on a cluster only"),
        (["--set", "innodb_doublewrite=OFF", "--fixed", "innodb_doublewrite"], 2, "below the floor"),
        (["--pool-ratio", "0"], 2, "--pool-ratio 0 is out of range"),
        (["--pool-ratio", "0.2"], 2, "give more data: a larger --table-size"),
        (["--pool-ratio", "0.5", "--set", "innodb_buffer_pool_size=1G"], 2, "both size the buffer pool"),
        (["--out", "/proc/flushlab-out"], 5, "/proc/flushlab-out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_before_anything_is_measured(
    home: Path, words: list[str], code: int, message: str
) -> None:
    assert message in flushlab("tune", *SMALL, *words, code=code).stderr
    assert trials_saved(home) == 0
    assert not servers_of(home)
