"""`flushlab fill` where something comes in between: locks of others, settings that change, a server of one's
own that is tuned for a while and put back whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from flushlab.bulk.fill import fill
from flushlab.bulk.filled import Filled
from flushlab.errors import ServerError, UsageError
from flushlab.machine import state_path
from flushlab.record import Value
from flushlab.record.running import FillProgress
from flushlab.server import Sandbox
from flushlab.server.control import connect
from flushlab.server.remote.login import from_dsn
from flushlab.server.remote.put_back import FOLDER, Changes, put_back_left
from flushlab.server.remote.server import RemoteServer
from tests.command import flushlab
from tests.conftest import StartSandbox
from tests.integration.fill.target import Target
from tests.waiting import PATIENCE_S, wait_until

ROWS = 2_000
STRICT = {"innodb_flush_log_at_trx_commit": 1}


@pytest.fixture(scope="module")
def mariadb(shared_sandbox: StartSandbox) -> Sandbox:
    return shared_sandbox(settings=STRICT, kept=True)


# -- locks of others -----------------------------------------------------------------------------------------


@pytest.fixture
def other(target: Target) -> Iterator[pymysql.connections.Connection[Any]]:
    """Another session, whose transaction has more to lose than a load's: InnoDB gives up the smaller one."""
    target.fill(1)
    session = connect(target.server.endpoint, "socket")
    with session.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {target.database}.much (a INT PRIMARY KEY)")
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {target.database}.much SELECT seq FROM {target.database}.seq_1_to_20000")
        cursor.execute(
            f"INSERT INTO {target.database}.users VALUES (700, 'x', 'x', 'x', 'BUYER', '2026-01-01')"
        )
    yield session
    session.close()


def waits(target: Target, name: str) -> int:
    return int(target.server.query(f"SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_{name}'")[0][1])


def told(warnings: Any) -> dict[str, str]:
    return {warning.slug: warning.text for warning in warnings}


def test_a_load_that_is_given_up_in_a_deadlock_goes_again(
    target: Target, other: pymysql.connections.Connection[Any], small_chunks: None
) -> None:
    def cross(_far: FillProgress) -> None:
        if waits(target, "current_waits"):
            with other.cursor() as cursor:
                cursor.execute(f"SELECT id FROM {target.database}.users WHERE id = 690 FOR UPDATE")
            other.rollback()

    done = target.fill(999, append=True, method="insert", threads=1, show=cross)
    assert told(done.warnings)["retried"] == ("users: 1 transaction sent again after a deadlock (error 1213)")
    assert (done.rows, target.is_whole(1000)) == (999, True)


def test_a_load_that_waited_too_long_for_a_lock_goes_again(
    target: Target, other: pymysql.connections.Connection[Any], small_chunks: None
) -> None:
    before = waits(target, "waits")
    target.server.query("SET GLOBAL innodb_lock_wait_timeout = 1")

    def let_go(_far: FillProgress) -> None:
        if waits(target, "waits") >= before + 2:
            other.rollback()

    done = target.fill(999, append=True, method="load-data", threads=1, show=let_go)
    target.server.query("SET GLOBAL innodb_lock_wait_timeout = 50")
    assert "(error 1205)" in told(done.warnings)["retried"]
    assert (done.rows, target.is_whole(1000)) == (999, True)


# -- LOAD DATA that is refused -------------------------------------------------------------------------------


@pytest.fixture
def forbidden(target: Target) -> Iterator[Callable[[str], None]]:
    """Forbids LOAD DATA LOCAL once a load has decided for it, before its first row."""

    def say(line: str) -> None:
        if line.startswith("loading by"):
            target.server.query("SET GLOBAL local_infile = 0")

    yield say
    target.server.query("SET GLOBAL local_infile = 1")


def test_a_load_goes_on_with_insert_where_load_data_is_forbidden_meanwhile(
    target: Target, forbidden: Callable[[str], None]
) -> None:
    done = target.fill(ROWS, threads=2, progress=forbidden)
    assert done.method.kind == "insert"
    assert "so rows go as INSERT" in told(done.warnings)["load-data-refused"]
    assert (done.rows, target.is_whole(ROWS)) == (ROWS, True)


