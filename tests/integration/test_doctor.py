"""The doctor at real servers: what binds there is found, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql
import pytest

from flushlab.diagnosis import sampling
from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.record import Endpoint
from flushlab.record.running import WatchedServer
from flushlab.server import Sandbox
from tests.command import flushlab
from tests.conftest import flavors
from tests.waiting import wait_until

SECONDS = 2.0
SERVERS = flavors(
    "mariadb@10.11", "mysql@5.7", "mysql@8.0", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=3
)
"""The states of a commit, and where connections are listed, differ between the first three."""
PASSWORD = "aZ9-doctor"

pytestmark = pytest.mark.usefixtures("patient")


def looked_at(server: Sandbox, seconds: float = SECONDS, **who: str) -> Diagnosis:
    own = server.endpoint
    account: dict[str, Any] = {"user": own.user, "password": own.password, **who}
    endpoint = Endpoint(socket=own.socket, **account)
    return diagnose(
        sampling.watch(WatchedServer(key=server.name, endpoint=endpoint), seconds, lambda _: None)
    )


@contextlib.contextmanager
def connected(server: Sandbox) -> Iterator[Any]:
    own = server.endpoint
    connection = pymysql.connect(
        unix_socket=own.socket, user=own.user, password=own.password, database="test"
    )
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        with contextlib.suppress(pymysql.MySQLError):
            connection.close()


@contextlib.contextmanager
def meanwhile(
    server: Sandbox, each: Callable[[int, Any, threading.Event], None], count: int
) -> Iterator[None]:
    """Connections that work in threads of their own until the block ends."""
    over = threading.Event()

    def work(number: int) -> None:
        with connected(server) as cursor, contextlib.suppress(pymysql.MySQLError):
            each(number, cursor, over)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        over.set()
        for one in threads:
            one.join()


def waiting_in(server: Sandbox, state: str, count: int) -> None:
    sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'UPDATE%%' AND STATE LIKE %s"
    wait_until(lambda: server.query(sql, (state,))[0][0] >= count, f"{count} connections are in {state}")


UPDATES = ("UPDATE t SET", "UPDATE\n\tt\nSET", "/* app */ UPDATE t SET")
"""People write statements over several lines, and libraries put comments before them."""


def update_first(number: int, cursor: Any, _over: threading.Event) -> None:
    cursor.execute(f"{UPDATES[number]} n = n + 1 WHERE id = 1")


@pytest.mark.parametrize("build", SERVERS)
def test_an_idle_server_is_bound_by_nothing(build: str, servers: Callable[[str], Sandbox]) -> None:
    found = looked_at(servers(build))
    assert found.answer == "Nothing bounds writes: no connection wrote."
    assert not [one for one in found.findings if one.strength != "hint"]
    # 9.7 leaves pages without a whole copy in a disk's volatile cache, which the doctor sees here.
    assert "strict" in found.floor


@pytest.mark.parametrize("build", SERVERS)
def test_a_hot_row_binds_those_who_wait_for_it(build: str, servers: Callable[[str], Sandbox]) -> None:
    server = servers(build)
    with connected(server) as holder:
        holder.execute("BEGIN")
        holder.execute("UPDATE t SET n = n + 1 WHERE id = 1")
        with meanwhile(server, update_first, 3):
            sql = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
            # InnoDB makes the table anew only if nobody has read it for 0.1 s.
            wait_until(lambda: server.query(sql)[0][0] == 3, "three wait for the row", pause_s=0.2)
            found = looked_at(server)
            holder.execute("ROLLBACK")
    assert found.evidence.time.writers == 3
    locks = next(one for one in found.findings if one.name == "row_locks")
    assert locks.strength == "binds"
    assert locks.share is not None and locks.share.mid > 0.5
    assert locks.at_most is None or locks.at_most > 2  # if nothing but the lock was seen, there is no bound
    holder_says = [one.text for one in locks.seen if "oldest transaction with locks" in one.text]
    assert holder_says, locks.seen


@pytest.mark.parametrize("build", SERVERS)
def test_a_locked_table_binds(build: str, servers: Callable[[str], Sandbox]) -> None:
    server = servers(build)
    with connected(server) as holder:
        holder.execute("LOCK TABLES t WRITE")
        with meanwhile(server, update_first, 2):
            waiting_in(server, "Waiting for table metadata lock", 2)
            found = looked_at(server)
            holder.execute("UNLOCK TABLES")
        own = holder.connection.thread_id()
    assert [one.name for one in found.findings if one.strength == "binds"] == ["metadata_locks"]
    assert found.answer.startswith("Writes are bound: statements wait for a")
    said = [one.text for one in found.findings[0].seen]
    if build.startswith("mysql") and build != "mysql@5.7":  # the others do not tell the locks
        assert any(text.startswith(f"connection {own} holds SHARED_NO_READ_WRITE on table") for text in said)


@pytest.mark.parametrize("build", SERVERS)
def test_commits_and_the_turns_of_clients_are_told_apart(
    build: str, servers: Callable[[str], Sandbox]
) -> None:
    def commits(number: int, cursor: Any, over: threading.Event) -> None:
        while not over.is_set():
            cursor.execute(f"UPDATE t SET n = n + 1 WHERE id = {number}")
            cursor.execute("COMMIT")

    server = servers(build)
    with meanwhile(server, commits, 4):
        found = looked_at(server)
        for _ in range(100):  # a busy machine gives few samples
            seen = found.evidence.time
            if seen.writers == 4 and {"commit", "client"} <= seen.connections.keys():
                break
            found = looked_at(server)
    seen = found.evidence.time
    assert seen.writers == 4
    assert seen.connections["commit"] > 0
    assert seen.connections["client"] > 0
    assert 0 < seen.total <= 4.0
    assert {"commit_sync", "client"} <= {one.name for one in found.findings}


@pytest.mark.parametrize("build", SERVERS)
def test_an_account_without_privileges_is_told_what_it_lacks(
    build: str, servers: Callable[[str], Sandbox]
) -> None:
    server = servers(build)
    server.query("CREATE USER nobody@localhost IDENTIFIED BY %s", (PASSWORD,))
    found = looked_at(server, user="nobody", password=PASSWORD)
    assert found.answer.startswith("What bounds writes cannot be judged")
    assert any("lacks PROCESS" in one for one in found.not_judged)
    assert found.evidence.write_time is None
    dsn = f"mysql://nobody:{PASSWORD}@localhost?socket={server.endpoint.socket}"
    told = flushlab("doctor", "--dsn", dsn, "--check-account", code=1).stdout
    grants = [line.removeprefix("grant  ") for line in told.splitlines() if line.startswith("grant  ")]
    assert "lacks" in told and grants[0].startswith("GRANT PROCESS ON *.* TO 'nobody'@'localhost'")
    server.query(grants[0])
    # With PROCESS alone, the list of processes has all connections.
    some = looked_at(server, user="nobody", password=PASSWORD)
    assert some.evidence.write_time is not None and not any("PROCESS" in one for one in some.not_judged)
    assert bool(some.evidence.missing) == (server.identity.flavor == "mysql")
    for grant in grants[1:]:
        server.query(grant)
    granted = flushlab("doctor", "--dsn", dsn, "--check-account").stdout
    assert "lacks" not in granted and "connections at work, open transactions" in " ".join(granted.split())
    assert looked_at(server, user="nobody", password=PASSWORD).evidence.write_time is not None


def test_the_command_prints_one_screen_and_a_document(servers: Callable[[str], Sandbox]) -> None:
    own = servers("mariadb@10.11").endpoint
    dsn = f"mysql://{own.user}:{own.password}@localhost?socket={own.socket}"
    told = flushlab("doctor", "--dsn", dsn, "--seconds", "2")
    assert "mariadb@10.11" in told.stdout and "Nothing bounds writes" in told.stdout
    assert all(len(line) <= 80 for line in told.stdout.splitlines() if str(own.socket) not in line)
    assert own.password not in told.stdout + told.stderr
    document = json.loads(flushlab("doctor", "--dsn", dsn, "--seconds", "2", "--json", "-").stdout)
    assert document["schema"] == "flushlab.doctor/1"
    assert document["samples"] > 0


def test_the_page_and_the_ticket_have_the_answer(servers: Callable[[str], Sandbox], tmp_path: Path) -> None:
    own, page = servers("mariadb@10.11").endpoint, tmp_path / "doctor.html"
    dsn = f"mysql://{own.user}:{own.password}@localhost?socket={own.socket}"
    told = flushlab("doctor", "--dsn", dsn, "--seconds", "2", "--html", str(page), "--markdown", "-")
    assert told.stdout.startswith("## Nothing bounds writes: no connection wrote.")
    assert f"wrote {page}" in " ".join(told.stderr.split())
    assert "Nothing bounds writes: no connection wrote" in page.read_text()
    assert own.password not in told.stdout + told.stderr + page.read_text()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--server", "mariadb"], 2, "is a build, and no server that runs"),
        (["--server", "sandbox:absent"], 2, "absent"),
        (["--seconds", "1"], 2, "--seconds"),
        (["-h", "127.0.0.1", "-P", "1", "-u", "nobody"], 3, "127.0.0.1:1"),
        (["-h", "one,two", "-u", "nobody"], 2, "several servers"),
        (["--json", "/absent/file", "-S", "/absent"], 5, "/absent/file"),
        (["--plan", __file__, "-S", "/absent"], 5, "exists already"),
        (["--html", "-", "-S", "/absent"], 2, "--html writes a file"),
        (["--markdown", "-", "--json", "-", "-S", "/absent"], 2, "stdout takes one output only"),
        (["--check-account", "--json", "-", "-S", "/absent"], 2, "--json has no effect with --check-account"),
    ],
)
def test_bad_input_is_a_clear_error(words: Sequence[str], code: int, says: str) -> None:
    done = flushlab("doctor", *words, code=code)
    assert says in " ".join(done.stderr.split())


def test_a_server_without_a_change_to_try_gets_no_plan(
    servers: Callable[[str], Sandbox], tmp_path: Path
) -> None:
    own, plan = servers("mariadb@10.11").endpoint, tmp_path / "plan.toml"
    dsn = f"mysql://{own.user}:{own.password}@localhost?socket={own.socket}"
    told = flushlab("doctor", "--dsn", dsn, "--seconds", "2", "--plan", str(plan))
    assert "no plan: no finding has a setting to try" in " ".join(told.stderr.split())
    assert not plan.exists()


def test_garbage_on_the_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as one:
                one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        done = flushlab("doctor", "-h", "127.0.0.1", "-P", str(port), "-u", "nobody", code=3)
        thread.join()
    assert f"127.0.0.1:{port}" in done.stderr


def test_ctrl_c_keeps_what_was_seen(servers: Callable[[str], Sandbox]) -> None:
    own = servers("mariadb@10.11").endpoint
    dsn = f"mysql://{own.user}:{own.password}@localhost?socket={own.socket}"
    words = [sys.executable, "-m", "flushlab", "doctor", "--dsn", dsn, "--seconds", "600"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("watching mariadb" in line for line in process.stderr)
    time.sleep(2 * sampling.LEAST_S)  # the first status was asked for before the line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Ctrl-C" in out and "Traceback" not in err
