"""Effects on real servers: what works is passed over in silence, what does nothing is found, by its evidence.

The kernel's count of syncs takes root and ext4 or xfs; elsewhere the tests of syncs are skipped with that
reason.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path

import msgspec
import pytest

from flushlab.build import Build
from flushlab.datadir import DataRoot
from flushlab.machine import file_system_of
from flushlab.record import Arm, Trial, Value
from flushlab.telemetry.tracepoint import SyncCounter
from flushlab.trial.runner import AlternatingRunner
from flushlab.workload.command import CommandWorkload
from flushlab.workload.parse import build_workload
from flushlab.workload.protocol import Timing, Workload
from flushlab.workload.tables import OltpWorkload
from tests.conftest import flavors
from tests.integration.trials import trial_runner
from tests.waiting import PATIENCE_S

SERVERS = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2)
NEWER = ("mariadb@11.8", "mysql@9.7")
ALL = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", *NEWER, first=2)

SWALLOW = """
int fsync(int descriptor) { return 0; }
int fdatasync(int descriptor) { return 0; }
int msync(void *address, unsigned long length, int flags) { return 0; }
"""

Run = Callable[..., Trial]


def updates(threads: int) -> Workload:
    return OltpWorkload(name="oltp_update_non_index", threads=threads, tables=2, table_size=2000)


def lasting(redo_bytes: int = 300_000) -> Timing:
    """A window that goes on until some hundred updates were written in it, however slow the machine is."""
    return Timing(
        warm_up_s=0.1, max_warm_up_s=0.2, seconds=0.2, redo_bytes=redo_bytes, max_seconds=PATIENCE_S
    )


@pytest.fixture
def run(build: Callable[[str], Build]) -> Run:
    """Runs one trial: `run("mysql@5.7", threads=16, innodb_flush_log_at_trx_commit=2)`."""

    def trial(
        name: str,
        *,
        threads: int = 4,
        data_root: DataRoot | None = None,
        preload: Path | None = None,
        arguments: tuple[str, ...] = (),
        workload: Workload | None = None,
        redo_bytes: int = 300_000,
        **settings: Value,
    ) -> Trial:
        server = build(name)
        if preload is not None:
            words = ("/usr/bin/env", f"LD_PRELOAD={preload}", *server.launcher)
            server = msgspec.structs.replace(server, launcher=words)
        runner = trial_runner(
            server,
            workload or updates(threads),
            timing=lasting(redo_bytes),
            data_root=data_root,
            arguments=arguments,
        )
        return measured(runner.run(Arm(name="arm", settings=settings), stage="bench", block=1))

    return trial


@pytest.fixture
def running(build: Callable[[str], Build]) -> Iterator[Callable[..., Run]]:
    """Starts a server with settings, for trials whose settings are switched while it runs:
    `running("mysql@5.7", log_bin="ON")(threads=16, innodb_flush_log_at_trx_commit=2)`."""
    with ExitStack() as servers:

        def start(name: str, **base: Value) -> Run:
            runner = trial_runner(build(name), updates(1), updates(4), updates(16), timing=lasting())
            server = servers.enter_context(closing(AlternatingRunner(runner, base)))

            def trial(*, threads: int = 4, **settings: Value) -> Trial:
                arm = Arm(name="arm", settings={**base, **settings})
                return measured(server.run(arm, stage="arms", block=1, variant=(1, 4, 16).index(threads)))

            return trial

        yield start


def measured(trial: Trial) -> Trial:
    assert trial.outcome in ("measured", "discarded"), trial.reason
    return trial


@pytest.fixture
def counted() -> None:
    """Needs the kernel's count of syncs."""
    filesystem = file_system_of(DataRoot.open().path).filesystem
    counter = SyncCounter.open([filesystem])
    if counter is None:
        pytest.skip(f"syncs on {filesystem} cannot be counted here: no right, or no tracepoint")
    counter.close()


