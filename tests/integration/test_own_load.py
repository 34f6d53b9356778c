"""The load of somebody's own server, compared in place: an application writes, flushlab changes settings.

A delay of the commit that the server itself makes stands for a slow disk, so that no verdict depends on the
machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flushlab.campaign.compare import compare
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.pool import own_load
from flushlab.campaign.pool.remote import RemotePool
from flushlab.diagnosis import load as recording
from flushlab.diagnosis.doctor import reach
from flushlab.diagnosis.files.recording import parse
from flushlab.diagnosis.load import LoadObserver
from flushlab.errors import BelowFloor, CountersReset, MeasurementError, UsageError
from flushlab.machine import state_path
from flushlab.server import Sandbox
from flushlab.server.remote import put_back
from flushlab.server.remote.server import watched
from flushlab.telemetry.live import session
from flushlab.telemetry.live.questions import load_questions
from flushlab.workload.protocol import OwnLoad
from tests.command import flushlab
from tests.conftest import StartSandbox, flavors
from tests.integration import application
from tests.waiting import stop, wait_for_end, wait_until

FLUSH = "innodb_flush_log_at_trx_commit"
SERVERS = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", "mariadb@11.8", "mariadb@11.4")
DELAY_US = 400_000
"""Commits without it take far less on any machine, as nothing is synced."""
SLICE_S = 1.0
BLOCKS = 7
"""So many that two slices in which the machine stands still leave the verdict what it is; of four, one is too
many."""


@pytest.fixture(scope="module")
def servers(shared_sandbox: Any) -> Callable[[str], Sandbox]:
    """A server by the name of its build, with an application's table and two accounts."""

    @cache
    def server(build: str) -> Sandbox:
        started: Sandbox = shared_sandbox(
            build, settings={"log_bin": "ON", "sync_binlog": 0, FLUSH: 0, "server_id": 7}, kept=True
        )
        for statement in application.SETUP:
            started.query(statement)
        plugin = " WITH mysql_native_password BY" if build in ("mysql@5.7", "mysql@8.0") else " BY"
        for user in ("owner", "app"):
            started.query(f"CREATE USER {user}@'%' IDENTIFIED{plugin} 'secret'")
            started.query(f"GRANT ALL ON *.* TO {user}@'%'")
        return started

    return server


@pytest.fixture
def started(build: str, servers: Callable[[str], Sandbox]) -> Sandbox:
    """The server; it outlives the home of a test."""
    return servers(build)


