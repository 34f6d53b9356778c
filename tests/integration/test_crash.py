"""Crashes of real servers: what was acknowledged before is there afterwards, and what was lost is found."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from click.testing import CliRunner

import flushlab
from flushlab.build import Build
from flushlab.campaign.crash.check import BROKE, check, disk_mib
from flushlab.campaign.crash.crash import crash, crash_settings
from flushlab.campaign.crash.plan import CrashLoad, CrashPlan
from flushlab.campaign.target import open_servers
from flushlab.campaign.watcher import Watcher
from flushlab.cli.app import make_app
from flushlab.crashed import killed, recorded
from flushlab.errors import CommandFailed, FlushlabError, MeasurementError, StorageError, UsageError
from flushlab.experiment.tune_plan import FrontierPoint
from flushlab.record import CrashFacts, NodeWay, PointKind, Ratio, ReplicaState, Value
from flushlab.report.crash import as_json, verdict_of
from flushlab.server import Sandbox
from flushlab.server.galera.cluster import Cluster
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import CrashSpec
from flushlab.spec.parts import ServerSpec
from flushlab.store import Store, existing_store
from flushlab.workload.parse import parse_workload
from tests.conftest import require_galera
from tests.unit.crashes import Proven
from tests.waiting import PATIENCE_S, unmount, wait_until

SMALL: dict[str, Value] = {"tables": 1, "table_size": 100, "threads": 2}
RELAXED: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def until_seen(
    crashed: Callable[[float], CrashFacts], seen: Callable[[CrashFacts], object], seconds: float
) -> CrashFacts:
    """Crashes loads that last longer and longer, until there is what is to be seen of them.

    On a machine that leaves a server next to no time, a second's load has nothing that could be lost.
    """
    for longer in (1, 8):
        with suppress(MeasurementError):
            if seen(facts := crashed(longer * seconds)):
                return facts
    return crashed(60 * seconds)


def test_a_killed_server_keeps_what_it_acknowledged_and_its_page_tells_of_it(
    build: Callable[[str], Build], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(name := "mariadb@10.11")
    settings: dict[str, Value] = {**RELAXED, "log_bin": "ON"}
    facts = crash(
        server=name,
        failure="process",
        crashes=2,
        duration=0.5,
        settings=settings,
        positive_control=False,
        replica=True,
    )
    (arm,) = facts.arms
    follows = ReplicaState(outcome="follows")
    assert [(judged.replica, judged.new_replica) for judged in arm.crashes] == [(follows, follows)] * 2
    assert [(judged.outcome, judged.lost, judged.reasons) for judged in arm.crashes] == [("kept", 0, ())] * 2
    assert all(judged.acknowledged > 0 and judged.binlog is not None for judged in arm.crashes)
    assert all(judged.binlog.behind == 0 for judged in arm.crashes if judged.binlog)

    monkeypatch.setattr("flushlab.campaign.crash.crash.crash", lambda **_: facts)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(make_app(), ["crash", "--server", name, "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "What is left of" in page.read_text()


def test_a_cluster_that_is_killed_as_a_whole_comes_back_with_all_or_is_inconsistent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_galera(name := "mariadb@10.11")
    come_back, kills = killed.bring_back, itertools.count(1)

    def loses_the_acks_at_last(cluster: Cluster, down: Collection[int]) -> dict[int, NodeWay]:
        ways = come_back(cluster, down)
        if next(kills) == 2:
            cluster.query("DROP DATABASE flushlab_crash")
        return ways

    monkeypatch.setattr(killed, "bring_back", loses_the_acks_at_last)
    settings: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2, "log_bin": "ON"}
    facts = crash(
        server=name,
        cluster=2,
        nodes="all",
        failure="process",
        crashes=2,
        duration=0.5,
        settings=settings,
        positive_control=False,
    )
    ((judged, unreadable),) = (arm.crashes for arm in facts.arms)
    assert (judged.outcome, judged.lost, judged.reasons) == ("kept", 0, ())
    assert judged.acknowledged > 0
    first, second = sorted(node.way for node in judged.nodes)
    assert first == "bootstrap"
    assert second in ("ist", "sst")
    assert all(node.crashed and node.outcome == "kept" for node in judged.nodes)
    assert getattr(as_json(facts).arms[0].nodes, "bootstrap", 0) == 2
    assert unreadable.outcome == "inconsistent"
    assert unreadable.reasons[0].startswith("node 1 cannot read its tables: ")


_SMALL: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 1, "innodb_log_file_size": 10 << 20}


@needs_root
def test_the_power_cut_of_one_node_takes_nothing_from_the_cluster() -> None:
    require_galera(name := "mariadb@10.11")
    settings: dict[str, Value] = {**_SMALL, "innodb_flush_log_at_trx_commit": 2}
    asked: dict[str, Any] = {"crashes": 1, "duration": 0.5, "disk_size": 512, "settings": settings}
    ((judged,),) = (
        arm.crashes for arm in crash(server=name, cluster=3, positive_control=False, **asked).arms
    )
    assert (judged.outcome, judged.lost, judged.reasons) == ("kept", 0, ())
    assert judged.acknowledged > 0
    assert sorted(node.way == "stayed" for node in judged.nodes) == [False, True, True]
    assert [node.outcome for node in judged.nodes] == ["kept"] * 3


@needs_root
def test_a_clusters_winner_is_crashed_on_all_nodes_at_once(tmp_path: Path) -> None:
    require_galera(name := "mariadb@10.11")
    spec = CrashSpec(
        server=ServerSpec(cluster=2),
        nodes="all",
        crashes=1,
        duration=0.5,
        threads=2,
        disk_size=512,
        positive_control=False,  # it takes as long again
    )
    load = CrashLoad(workload=parse_workload("oltp_update_non_index", SMALL))
    with (
        open_servers(ServerSpec(server=name, cluster=2)) as target,
        Store(tmp_path / "store.sqlite") as store,
    ):
        store.create_campaign("tune-1", "tune", b"{}")
        plan = CrashPlan(target=target, watcher=Watcher(), load=load, spec=spec)
        facts = crash_settings(plan, {"fast": _SMALL}, store, "tune-1")
        again = crash_settings(plan, {"fast": _SMALL}, store, "tune-1")
    assert again.arms == facts.arms, "what was crashed is not crashed again when the campaign is resumed"
    assert (facts.crashed, facts.nodes) == ("all", 2)
    arm = facts.arms[0]
    (judged,) = arm.crashes
    assert (judged.outcome, judged.reasons) == ("kept", ())
    assert all(node.crashed and node.alone is not None for node in judged.nodes)


_PROGRAM = """
import os, pymysql
server = pymysql.connect(unix_socket=os.environ["FLUSHLAB_SOCKET"], user=os.environ["FLUSHLAB_USER"],
    password=os.environ["FLUSHLAB_PASSWORD"], database=os.environ["FLUSHLAB_DATABASE"], autocommit=True)