@pytest.fixture
def swallowing_library() -> Iterator[Path]:
    """A library that makes syncs do nothing, where the servers' user can read it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = Path(tempfile.mkdtemp(prefix="flh-", dir="/tmp"))
    folder.chmod(0o755)
    library = folder / "libeatmydata.so"
    source = folder / "swallow.c"
    source.write_text(SWALLOW)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    yield library
    shutil.rmtree(folder)


@pytest.fixture
def memory_root() -> Iterator[DataRoot]:
    if file_system_of(Path("/dev/shm")).filesystem != "tmpfs":
        pytest.skip("/dev/shm is not in memory")
    folder = Path(tempfile.mkdtemp(prefix="flh-", dir="/dev/shm"))
    folder.chmod(0o755)
    yield DataRoot.open(folder)
    shutil.rmtree(folder)


def found(trial: Trial) -> dict[str, str]:
    return {warning.setting: warning.text for warning in trial.warnings if warning.slug == "no-effect"}


@pytest.mark.parametrize("name", SERVERS)
def test_settings_that_work_raise_no_alarm(name: str, running: Callable[..., Run]) -> None:
    run = running(name, innodb_flush_method="O_DIRECT", log_bin="ON")
    for threads, policy in product((1, 16), (0, 1, 2)):
        sync_binlog = (policy + (threads == 16)) % 2  # every policy meets both
        trial = run(threads=threads, innodb_flush_log_at_trx_commit=policy, sync_binlog=sync_binlog)
        assert found(trial) == {}, (threads, policy, trial.file_activity)
        assert "O_DIRECT" in trial.file_activity["data"].flags


@pytest.mark.parametrize("name", NEWER)
def test_newer_servers_name_their_files_so_that_they_are_told_apart(
    name: str, running: Callable[..., Run]
) -> None:
    run = running(name, log_bin="ON", sync_binlog=100)
    for policy in (1, 2):
        trial = run(threads=16, innodb_flush_log_at_trx_commit=policy)
        assert found(trial) == {}, (policy, trial.file_activity)
        assert {"redo", "binlog", "data", "undo"} <= trial.file_activity.keys()
        assert "O_DIRECT" in trial.file_activity["undo"].flags


def test_without_the_kernels_count_the_servers_own_is_taken(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SyncCounter, "open", lambda filesystems: None)
    trial = run("mysql@5.7", threads=16)
    assert found(trial) == {}
    assert trial.file_activity["redo"].fsyncs == trial.deltas["Innodb_os_log_fsyncs"] > 0
    assert run("mariadb@10.11").file_activity["redo"].fsyncs is None


@pytest.mark.parametrize(
    ("name", "room"),
    flavors(("mariadb@10.11", 4 << 20), ("mysql@8.0", 8 << 20), ("mysql@5.7", 8 << 20), first=2),
)
def test_heavy_flushing_at_2_raises_no_alarm(name: str, room: int, run: Run) -> None:
    """`room`: of the redo log, MariaDB's in one file and MySQL's in two."""
    load = OltpWorkload(name="oltp_write_only", threads=16, tables=2, table_size=2000)
    trial = run(
        name,
        workload=load,
        innodb_flush_log_at_trx_commit=2,
        innodb_buffer_pool_size=24 << 20,
        innodb_log_file_size=4 << 20,
        innodb_io_capacity=20_000,
        innodb_io_capacity_max=40_000,
        innodb_max_dirty_pages_pct=1,
        redo_bytes=room + (1 << 20),  # pages must be flushed
    )
    assert found(trial) == {}, trial.file_activity
    assert trial.file_activity["data"].bytes, "pages were flushed"


@pytest.mark.parametrize("name", SERVERS)
def test_syncs_and_bytes_are_told_per_class_of_files(
    name: str, run: Run, counted: None, tmp_path: Path
) -> None:
    script, commits = tmp_path / "commits.sql", 300
    script.write_text("CREATE TABLE t (n INT, c CHAR(200));\n" + "INSERT INTO t VALUES (1, 'x');\n" * commits)
    workload = build_workload(f"sql:{script}", {})
    trial = run(name, workload=workload, innodb_flush_log_at_trx_commit=1, log_bin="ON", sync_binlog=1)
    files = trial.file_activity
    for kind in ("redo", "binlog"):  # one connection: each commit has its own sync
        activity = files[kind]
        assert activity.fsyncs is not None and activity.bytes is not None
        assert commits <= activity.fsyncs
        assert 100 * commits < activity.bytes < 10_000 * commits
    told, syncs = trial.deltas.get("Innodb_os_log_fsyncs"), files["redo"].fsyncs or 0
    if told is not None:
        # The server's own count is begun a little later and ended a little earlier; the script is within it.
        assert told <= syncs + 1
        assert syncs - told <= 0.02 * told + 20


@pytest.mark.parametrize("name", SERVERS)
def test_a_library_that_swallows_syncs_is_found(
    name: str, run: Run, counted: None, swallowing_library: Path
) -> None:
    trial = run(name, threads=16, preload=swallowing_library, log_bin="ON", sync_binlog=1)
    assert trial.settings["innodb_flush_log_at_trx_commit"] == 1
    assert found(trial).keys() == {"innodb_flush_log_at_trx_commit", "sync_binlog"}
    assert "never synced" in found(trial)["innodb_flush_log_at_trx_commit"]
    assert (trial.file_activity["redo"].fsyncs, trial.file_activity["binlog"].fsyncs) == (0, 0)


def test_debug_no_sync_is_found_where_it_works(run: Run, counted: None) -> None:
    # MariaDB's --debug-no-sync silences the server's own files; InnoDB goes on syncing (10.11).
    trial = run("mariadb@10.11", arguments=("--debug-no-sync",), log_bin="ON", sync_binlog=1)
    assert found(trial).keys() == {"sync_binlog"}
    assert trial.file_activity["redo"].fsyncs


@pytest.mark.parametrize("name", ALL)
def test_o_dsync_makes_2_sync_as_often_as_1_and_itself_raises_no_alarm(
    name: str, running: Callable[..., Run]
) -> None:
    run = running(name, innodb_flush_method="O_DSYNC")
    trial = run(innodb_flush_log_at_trx_commit=2)
    assert found(trial).keys() == {"innodb_flush_log_at_trx_commit"}, trial.file_activity
    assert "written through" in found(trial)["innodb_flush_log_at_trx_commit"]
    assert trial.load is not None
    syncs = trial.file_activity["redo"].fsyncs
    if syncs:  # as counted by the kernel, where it can
        assert syncs + 1 >= trial.load.events / 4  # one group holds at most the 4 connections
    trial = run(innodb_flush_log_at_trx_commit=1)
    assert found(trial) == {}, trial.file_activity


@pytest.mark.parametrize("name", SERVERS)
def test_in_memory_o_direct_and_syncs_are_reported(name: str, run: Run, memory_root: DataRoot) -> None:
    trial = run(name, data_root=memory_root, innodb_flush_method="O_DIRECT", log_bin="ON", sync_binlog=1)
    assert {"innodb_flush_method", "innodb_flush_log_at_trx_commit", "sync_binlog"} <= found(trial).keys()
    assert "the data files are in memory" in found(trial)["innodb_flush_method"]


def test_a_command_without_a_count_of_commits_is_judged_by_checkpoints(
    run: Run, counted: None, swallowing_library: Path
) -> None:
    script = (
        "import os, re, time, pymysql\n"
        "c = pymysql.connect(unix_socket=os.environ['FLUSHLAB_SOCKET'], user=os.environ['FLUSHLAB_USER'],\n"
        "    password=os.environ['FLUSHLAB_PASSWORD'], database='flushlab', autocommit=True)\n"
        "cursor = c.cursor()\n"
        "def place(what):\n"
        "    cursor.execute('SHOW ENGINE INNODB STATUS')\n"
        r"    return int(re.search(what + r'\s+(\d+)', cursor.fetchone()[2])[1])"
        "\n"
        "cursor.execute('CREATE TABLE t (a INT PRIMARY KEY)')\n"
        "for n in range(200): cursor.execute(f'INSERT INTO t VALUES ({n})')\n"
        "written = place('Log sequence number')\n"
        # An idle MySQL makes one every second.
        "while place('Last checkpoint at') < written: time.sleep(0.05)\n"
    )
    file = swallowing_library.parent / "load.py"
    file.write_text(script)
    workload = CommandWorkload(command=f"{sys.executable} {file}")
    for preload in (None, swallowing_library):
        trial = run("mysql@5.7", workload=workload, preload=preload)
        reported = found(trial).get("innodb_flush_log_at_trx_commit", "")
        assert ("although a checkpoint was made" in reported) is (preload is not None), trial.file_activity