@pytest.fixture
def server(started: Sandbox, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The same, with short slices, and patience with a machine that is busy with other tests."""
    monkeypatch.setattr(session, "DEADLINE_S", 30.0)
    monkeypatch.setattr(RemotePool, "slice_s", SLICE_S)
    monkeypatch.setattr(OwnLoad, "slice_s", SLICE_S)
    monkeypatch.setattr(own_load.ObservedSlices, "least_slice_s", SLICE_S)
    monkeypatch.setattr(own_load, "OWN_LOAD_LEAD_S", DELAY_US / 1e6)
    return started


def dsn(server: Sandbox, user: str = "owner") -> str:
    return f"mysql://{user}:secret@127.0.0.1:{server.endpoint.port}/"


@contextlib.contextmanager
def load(server: Sandbox, connections: int, rate: float) -> Iterator[None]:
    """The application, until the end of the context."""
    words = [f"127.0.0.1:{server.endpoint.port}", "app", "secret", str(connections), str(rate)]
    program = subprocess.Popen(
        [sys.executable, application.__file__, *words],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        before = commits(server)
        wait_until(lambda: commits(server) > before, "the application commits")
        yield
    finally:
        program.communicate()


def recorded(file: Path) -> Sequence[recording.Stretch]:
    return parse(file.read_text()).stretches


def commits(server: Sandbox) -> int:
    ((count,),) = server.query(f"SELECT COUNT(*) FROM {application.TABLE}")
    return int(count)


def delayed(server: Sandbox) -> str:
    """Settings of a server whose commits wait for `DELAY_US`."""
    if server.identity.flavor == "mysql":
        return f"slow: binlog_group_commit_sync_delay={DELAY_US}"
    return f"slow: binlog_commit_wait_count=1000 binlog_commit_wait_usec={DELAY_US}"


def compared(server: Sandbox, *configurations: str, **given: Any) -> CampaignFacts:
    return compare(
        ["base", *configurations], own_load=True, dsn=dsn(server), **{"allow_set_global": True, **given}
    )


def written(server: Sandbox) -> list[Any]:
    """Where the binary log ends, and how many rows were written."""
    status = "SHOW BINARY LOG STATUS" if server.identity.version >= (8, 4) else "SHOW MASTER STATUS"
    position = server.query("SHOW MASTER STATUS" if server.identity.flavor == "mariadb" else status)[0][:2]
    rows = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_rows_inserted'")
    return [position, rows]


@pytest.mark.parametrize("build", SERVERS)
@pytest.mark.parametrize(("rate", "demand"), [(0.0, "closed loop"), (8.0, "fixed")])
def test_a_slower_commit_shows_in_latency_and_in_throughput_only_if_the_load_waits_for_it(
    server: Sandbox, rate: float, demand: str
) -> None:
    with load(server, connections=8, rate=rate):
        facts = compared(server, delayed(server), blocks=BLOCKS, duration=3 * BLOCKS * SLICE_S)
    (slow,) = facts.arms
    assert (facts.objective, facts.unit, facts.demand) == ("latency", "commits/s", demand)
    assert slow.comparison is not None and slow.comparison.verdict == "slower"
    assert facts.control is not None and facts.control.comparison is not None
    assert facts.base.observed is not None and facts.base.observed.commits > 0
    assert server.read_back([FLUSH]) == {FLUSH: 0}


@pytest.mark.parametrize("build", SERVERS)
def test_a_server_without_load_has_nothing_to_measure_and_flushlab_adds_no_write(
    server: Sandbox,
) -> None:
    before = written(server)
    with pytest.raises(MeasurementError, match="nothing was committed within"):
        compared(server, delayed(server), blocks=2, duration=6 * SLICE_S)
    assert written(server) == before


def stopped_with(running: subprocess.Popen[str], server: Sandbox, settings: dict[str, Any]) -> bool:
    """Whether flushlab is stopped while the server has these settings; else it goes on."""
    if server.read_back(settings) != settings:
        assert running.poll() is None, running.communicate()[1]
        return False
    stop(running.pid)
    if server.read_back(settings) == settings:
        return True
    running.send_signal(signal.SIGCONT)
    return False


def journals() -> list[Path]:
    return list((state_path() / put_back.FOLDER).glob("*"))


@pytest.mark.parametrize("build", SERVERS)
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_values_are_put_back_however_it_ends(server: Sandbox, by: signal.Signals) -> None:
    words = ["compare", "base", f"{FLUSH}=2", "--own-load", "--allow-set-global", "--dsn", dsn(server)]
    with load(server, connections=2, rate=0.0):
        running = subprocess.Popen(
            [sys.executable, "-m", "flushlab", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ},
        )  # fmt: skip
        wait_until(lambda: stopped_with(running, server, {FLUSH: 2}), "a slice of the arm")
        assert journals()
        running.send_signal(by)
        running.send_signal(signal.SIGCONT)
        _, told = wait_for_end(running, "the end of the comparison")
        if by == signal.SIGKILL:
            assert server.read_back([FLUSH]) == {FLUSH: 2}
            told = flushlab(
                "compare", "base", f"{FLUSH}=2", "--own-load", "--dsn", dsn(server), code=None
            ).stderr
    assert f"put back: SET GLOBAL {FLUSH} = 0" in told
    assert server.read_back([FLUSH]) == {FLUSH: 0}
    assert journals() == []


@contextlib.contextmanager
def comparing(server: Sandbox, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """A comparison in a slice of the arm, under a load, and what it has said so far."""
    words = ["compare", "base", f"{FLUSH}=2", "--own-load", "--allow-set-global", "--dsn", dsn(server)]
    told = tmp_path / "told"

    def is_set() -> bool:
        return server.read_back([FLUSH]) == {FLUSH: 2}

    def lasts() -> bool:
        time.sleep(0.5)
        return True

    with load(server, connections=2, rate=0.0), told.open("w") as stderr:
        running = subprocess.Popen(
            [sys.executable, "-m", "flushlab", *words], stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        try:
            # Each arm is tried first: what lasts is a slice.
            wait_until(lambda: running.poll() is not None or (is_set() and lasts() and is_set()), "the arm")
            yield running, told.read_text
        finally:
            running.kill()
            running.communicate()


UNDO = f"y hand: SET GLOBAL {FLUSH} = 0;"
TWO_FLAVORS = flavors("mariadb@10.11", "mysql@8.0")


@pytest.mark.parametrize("build", TWO_FLAVORS)
def test_ctrl_c_ends_a_comparison_whose_server_hangs_with_the_statements_to_undo(
    server: Sandbox, tmp_path: Path
) -> None:
    assert server.pid is not None
    with comparing(server, tmp_path) as (running, told):
        stop(server.pid)
        try:
            wait_until(lambda: UNDO in told(), "the silence is reported")
            running.send_signal(signal.SIGINT)
            wait_for_end(running, "the end after Ctrl-C")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert running.returncode in (3, 130), told()  # 3: it had given up already
        assert "could not be put back" in told() and told().count(UNDO) > 1

        def is_put_back() -> bool:
            foreseen(server, f"{FLUSH}=2", code=None)
            return not journals()

        wait_until(is_put_back, "the next command puts back")
    assert server.read_back([FLUSH]) == {FLUSH: 0}


@pytest.mark.parametrize("build", TWO_FLAVORS)
def test_a_server_that_hangs_for_a_while_is_put_back_when_it_answers(server: Sandbox, tmp_path: Path) -> None:
    assert server.pid is not None
    with comparing(server, tmp_path) as (running, told):
        stop(server.pid)
        try:
            wait_until(lambda: "does not answer: waiting for" in told(), "it gives the server up")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        wait_for_end(running, "the end")
        assert running.returncode == 3, told()
        assert UNDO in told() and f"put back: SET GLOBAL {FLUSH} = 0;" in told()
    assert server.read_back([FLUSH]) == {FLUSH: 0}
    assert journals() == []


@pytest.mark.parametrize("build", TWO_FLAVORS)
def test_what_an_administrator_sets_in_mid_run_stays_and_nothing_is_published(
    server: Sandbox, tmp_path: Path
) -> None:
    with comparing(server, tmp_path) as (running, told):
        server.query(f"SET GLOBAL {FLUSH} = 1")
        try:
            published, _ = wait_for_end(running, "the end")
            assert running.returncode == 4, told()
            assert (
                f"somebody else has changed settings of 127.0.0.1:{server.endpoint.port}: {FLUSH} is 1"
                in told()
            )
            assert "put back" not in told().partition("campaign compare-")[2]
            assert published == ""
            assert server.read_back([FLUSH]) == {FLUSH: 1}
        finally:
            server.query(f"SET GLOBAL {FLUSH} = 0")
    assert journals() == []


@pytest.mark.parametrize("build", ["mariadb@10.11"])
def test_a_value_that_the_server_has_already_is_refused_at_once(server: Sandbox) -> None:
    before = server.read_back([FLUSH])[FLUSH]
    with pytest.raises(UsageError, match=f"{FLUSH}={before} changes nothing"):
        compared(server, f"{FLUSH}={before}")
    assert "changes nothing" in foreseen(server, f"{FLUSH}={before}", code=2).stderr


@pytest.mark.parametrize("build", ["mariadb@10.11"])
@pytest.mark.parametrize(
    ("configuration", "given", "message"),
    [
        (f"{FLUSH}=2", {"allow_set_global": False}, "settings of your own server are left alone"),
        (
            "innodb_doublewrite=OFF",
            {"floor": "throwaway"},
            "needs a restart, and your own server is never restarted",
        ),
        ("binlog_row_image=MINIMAL", {}, "open connections keep the value that they copied"),
    ],
)
def test_what_must_not_be_tried_is_refused_before_anything_is_set(
    server: Sandbox, configuration: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        compared(server, configuration, **given)
    assert journals() == []


def test_a_value_that_the_server_would_not_take_back_is_refused(
    shared_sandbox: StartSandbox, private_home: Path
) -> None:
    small = {"innodb_log_file_size": 8 << 20, "innodb_log_buffer_size": 16 << 20}
    server = shared_sandbox("mariadb@10.11", settings=small, kept=True)
    for statement in (
        *application.SETUP,
        "CREATE USER owner IDENTIFIED BY 'secret'",
        "GRANT ALL ON *.* TO owner",
    ):
        server.query(statement)
    with pytest.raises(UsageError, match="innodb_log_file_size could not be put back: the server refuses"):
        compared(server, "innodb_log_file_size=64M")
    assert server.read_back(small) == small
    assert journals() == []


def foreseen(server: Sandbox, configuration: str, code: int | None) -> subprocess.CompletedProcess[str]:
    words = ("base", configuration, "--own-load", "--dsn", dsn(server), "--floor", "throwaway", "--dry-run")
    return flushlab("compare", *words, code=code)


@pytest.mark.parametrize("build", ["mariadb@10.11"])
def test_a_dry_run_tells_how_to_undo_and_refuses_what_the_comparison_would(server: Sandbox) -> None:
    before = server.read_back([FLUSH])
    told = foreseen(server, f"{FLUSH}=2", code=0)
    assert f"SET GLOBAL {FLUSH} = {before[FLUSH]};" in " ".join((told.stdout + told.stderr).split())
    refused = foreseen(server, "binlog_row_image=MINIMAL", code=2)
    assert "open connections keep the value" in refused.stderr
    restart = foreseen(server, "innodb_doublewrite=OFF", code=2)
    assert "needs a restart" in restart.stderr
    assert server.read_back([FLUSH]) == before
    assert journals() == []


@pytest.mark.parametrize("build", ["mariadb@10.11"])
def test_an_arm_below_the_servers_floor_runs_only_if_it_was_asked_for(server: Sandbox) -> None:
    safe = {FLUSH: 1, "sync_binlog": 1}
    before = server.read_back(safe)
    for name, value in safe.items():
        server.query(f"SET GLOBAL {name} = {value}")
    try:
        with pytest.raises(BelowFloor, match="=2 is below the floor strict") as refused:
            compared(server, f"{FLUSH}=2")
        assert refused.value.hint == "--floor second allows it"
        with pytest.raises(MeasurementError, match="nothing was committed"):
            compared(server, f"{FLUSH}=2", floor="second", blocks=2, duration=6 * SLICE_S)
        assert server.read_back(safe) == safe
    finally:
        for name, old in before.items():
            server.query(f"SET GLOBAL {name} = {old}")


@pytest.mark.parametrize("build", ["mariadb@10.11"])
def test_a_replica_and_a_server_that_is_read_only_are_refused(server: Sandbox) -> None:
    server.query("SET GLOBAL read_only = ON")
    try:
        with pytest.raises(UsageError, match="takes no writes: read_only is ON"):
            compared(server, f"{FLUSH}=2")
        foreseen(server, f"{FLUSH}=2", code=2)
    finally:
        server.query("SET GLOBAL read_only = OFF")
    server.query("CHANGE MASTER TO MASTER_HOST = '127.0.0.1'")
    try:
        with pytest.raises(UsageError, match=r"is a replica of 127\.0\.0\.1"):
            compared(server, f"{FLUSH}=2")
    finally:
        server.query("RESET SLAVE ALL")


@pytest.mark.parametrize("build", SERVERS)
def test_a_recording_sends_the_statements_of_its_list_alone(server: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "shop.load"
    server.query("SET GLOBAL log_output = 'TABLE'")
    server.query("SET GLOBAL general_log = ON")
    try:
        with load(server, connections=2, rate=0.0):
            flushlab("watch", "--dsn", dsn(server), "--record", str(file), "--seconds", "2")
    finally:
        server.query("SET GLOBAL general_log = OFF")
    (stretch,) = recorded(file)
    assert stretch.load.commits > 0 and stretch.load.write_us
    assert stretch.changed == {}
    sent = {
        argument.decode() if isinstance(argument, bytes) else str(argument)
        for (argument,) in server.query(
            "SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND user_host LIKE '%owner%'"
        )
    }
    variables = {name: str(value) for name, value in server.query("SHOW GLOBAL VARIABLES")}
    listed = {form for one in load_questions(server.identity, variables) for form in one.forms}
    began = ("SET SESSION", "SET AUTOCOMMIT", "SET NAMES", "SELECT VERSION()")
    assert sent & listed
    assert {one for one in sent - listed if not one.startswith(began)} == set()


@pytest.mark.parametrize("build", SERVERS)
def test_ctrl_c_keeps_what_was_observed_since_the_last_stretch(
    server: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, began, sleep = tmp_path / "cut.load", time.monotonic(), time.sleep

    def pressed(seconds: float) -> None:
        sleep(seconds)
        if time.monotonic() - began > 3 * recording.LEAST_S and commits(server) > before:
            raise KeyboardInterrupt

    with load(server, connections=2, rate=0.0):
        before = commits(server)
        monkeypatch.setattr("flushlab.diagnosis.load.time.sleep", pressed)
        flushlab("watch", "--dsn", dsn(server), "--record", str(file), code=130)
    (stretch,) = recorded(file)
    assert stretch.load.commits > 0


@pytest.mark.parametrize("build", SERVERS)
def test_flush_status_is_told_from_a_restart(server: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = server.identity
    is_global = identity.flavor == "mariadb" and identity.version >= (11, 5)
    flush = "FLUSH GLOBAL STATUS" if is_global else "FLUSH STATUS"
    monkeypatch.setattr("flushlab.diagnosis.load.time.sleep", lambda _: server.query(flush))
    observer = LoadObserver([reach(dsn=dsn(server))])
    try:
        with load(server, connections=2, rate=0.0), pytest.raises(CountersReset, match="FLUSH STATUS"):
            observer.observe(1.0)
    finally:
        observer.close()


@pytest.mark.parametrize("build", ["mariadb@10.11"])
def test_without_a_binary_log_mariadb_counts_commits_without_reads(
    build: str, sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = sandbox(build, settings={"log_bin": "OFF"})
    server.query("CREATE DATABASE shop")
    server.query("CREATE TABLE shop.t (id INT PRIMARY KEY, v INT) STATS_AUTO_RECALC = 0")
    server.query("INSERT INTO shop.t VALUES (1, 0)")
    written = 0

    def work(_: float) -> None:
        nonlocal written
        written += 1
        server.query("UPDATE shop.t SET v = v + 1")
        for _ in range(3):
            server.query("SELECT * FROM shop.t")

    monkeypatch.setattr("flushlab.diagnosis.load.time.sleep", work)
    observer = LoadObserver([watched(server)])
    try:
        assert observer.observe(0.5).commits == written
    finally:
        observer.close()
