"""`flushlab series` end to end on real servers: a small plan with every outcome, kills, Ctrl-C, mistakes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from flushlab.server.protocol import Server
from flushlab.store import Store
from flushlab.workload.protocol import Measured, Timing, Window
from flushlab.workload.sql import SqlWorkload
from tests.command import flushlab
from tests.integration.interrupted import interrupted_twice, trials_saved

FLUSHLAB = [sys.executable, "-m", "flushlab", "series"]

WORKLOAD = """
[workload]
name = "oltp_update_non_index"
threads = 4
tables = 1
table_size = 100

[base]
text = "every commit is synced"
settings = { innodb_flush_log_at_trx_commit = 1, innodb_redo_log_capacity = "64M" }
"""

PLAN = f"""
title = "what does each step of the commit path buy?"
blocks = 2
window = 0.3
{WORKLOAD}
[[arm]]
name = "second"
settings = {{ innodb_flush_log_at_trx_commit = 2 }}

[[arm]]
name = "nothing"
settings = {{ innodb_flush_log_at_trx_commit = 1, innodb_io_capacity = 200 }}

[[arm]]
name = "threads"
workload = {{ threads = 2 }}

[[arm]]
name = "memory"
data_root = "/dev/shm"

[[arm]]
name = "refused"
text = "log files of this size are allowed, but not together with a pool that no machine has"
settings = {{ innodb_buffer_pool_size = "64T" }}

[[arm]]
name = "gone"
settings = {{ innodb_support_xa = false }}

[[arm]]
name = "zfs"
data_root = "${{FLUSHLAB_NO_SUCH_ROOT}}"
settings = {{ innodb_doublewrite = false }}

[[claim]]
text = "a second's worth of commits buys a googol times the throughput"  # beyond any noise
arm = "second"
at_least = 1e100

[[claim]]
text = "ZFS is as fast"
arm = "zfs"
expected = 1.0
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "steps.toml"
    file.write_text(PLAN)
    return file


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*FLUSHLAB, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return flushlab("series", *words, code=None)


@pytest.mark.long
def test_series_survives_kill_and_ctrl_c_and_tells_of_every_arm(
    home: Path, plan: Path, tmp_path: Path
) -> None:
    words = [str(plan), "--server", "mariadb@10.11", "--seed", "7"]
    campaign, before = interrupted_twice(start, home, words)
    assert campaign.kind == "series"

    # Resumed to the end.
    files = ["--json", str(tmp_path / "s.json"), "--out", str(tmp_path / "out")]
    done = run("--resume", campaign.id, *files)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 80
    with Store(home / "store.sqlite") as store:
        after = list(store.trials(campaign.id))
        assert store.campaign(campaign.id).state == "done"
    assert after[: len(before)] == before, "stored trials are never run again"

    result = json.loads((tmp_path / "s.json").read_text())
    assert json.loads((tmp_path / "out" / "series.json").read_text()) == result
    assert result["schema"] == "flushlab.campaign/1"
    arms = {arm["name"]: arm for arm in result["arms"]}
    outcomes = {name: arm["outcome"] for name, arm in arms.items() if name != "best"}
    assert outcomes == {
        "second": "measured",
        "nothing": "measured",
        "threads": "measured",
        "memory": "measured",
        "refused": "failed",
        "gone": "not_in_version",
        "zfs": "skipped",
    }
    assert "emory" in arms["refused"]["reason"] or "innodb_buffer_pool_size" in arms["refused"]["reason"]
    assert "innodb_support_xa" in arms["gone"]["reason"]
    assert "FLUSHLAB_NO_SUCH_ROOT" in arms["zfs"]["reason"]
    for name in ("second", "nothing", "threads", "memory"):
        compared = arms[name]["comparison"]
        assert compared["ratio"]["low"] <= compared["ratio"]["estimate"] <= compared["ratio"]["high"]
        assert compared["blocks"] == (2 if name == "nothing" else 3)
    assert arms["second"]["floor"] == "second"
    assert arms["threads"]["workload_changes"] == {"threads": 2}
    assert arms["memory"]["floor"] == "throwaway"
    in_memory = {trial.arm.name: trial.storage.in_memory for trial in after if trial.storage is not None}
    assert {name for name, is_so in in_memory.items() if is_so} == {"memory"}
    measured = {name: arm["comparison"] for name, arm in arms.items() if arm["comparison"]}
    faster = {name for name in outcomes if name in measured and measured[name]["verdict"] == "faster"}
    faster -= {"second", "memory"}  # below the base's floor
    assert set(arms["best"]["composed_of"]) == faster
    assert arms["best"]["outcome"] == ("measured" if faster else "skipped")
    control = result["control"]["comparison"]["ratio"]
    assert control["low"] <= control["estimate"]
    assert [claim["answer"] for claim in result["plan"]["claims"]] == ["refuted", "not measured"]
    slugs = {warning["slug"] for warning in result["warnings"]}
    assert {"base-left-out", "same-as-base"} <= slugs
    assert "innodb_redo_log_capacity" in str(result["warnings"])
    assert not any(trial.arm.name in ("gone", "zfs") for trial in after)