def test_load_data_that_was_asked_for_and_is_forbidden_is_an_error(
    target: Target, forbidden: Callable[[str], None]
) -> None:
    with pytest.raises(ServerError, match="the server refuses LOAD DATA LOCAL") as refused:
        target.fill(ROWS, threads=2, method="load-data", progress=forbidden)
    assert "--method insert" in (refused.value.hint or "") and "--continue" in (refused.value.hint or "")
    resumed = target.fill(ROWS, continue_=True, method="insert")
    assert (resumed.method.kind, target.is_whole(ROWS)) == ("insert", True)


# -- a server of one's own that is tuned ---------------------------------------------------------------------


@dataclass
class Tuned:
    """A server that is somebody's, as one of its accounts sees it, and a home without its sandbox."""

    target: Target
    dsn: str
    before: Mapping[str, Value]
    redo_before: Value

    def fill(self, rows: int = 10, **flags: Any) -> Filled:
        return self.target.fill(rows, dsn=self.dsn, database=None, allow_set_global=True, **flags)

    @property
    def state(self) -> Mapping[str, Value]:
        return self.target.server.read_back(STRICT)

    @property
    def redo(self) -> Value:
        return self.target.server.read_back(["innodb_log_file_size"])["innodb_log_file_size"]

    @property
    def left(self) -> list[Path]:
        return list((state_path() / FOLDER).glob("*"))

    @property
    def is_as_before(self) -> bool:
        return self.state == self.before and self.redo == self.redo_before and not self.left


@pytest.fixture
def tuned(target: Target, private_home: Path) -> Iterator[Tuned]:
    name = f"{target.database}_app"
    target.server.query(f"CREATE DATABASE {target.database}")
    target.server.query(f"CREATE USER {name}@'%' IDENTIFIED BY 'secret'")
    target.server.query(f"GRANT ALL ON *.* TO {name}@'%'")
    dsn = f"mysql://{name}:secret@127.0.0.1:{target.server.endpoint.port}/{target.database}"
    yield Tuned(
        target,
        dsn,
        target.server.read_back(STRICT),
        target.server.read_back(["innodb_log_file_size"])["innodb_log_file_size"],
    )
    for variable, value in STRICT.items():
        target.server.query(f"SET GLOBAL {variable} = {value}")


def test_a_tuned_server_is_as_it_was_after_the_load(tuned: Tuned) -> None:
    seen: list[tuple[str, Mapping[str, Value]]] = []
    tuned.fill(progress=lambda line: seen.append((line, tuned.state)))
    ((warning, unloaded),) = [(line, state) for line, state in seen if line.startswith("warning: ")]
    assert warning.startswith("warning: the load competes with production commits on ")
    assert (unloaded, seen[0][0]) == (tuned.before, warning), "before anything else happens"
    ((undo, untouched),) = [(line, state) for line, state in seen if "cannot put it back" in line]
    ((_, during),) = [(line, state) for line, state in seen if line.startswith("loading by")]
    assert untouched == tuned.before
    assert "SET GLOBAL innodb_flush_log_at_trx_commit = 1;" in undo
    assert "SET GLOBAL is lost at a restart" in undo
    assert during == {"innodb_flush_log_at_trx_commit": 2}
    assert tuned.is_as_before


def test_what_a_killed_load_changed_is_put_back_by_the_next_command(tuned: Tuned) -> None:
    program = f"""
import os
from flushlab.bulk.fill import fill
def say(line):
    if line.startswith("loading by"):
        os.kill(os.getpid(), {int(signal.SIGKILL)})
fill("users", rows=10, dsn="{tuned.dsn}", create=True, allow_set_global=True, progress=say)
"""
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (file,) = tuned.left
    assert file.stat().st_mode & 0o777 == 0o600
    assert tuned.state["innodb_flush_log_at_trx_commit"] == 2
    with RemoteServer(from_dsn(tuned.dsn)) as server, pytest.raises(UsageError, match="has changed settings"):
        Changes(server, {"innodb_flush_log_at_trx_commit": 0}).make()
    next_one = flushlab("server", "status")
    assert "put back: SET GLOBAL innodb_flush_log_at_trx_commit = 1;" in next_one.stderr
    assert tuned.is_as_before


