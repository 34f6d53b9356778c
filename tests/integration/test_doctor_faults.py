"""The doctor at servers that are none, that stop, go, or are not what they seem: a clear word each."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flushlab.diagnosis import sampling
from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.errors import ServerError
from flushlab.progress import silent
from flushlab.record import Endpoint
from flushlab.record.running import WatchedServer
from flushlab.server import Sandbox
from flushlab.telemetry.live import session
from tests.command import flushlab
from tests.conftest import StartSandbox
from tests.integration.impostor import impostor, relay

LONG_S = 600.0
"""Of a window that something else ends."""


pytestmark = pytest.mark.usefixtures("patient")


def looked_at(
    server: Sandbox,
    seconds: float = 1.5,
    *,
    port: int | None = None,
    meanwhile: Callable[[str], None] = silent,
) -> Diagnosis:
    own = server.endpoint
    account: dict[str, Any] = {"user": own.user, "password": own.password}
    where: dict[str, Any] = {"host": "127.0.0.1", "port": port} if port else {"socket": own.socket}
    reach = WatchedServer(
        key=server.name, endpoint=Endpoint(**account, **where), transport="tcp" if port else "socket"
    )
    return diagnose(sampling.watch(reach, seconds, meanwhile))


@pytest.mark.parametrize(
    ("greeting", "answers", "says"),
    [
        (
            "8.0.11",
            {"SELECT VERSION()": "8.0.11", "SELECT @@version_comment LIMIT 1": "(ProxySQL)"},
            "is ProxySQL, a proxy and no server",
        ),
        ("5.5.5-10.2.12 2.2.3-maxscale", {"SELECT VERSION()": "10.2.12-MariaDB"}, "is MaxScale, a proxy"),
        ("8.0.11-TiDB-v7.5.0", {"SELECT VERSION()": "8.0.11-TiDB-v7.5.0"}, "is TiDB (8.0.11-TiDB-v7.5.0)"),
        ("8", {"SELECT VERSION()": "what"}, "gives its version as 'what'"),
        ("8", {}, "gives its version as ''"),
        ("what", {}, "it does not speak the protocol of MySQL and MariaDB"),
        ("what", {}, "is it the address and port of a MySQL or MariaDB server?"),
    ],
)
def test_what_is_no_server_is_named(greeting: str, answers: dict[str, str], says: str) -> None:
    with impostor(greeting, answers) as port:
        done = flushlab("doctor", "-h", "127.0.0.1", "-P", str(port), "-u", "me", "--seconds", "2", code=3)
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_proxy_before_a_server_is_a_doubt_and_no_host(shared_sandbox: Any) -> None:
    server: Sandbox = shared_sandbox("mariadb@10.11")
    own = server.endpoint.port
    assert own is not None
    with relay(own) as port:
        found = looked_at(server, port=port)
    assert any("a proxy seems to be between" in text for text in found.doubts)
    assert found.evidence.host is None
    assert not looked_at(server, port=own).evidence.between


@contextmanager
def soon(act: Callable[[], object]) -> Iterator[Callable[[str], None]]:
    """Acts a while after the doctor said that it begins."""
    timers: list[threading.Timer] = []

    def begin(_: str) -> None:
        timers.append(threading.Timer(1.5, act))
        timers[0].start()

    yield begin
    for one in timers:
        one.join()


def test_a_server_that_stalls_leaves_what_was_seen(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "DEADLINE_S", 3.0)
    monkeypatch.setattr(sampling, "LEAST_S", 0.0)
    server = sandbox("mariadb@10.11")
    pid = server.pid
    assert pid is not None
    try:
        with soon(lambda: os.kill(pid, signal.SIGSTOP)) as begin:
            found = looked_at(server, LONG_S, meanwhile=begin)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "the server stopped answering" in found.evidence.interrupted
    assert found.doubts[0].startswith("the window ended after") and found.evidence.host is not None


@pytest.mark.parametrize("build", ["mariadb@10.11", "mysql@8.0"])
def test_a_server_that_stalls_at_the_first_question_is_waited_for(
    build: str, sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "DEADLINE_S", 5.0)
    server = sandbox(build)
    pid = server.pid
    assert pid is not None
    told: list[str] = []

    def goes_on(line: str) -> None:
        told.append(line)
        os.kill(pid, signal.SIGCONT)

    os.kill(pid, signal.SIGSTOP)
    try:
        found = looked_at(server, 2.0, meanwhile=goes_on)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "has not answered for 5 s: waiting for 30 s at most" in told[0]
    assert told[1].startswith("watching")
    assert found.answer.startswith("The doctor saw no writer at work, but the server took ")


def test_a_server_that_does_not_go_on_is_given_up(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "FIRST_S", 0.0)
    monkeypatch.setattr(session, "DEADLINE_S", 1.0)
    server = sandbox("mariadb@10.11")
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ServerError, match="cannot be watched") as caught:
            looked_at(server, 2.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert caught.value.hint is not None and "does it answer other clients" in caught.value.hint


def test_a_server_that_is_killed_leaves_what_was_seen(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "LEAST_S", 0.0)
    server = sandbox("mysql@8.0")
    pid = server.pid
    assert pid is not None
    with soon(lambda: os.kill(pid, signal.SIGKILL)) as begin:
        found = looked_at(server, LONG_S, meanwhile=begin)
    assert "the server stopped answering" in found.evidence.interrupted
    assert found.evidence.host is not None and found.floor


@pytest.mark.parametrize("build", ["mariadb@10.11", "mysql@8.0"])
def test_a_reset_of_counters_is_a_doubt(build: str, shared_sandbox: Any) -> None:
    server: Sandbox = shared_sandbox(build)
    server.query("DO SLEEP(3)")  # older than the clocks' difference
    with soon(lambda: server.query("FLUSH STATUS")) as begin:
        found = looked_at(server, 4.0, meanwhile=begin)
    assert any("FLUSH STATUS has set counters back" in text for text in found.doubts)


def test_a_server_without_performance_schema_is_judged(sandbox: StartSandbox) -> None:
    server = sandbox("mysql@8.0", settings={"performance_schema": "OFF"})
    found = looked_at(server)
    assert found.answer == "Nothing bounds writes: no connection wrote."
    assert any("performance_schema is off" in text for text in found.not_judged)
    assert found.evidence.after.origins


def test_a_read_only_server_says_so_and_is_left_so(shared_sandbox: Any) -> None:
    server: Sandbox = shared_sandbox("mysql@8.0")
    server.query("SET GLOBAL super_read_only = ON")
    try:
        found = looked_at(server)
        assert server.query("SELECT @@GLOBAL.super_read_only") == [(1,)]
    finally:
        server.query("SET GLOBAL super_read_only = OFF")
        server.query("SET GLOBAL read_only = OFF")
    assert any("the server is read-only" in text for text in found.doubts)


def test_a_server_without_tls_is_not_reached_if_tls_is_required(sandbox: StartSandbox) -> None:
    server = sandbox("mariadb@10.11")
    own = server.endpoint
    dsn = f"mysql://{own.user}:{own.password}@127.0.0.1:{own.port}?ssl-mode=required"
    done = flushlab("doctor", "--dsn", dsn, "--seconds", "2", code=3)
    told = " ".join(done.stderr.split())
    assert f"127.0.0.1:{own.port}" in told and "set ssl-mode" in told
    assert own.password not in done.stderr and "Traceback" not in done.stderr


def test_an_account_with_performance_schema_alone_sees_connections(shared_sandbox: Any) -> None:
    """The other half of the two privileges, without PROCESS."""
    server: Sandbox = shared_sandbox("mysql@8.0")
    server.query("CREATE USER half@localhost IDENTIFIED BY 'aZ9-half'")
    server.query("GRANT SELECT ON performance_schema.* TO half@localhost")
    endpoint = Endpoint(socket=server.endpoint.socket, user="half", password="aZ9-half")
    try:
        found = diagnose(sampling.watch(WatchedServer(key="half", endpoint=endpoint), 2.0, lambda _: None))
    finally:
        server.query("DROP USER half@localhost")
    assert found.evidence.write_time is not None
    assert any("lacks PROCESS" in text for text in found.not_judged)
    assert found.evidence.after.files