@pytest.mark.long
def test_an_alternating_series_runs_on_one_server(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "alternate.toml"
    file.write_text(
        f"""
title = "switched while it runs"
blocks = 2
window = 0.1
alternate = true
best = false
{WORKLOAD}
[[arm]]
name = "two"
settings = {{ innodb_flush_log_at_trx_commit = 2 }}

[[arm]]
name = "static"
settings = {{ innodb_doublewrite = false }}
"""
    )
    done = run(str(file), "--json", "-", "--server", "mariadb@10.11")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["plan"]["alternate"] is True
    assert [arm["outcome"] for arm in result["arms"]] == ["measured", "skipped"]
    assert "while the server runs" in result["arms"][1]["reason"]
    with Store(home / "store.sqlite") as store:
        (campaign,) = store.campaigns()
        trials = list(store.trials(campaign.id))
    assert {trial.arm.name: trial.settings["innodb_flush_log_at_trx_commit"] for trial in trials} == {
        "base": 1,
        "control": 1,
        "two": 2,
    }
    assert all("restore" not in trial.seconds for trial in trials)


SLEEP = "(@@innodb_flush_log_at_trx_commit + @@sync_binlog) / 35"
SLEEPS = """
title = "a script that sleeps as long as the settings say"
blocks = 3
alternate = true
floor = "throwaway"

[workload]
name = "sql:sleep.sql"

[base.settings]
innodb_flush_log_at_trx_commit = 2
log_bin = "ON"
sync_binlog = 1

[[arm]]
name = "flush"
settings = { innodb_flush_log_at_trx_commit = 1 }

[[arm]]
name = "sync"
settings = { sync_binlog = 0 }

[[claim]]
text = "a third of the time is the binary log's"
arm = "sync"
at_least = 1.2

[[claim]]
text = "both save more than one"
arm = "best"
against = "sync"
at_least = 1.2

[[claim]]
text = "both together take no less"
arm = "best"
at_most = 1
"""


@pytest.fixture
def steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script takes as long as it sleeps, within 1 %, whatever else goes on; Ctrl-C ends the second one."""
    really_run, turns = SqlWorkload.run, itertools.count()

    def run(workload: SqlWorkload, server: Server, timing: Timing, window: Window) -> Measured:
        measured = really_run(workload, server, timing, window)
        ((asked,),) = server.query(f"SELECT {SLEEP}")
        assert measured.result >= 0.99 * float(asked), "it has slept"
        if (turn := next(turns)) == 1:
            raise KeyboardInterrupt
        seconds = float(asked) * (1 + 0.01 * (turn % 3 - 1))
        return msgspec.structs.replace(measured, result=seconds, window_s=seconds)

    monkeypatch.setattr(SqlWorkload, "run", run)


@pytest.mark.long
@pytest.mark.usefixtures("steady_clock")
def test_all_that_proved_faster_runs_together_and_claims_are_answered(home: Path, tmp_path: Path) -> None:
    file, script = tmp_path / "sleeps.toml", tmp_path / "sleep.sql"
    file.write_text(SLEEPS)
    script.write_text(f"DO SLEEP({SLEEP});\n")
    interrupted = run(str(file), "--server", "mariadb@10.11")
    assert interrupted.returncode == 130, interrupted.stderr
    assert trials_saved(home) == 1
    with Store(home / "store.sqlite") as store:
        (campaign,) = store.campaigns()
    kept = script.read_text()
    script.write_text("DO SLEEP(0);\n")
    changed = run("--resume", campaign.id)
    assert changed.returncode == 2
    assert "has changed since the campaign began" in changed.stderr
    script.write_text(kept)

    done = run("--resume", campaign.id, "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["unit"], result["higher_is_better"]) == ("s", False)
    arms = {arm["name"]: arm for arm in result["arms"]}
    assert {name: arm["comparison"]["verdict"] for name, arm in arms.items()} == {
        "flush": "faster",
        "sync": "faster",
        "best": "faster",
    }
    best = arms["best"]
    assert sorted(best["composed_of"]) == ["flush", "sync"]
    assert best["changes"] == {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 0}
    assert best["comparison"]["ratio"]["estimate"] == pytest.approx(3.0, rel=0.03)
    assert best["comparison"]["blocks"] == 3
    assert [claim["answer"] for claim in result["plan"]["claims"]] == ["confirmed", "confirmed", "refuted"]


def test_a_missing_requirement_is_named_and_nothing_is_measured(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "needy.toml"
    file.write_text(
        f"""
title = "needs what is not there"
{WORKLOAD}
[[arm]]
name = "two"
settings = {{ innodb_flush_log_at_trx_commit = 2 }}

[[requires]]
setting = "log_bin"
values = [true]
why = "there must be something to flush"
"""
    )
    done = run(str(file), "--server", "mariadb@10.11")
    assert done.returncode == 0, done.stderr
    assert "the plan needs log_bin = ON" in " ".join(done.stdout.split())
    assert trials_saved(home) == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "give either a plan or --resume ID"),
        (["PLAN", "--resume", "series-nope"], 2, "give either a plan or --resume ID"),
        (["--resume", "series-nope"], 2, "series-nope"),
        (["no-such-plan"], 2, "no-such-plan"),
        (["PLAN", "--blocks", "1"], 2, "--blocks 1"),
        (["PLAN", "--window", "0"], 2, "--window 0"),
        (["PLAN", "--scale", "0"], 2, "--scale 0"),
        (["PLAN", "--server", "mysql@3.23"], 2, "mysql@3.23"),
        (["PLAN", "--json", "/nowhere/x.json"], 5, "/nowhere/x.json"),
        (["PLAN", "--out", "/proc/flushlab-out"], 5, "/proc/flushlab-out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_before_anything_is_measured(
    home: Path, plan: Path, words: list[str], code: int, message: str
) -> None:
    done = run(*(str(plan) if word == "PLAN" else word for word in words))
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert trials_saved(home) == 0


@pytest.mark.parametrize(
    ("line", "place", "hint"),
    [
        ("innodb_flush_log_at_trx_comit = 1", ":10:", "innodb_flush_log_at_trx_commit"),
        ("datadir = '/tmp'", ":10:", "remove it"),
        ("= 3", ":10:", ""),
    ],
)
def test_a_mistake_in_the_plan_is_told_with_its_place(
    home: Path, tmp_path: Path, line: str, place: str, hint: str
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(
        f"""title = "x"

[workload]
name = "oltp_update_non_index"

[[arm]]
name = "one"

[arm.settings]
{line}
"""
    )
    done = run(str(file), "--server", "mariadb@10.11")
    assert done.returncode == 2, done.stderr
    assert f"bad.toml{place}" in done.stderr
    assert hint in done.stderr
    assert trials_saved(home) == 0


def test_an_option_that_the_workload_does_not_take_is_told_with_its_place(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(WORKLOAD.replace("threads", "thread") + '\n[[arm]]\nname = "a"\nworkload = {tables=1}\n')
    file.write_text('title = "x"\n' + file.read_text())
    done = run(str(file), "--server", "mariadb@10.11")
    assert done.returncode == 2, done.stderr
    assert "bad.toml:5:1" in done.stderr
    assert "threads" in done.stderr


def test_another_commands_campaign_is_not_resumed(home: Path) -> None:
    with Store(home / "store.sqlite") as store:
        store.create_campaign("tune-x", "tune", b"{}")
    done = run("--resume", "tune-x")
    assert done.returncode == 2
    assert "flushlab tune --resume tune-x" in done.stderr


def test_init_writes_a_plan_that_can_be_read_and_overwrites_nothing(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    assert run("--init", str(file)).returncode == 0
    text = file.read_text()
    assert "[[arm]]" in text
    again = run("--init", str(file))
    assert again.returncode == 2
    assert "--force" in again.stderr
    file.write_text("")
    assert run("--init", str(file), "--force").returncode == 0
    assert file.read_text() == text
    assert run("--init", str(tmp_path / "no" / "plan.toml")).returncode == 5