def test_what_a_killed_flushlab_changed_in_slices_is_put_back_whichever_slice_it_was(tuned: Tuned) -> None:
    program = f"""
import os
from flushlab.server.remote.login import from_dsn
from flushlab.server.remote.server import RemoteServer
from flushlab.server.remote.put_back import Changes
from flushlab.server.sandbox.reconfigure import switch
server = RemoteServer(from_dsn("{tuned.dsn}"))
values = [{{"innodb_flush_log_at_trx_commit": value}} for value in (2, 0)]
Changes(server, {{}}, *values).announce()
assert server.query("SELECT @@global.innodb_flush_log_at_trx_commit") == [(1,)]
for settings in values:
    switch(server, settings)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert tuned.state["innodb_flush_log_at_trx_commit"] == 0
    put_back_left(print)
    assert tuned.is_as_before


def test_ctrl_c_puts_back_what_is_as_flushlab_set_it_and_nothing_else(tuned: Tuned) -> None:
    said: list[str] = []

    def interrupt(line: str) -> None:
        said.append(line)
        if line.startswith("loading by"):
            tuned.target.server.query("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned.fill(progress=interrupt)
    assert tuned.state == {**tuned.before, "innodb_flush_log_at_trx_commit": 0}
    assert tuned.left == []
    assert said[-1] == "innodb_flush_log_at_trx_commit is 0 now: somebody else has set it, and it stays so"


IN_A_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # should these tests run under nohup
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "flushlab", *sys.argv[1:]])
"""


@contextmanager
def changing(tuned: Tuned, words: list[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A flushlab that has changed the server for a load; it ends with the test, whatever becomes of that."""
    fill = ["fill", "users", "--rows", "50000000", "--create", "--dsn", tuned.dsn, "--allow-set-global"]
    with subprocess.Popen([sys.executable, *words, *fill], **how) as child:

        def is_changed() -> bool:
            assert child.poll() is None, child.stderr.read().decode() if child.stderr else "it has ended"
            return tuned.state["innodb_flush_log_at_trx_commit"] == 2

        try:
            wait_until(is_changed, "it is changed")
            yield child
        finally:
            child.kill()


def test_what_is_changed_is_put_back_when_the_terminal_is_closed(tuned: Tuned) -> None:
    primary, secondary = os.openpty()
    terminal = {"stdin": secondary, "stdout": secondary, "stderr": secondary}
    with changing(tuned, ["-c", IN_A_TERMINAL], **terminal) as child:
        os.close(secondary)
        os.close(primary)
        assert child.wait(PATIENCE_S) == 130
    assert tuned.is_as_before


def test_what_is_changed_is_put_back_though_nobody_reads_of_it_any_more(tuned: Tuned) -> None:
    with changing(tuned, ["-m", "flushlab"], stderr=subprocess.PIPE) as child:
        assert child.stderr is not None
        child.stderr.close()  # as `tee`, which Ctrl-C ends too
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE_S) == 130
    assert tuned.is_as_before


def test_an_account_that_may_not_tune_is_refused_and_nothing_is_changed(tuned: Tuned) -> None:
    account = f"{tuned.target.database}_app@'%'"
    tuned.target.server.query(f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {account}")
    tuned.target.server.query(f"GRANT ALL ON {tuned.target.database}.* TO {account}")
    with pytest.raises(UsageError, match=r"lacks SUPER$"):
        tuned.fill()
    assert tuned.is_as_before


def test_a_sandbox_needs_no_tuning() -> None:
    with pytest.raises(UsageError, match="--allow-set-global needs your own server"):
        fill("users", allow_set_global=True)