cursor = server.cursor()
cursor.execute("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, pad CHAR(200)) ENGINE=InnoDB")
{then}
while True:
    cursor.execute("INSERT INTO t (pad) VALUES ('x')")
"""
_DAMAGE = """
cursor.execute("INSERT INTO t (pad) SELECT 'x' FROM information_schema.columns LIMIT 500")
cursor.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
age = 1000
while age >= 1000:  # until all is written out and no redo mends it
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_checkpoint_age'")
    age = int(cursor.fetchone()[1])
cursor.execute("SELECT @@datadir")
with open(cursor.fetchone()[0] + "flushlab/t.ibd", "r+b") as file:
    file.seek(3 * 16384)
    file.write(b"damage" * 2000)
raise SystemExit
"""


def _program(folder: Path, then: str = "") -> str:
    script = folder / "program.py"
    script.write_text(_PROGRAM.format(then=then))
    return f"command: {sys.executable} {script}"


def test_a_command_is_judged_by_whether_the_server_starts_and_its_tables_are_sound(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    build(name := "mariadb@10.11")
    facts = crash(server=name, workload=_program(tmp_path), failure="process", crashes=2, duration=1.0)
    (arm,) = facts.arms
    assert not arm.checks_rows
    assert [(judged.outcome, judged.acknowledged, judged.reasons) for judged in arm.crashes] == [
        ("sound", 0, ())
    ] * 2
    assert [warning.slug for warning in facts.warnings] == ["no-acks"]
    assert as_json(facts).verdict == "unknown", "nothing proves that damage is detected"


def test_damage_to_a_commands_tables_is_seen(build: Callable[[str], Build], tmp_path: Path) -> None:
    build(name := "mariadb@10.11")
    program = _program(tmp_path, _DAMAGE)
    (arm,) = crash(server=name, workload=program, failure="process", crashes=1, duration=600.0).arms
    assert verdict_of(arm) in {"inconsistent", "not_started"}


def test_a_command_that_fails_ends_the_campaign_with_what_it_said(build: Callable[[str], Build]) -> None:
    build(name := "mariadb@10.11")
    with pytest.raises(CommandFailed, match=r"exit code 3 .*\n.*no such luck"):
        crash(server=name, workload="command: echo no such luck; exit 3", failure="process", crashes=1)


def test_what_runs_beside_the_load_is_judged_by_its_acks(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    build(name := "mariadb@10.11")
    asked: dict[str, Any] = {"failure": "process", "crashes": 1, "duration": 1.0, "positive_control": False}
    (arm,) = crash(server=name, background=_program(tmp_path), **asked).arms
    (judged,) = arm.crashes
    assert (judged.outcome, judged.reasons) == ("kept", ())
    assert judged.acknowledged > 0


@needs_root
def test_a_script_is_judged_on_what_a_power_cut_leaves(build: Callable[[str], Build], tmp_path: Path) -> None:
    build("mariadb@10.11")
    script = tmp_path / "script.sql"
    rows = ", ".join(["('x')"] * 100)
    script.write_text("CREATE TABLE t (pad CHAR(200));\n" + f"INSERT INTO t VALUES {rows};\n" * 50)
    (arm,) = _crashed(["base"], workload=f"sql:{script}", crashes=2).arms
    assert verdict_of(arm) == "sound"
    assert arm.records > 0


@pytest.mark.parametrize(("cluster", "nodes"), [(None, None), (2, "all")])
def test_a_server_that_is_not_set_as_asked_is_not_crashed(
    build: Callable[[str], Build], monkeypatch: pytest.MonkeyPatch, cluster: int | None, nodes: str | None
) -> None:
    build(name := "mariadb@10.11")
    if cluster:
        require_galera()
    read = Sandbox.read_back

    def other(server: Sandbox, names: Iterable[str]) -> dict[str, Value]:
        return {**read(server, names), "innodb_flush_log_at_trx_commit": 1}

    monkeypatch.setattr(Sandbox, "read_back", other)
    relaxed: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2}
    with pytest.raises(MeasurementError, match="base: innodb_flush_log_at_trx_commit was set to 2 but"):
        crash(
            server=name,
            failure="process",
            crashes=1,
            duration=0.5,
            settings=relaxed,
            cluster=cluster,
            nodes=nodes,
        )


@needs_root
def test_a_power_cut_takes_what_was_not_synced_and_can_be_replayed(
    build: Callable[[str], Build], tmp_path: Path
) -> None:
    build("mariadb@10.11")
    facts = until_seen(
        lambda seconds: crash(
            ["base", "innodb_flush_log_at_trx_commit=0"],
            server="mariadb@10.11",
            crashes=2,
            duration=seconds,
            disk_size=512,
            settings={"innodb_log_file_size": 10 << 20},
            save_recording=tmp_path / f"records-{seconds}",
            rows=2,
        ),
        lambda facts: verdict_of(facts.arms[1]) == "lost",
        1.5,
    )
    safe, unsafe = facts.arms
    assert verdict_of(safe) == "kept"
    assert verdict_of(unsafe) == "lost"
    failing = as_json(facts).failing
    again = crash(server="mariadb@10.11", replay=failing[0].line)
    first = next(judged for judged in unsafe.crashes if judged.outcome == "lost")
    assert _essence(again.arms[0].crashes[0]) == _essence(first)


@needs_root
def test_a_torn_page_is_repaired_from_its_copy_and_stops_a_server_that_has_none(
    build: Callable[[str], Build],
) -> None:
    build("mariadb@10.11")
    broken = {"not_started", "inconsistent"}
    (safe,) = _crashed(["base"], failure="torn", crashes=4, duration=1.0).arms
    assert verdict_of(safe) == "kept"
    without: dict[str, Value] = {"innodb_doublewrite": "OFF"}
    facts = until_seen(  # of eight torn pages about half are needed by the recovery
        lambda seconds: _crashed(["base"], failure="torn", crashes=8, duration=seconds, settings=without),
        lambda facts: verdict_of(facts.arms[0]) in broken,
        1.0,
    )
    (unsafe,) = facts.arms
    assert verdict_of(unsafe) in broken


@needs_root
def test_a_disk_that_lies_about_flushes_loses_what_was_synced(build: Callable[[str], Build]) -> None:
    build("mariadb@10.11")
    facts = until_seen(
        lambda seconds: _crashed(["base"], failure="lying-disk", crashes=2, duration=seconds),
        loses,
        0.5,
    )
    assert loses(facts)


def loses(facts: CrashFacts) -> bool:
    (arm,) = facts.arms
    return any(judged.outcome == "lost" for judged in arm.crashes)


@needs_root
def test_a_server_whose_flush_fails_ends_itself_and_acknowledges_nothing_more(
    build: Callable[[str], Build],
) -> None:
    build("mariadb@10.11")
    (arm,) = until_seen(
        lambda seconds: _crashed(["base"], failure="eio", crashes=1, duration=seconds),
        lambda facts: "ended itself" in facts.arms[0].fault,
        1.0,
    ).arms
    assert verdict_of(arm) == "kept"
    assert "acknowledged 0 commits begun after the fault, and ended itself" in arm.fault
    assert "returned 5" in arm.fault


@needs_root
def test_a_server_on_a_full_disk_keeps_what_it_acknowledged_until_then(build: Callable[[str], Build]) -> None:
    build("mariadb@10.11")
    settings: dict[str, Value] = {"log_bin": "ON", "sync_binlog": 1}

    def halved(facts: CrashFacts) -> bool:
        (arm,) = facts.arms
        before = max(judged.acknowledged for judged in arm.crashes)
        after = int(arm.fault.split("acknowledged ")[1].split()[0].replace(",", ""))
        return after < before / 2

    facts = until_seen(
        lambda seconds: _crashed(
            ["base"], failure="full", crashes=2, duration=seconds, rows=50, settings=settings
        ),
        halved,
        1.0,
    )
    assert verdict_of(facts.arms[0]) == "kept"
    assert halved(facts), facts.arms[0].fault


@needs_root
def test_ctrl_c_prints_what_was_judged_and_leaves_nothing(
    build: Callable[[str], Build], furnished_home: Path
) -> None:
    build("mariadb@10.11")
    root = furnished_home / "root"
    words = ["--server", "mariadb@10.11", "--crashes", "500", "--duration", "0.5", "--disk-size", "300"]
    words += ["--set", "innodb_log_file_size=10M", "--data-root", str(root)]
    command = [sys.executable, "-m", "flushlab", "crash", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        wait_until(lambda: running.poll() is not None or judged_so_far() >= 2, "two crashes are judged")
        os.killpg(running.pid, signal.SIGINT)
        said, progress = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert "400 of 500 judged" not in progress, "nobody waits for 498 crashes"
    assert "this is what was judged until then" in said
    assert str(root) not in Path("/proc/self/mounts").read_text()
    assert list(root.iterdir()) == []


@needs_root
@pytest.mark.parametrize("moment", ["recording", "judging"])
def test_a_killed_campaign_goes_on_with_what_it_has_kept(
    build: Callable[[str], Build], furnished_home: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("mariadb@10.11")
    keep = furnished_home / "kept"
    crashes = 10 if moment == "recording" else 6
    monkeypatch.setattr(recorded, "_ADVERSARIAL", 2)  # of ten one is of each kind that is not random
    words = [
        "--server",
        "mariadb@10.11",
        "--crashes",
        str(crashes),
        "--disk-size",
        "300",
        "--no-positive-control",
    ]
    words += ["--duration", "60" if moment == "recording" else "0.5", "--save-recording", str(keep)]
    # A torn page of MariaDB's system tables is beyond repair: docs/results/reports/mariadb-aria-torn-page.md.
    words += ["--set", "innodb_log_file_size=10M", "--tear", "0"]
    with subprocess.Popen([sys.executable, "-m", "flushlab", "crash", *words]) as running:
        if moment == "recording":
            wait_until(lambda: any(_bytes(file) > 3200 for file in keep.glob("*.record/notes")), "commits")
        else:
            wait_until(lambda: running.poll() is not None or judged_so_far() >= 2, "two crashes are judged")
        running.kill()
    assert running.returncode == -signal.SIGKILL
    (row,) = existing_store().campaigns()
    facts = crash(resume=row.id)
    (arm,) = facts.arms
    assert [judged for judged in arm.crashes if judged.outcome != "kept"] == []
    assert len(arm.crashes) == crashes
    if moment == "recording":
        assert {judged.point.kind for judged in arm.crashes} == set(get_args(PointKind))
    assert all(judged.acknowledged > 0 for judged in arm.crashes if judged.point.kind == "after_ack")
    assert [str(folder) for folder in keep.glob("*.record")] == [arm.folder], "it was not recorded again"
    (again,) = existing_store().campaigns()
    assert (again.id, again.state, facts.campaign) == (row.id, "done", row.id)


@needs_root
def test_a_record_that_fills_its_file_system_is_told_from_a_disk_that_is_too_small(
    build: Callable[[str], Build], furnished_home: Path
) -> None:
    build("mariadb@10.11")
    tiny = furnished_home / "tiny"
    tiny.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(tiny)], check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        tiny.chmod(0o755)
        with pytest.raises(StorageError, match="the record has filled the file system"):
            crash(server="mariadb@10.11", crashes=1, duration=1.0, data_root=tiny, positive_control=False)
        assert list(tiny.iterdir()) == []
    finally:
        unmount(tiny)


@needs_root
def test_a_file_system_that_is_full_while_a_crash_is_judged_is_no_loss(
    build: Callable[[str], Build], furnished_home: Path
) -> None:
    build(name := "mariadb@10.11")
    (arm,) = _crashed(["base"], crashes=1, duration=0.5, save_recording=furnished_home / "kept").arms
    tiny = furnished_home / "tiny"
    tiny.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(tiny)], check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        tiny.chmod(0o755)
        line = f"{arm.folder}:at={arm.crashes[0].point.at}:seed=1"
        (judged,) = crash(server=name, replay=line, data_root=tiny).arms[0].crashes
        assert judged.outcome == "unknown"
        assert "failed; where it lies" in judged.reasons[0]
    finally:
        unmount(tiny)


@needs_root
def test_what_was_killed_before_its_disk_failed_is_recorded_again(
    build: Callable[[str], Build], furnished_home: Path
) -> None:
    build("mariadb@10.11")
    keep = furnished_home / "kept"
    words = ["--server", "mariadb@10.11", "--crashes", "2", "--disk-size", "300", "--no-positive-control"]
    words += [
        "--failure",
        "eio",
        "--duration",
        "8",
        "--save-recording",
        str(keep),
        "--set",
        "innodb_log_file_size=10M",
    ]
    with subprocess.Popen([sys.executable, "-m", "flushlab", "crash", *words]) as running:
        wait_until(lambda: any(_bytes(file) > 3200 for file in keep.glob("*.record/notes")), "commits")
        running.kill()
    (short,) = keep.glob("*.record")
    (row,) = existing_store().campaigns()
    facts = crash(resume=row.id)
    (arm,) = facts.arms
    assert arm.fault.startswith("the server acknowledged ")
    assert arm.folder not in ("", str(short))
    assert facts.fs == "ext4"


def judged_so_far() -> int:
    """Crashes in the store of the home that have been judged."""
    with suppress(FlushlabError), existing_store() as store:
        return sum(1 for row in store.campaigns() for _ in store.crashes(row.id))
    return 0


def _bytes(file: Path) -> int:
    return file.stat().st_size


def _crashed(configurations: list[str], **asked: Any) -> CrashFacts:
    settings = {"innodb_log_file_size": 10 << 20, **asked.pop("settings", {})}
    return crash(
        configurations,
        server="mariadb@10.11",
        disk_size=512,
        positive_control=False,
        settings=settings,
        **asked,
    )


def _essence(judged: object) -> dict[str, object]:
    found = msgspec.to_builtins(judged)
    return {name: found[name] for name in ("outcome", "acknowledged", "lost", "lost_s", "reasons")}


def test_python_has_it_under_the_same_name() -> None:
    assert flushlab.crash is crash
    assert CrashFacts.__name__ == "CrashFacts"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"failure": "meteor"}, "'meteor' is not one of"),
        ({"fs": "fat", "failure": "process"}, "'fat' is not one of"),
        ({"crashes": 0, "failure": "process"}, "--crashes 0 is out of range"),
        ({"tear": 100, "failure": "process"}, "--tear is 100"),
        (
            {"workload": "command: true", "failure": "process", "cluster": 3},
            "is for one server, not for a cluster",
        ),
        ({"replay": "nonsense"}, "names no crash"),
        ({"replay": "r:at=1:seed=1", "failure": "process"}, "leaves the disk as it is"),
        ({"save_recording": "", "crashes": 1}, "--save-recording is empty"),
        ({"failure": "torn", "tear": 0}, "tears none"),
        ({"failure": "os", "tear": 4096}, "--tear has no effect"),
        ({"fs": "xfs", "disk_size": 256}, "--disk-size 256 is too small for xfs"),
        ({"disk": "gp3", "failure": "process"}, "--disk needs a disk"),
        ({"tables": 3, "failure": "process"}, "takes no option tables"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        crash(**asked)


@needs_root
def test_a_winner_is_crashed_before_it_is_handed_over(build: Callable[[str], Build], tmp_path: Path) -> None:
    build(name := "mariadb@10.11")
    base: dict[str, Value] = {"innodb_log_file_size": 10 << 20}
    fast = FrontierPoint(
        floor=Floor.STRICT,
        arm="fast",
        settings={"innodb_flush_log_at_trx_commit": 0},
        ratio=Ratio(estimate=2.0, low=1.9, high=2.1),
        free_ratio=None,
    )
    load = CrashLoad(workload=parse_workload("oltp_update_non_index", SMALL))
    with open_servers(ServerSpec(server=name)) as target, Store(tmp_path / "store.sqlite") as store:

        def crash_one(seconds: float, arm: str, settings: Mapping[str, Value]) -> CrashFacts:
            if f"tune-{seconds:.0f}" not in {row.id for row in store.campaigns()}:
                store.create_campaign(f"tune-{seconds:.0f}", "tune", b"{}")
            spec = CrashSpec(
                crashes=2, duration=seconds, threads=2, disk_size=disk_mib(settings, target.identity)
            )
            plan = CrashPlan(target=target, watcher=Watcher(), load=load, spec=spec)
            return crash_settings(plan, {arm: settings}, store, f"tune-{seconds:.0f}")

        for seconds in (1.5, 12, 90):  # until there is something to lose, on a machine with little time
            proven = Proven(base, fast)
            found, warnings = check(proven, partial(crash_one, seconds), "power", Floor.STRICT, list)
            if proven.rejected and found and verdict_of(found.arms[2]) == "lost":
                break
    assert list(proven.rejected) == ["fast"]
    assert "acknowledged commits were lost in" in proven.rejected["fast"]
    assert [warning.slug for warning in warnings] == [BROKE]
    assert found is not None
    fast_arm, base_arm, control = found.arms
    assert (verdict_of(fast_arm), verdict_of(base_arm), verdict_of(control)) == ("lost", "kept", "lost")
