"""Databases that tests take from the pool of `flushlab test`, with real servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.conftest import flavors, require_build
from tests.integration.suite_project import Project, python, wait_until_memory_is_free
from tests.waiting import wait_for_end, wait_until

ALL = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=2)

TCP = Path("/proc/net/tcp")

TAKES = """
import json, urllib.error, urllib.request
from concurrent.futures import ThreadPoolExecutor
POOL = os.environ["FLUSHLAB_POOL_URL"]
def http(method, url):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"status": error.code, **json.load(error)}
def take(more=""):
    return http("POST", POOL + "/databases" + more)
def on(own):
    return pymysql.connect(host=own["host"], port=int(own["port"]), user=own["user"], autocommit=True,
                           password=own["password"], database=own["database"], ssl_disabled=True).cursor()
"""


def takes(code: str) -> list[str]:
    """A command that can take databases, and runs `code`."""
    return python(textwrap.indent(TAKES, "        ") + code)


@pytest.mark.parametrize("server", ALL)
def test_tests_side_by_side_each_have_a_pristine_server(project: Project, server: str) -> None:
    require_build(server)
    code = """
        def test(number):
            own = take()
            k = on(own)
            assert ask(k, "SELECT v FROM t1") == ((7,), (7,)), "somebody's rows are there"
            assert ask(k, "SELECT @@GLOBAL.auto_increment_increment, @@GLOBAL.max_connections") == normal
            k.execute("INSERT INTO t1 (v) VALUES (%s), (8)", [number])
            if number % 3 == 0:
                k.execute("SET GLOBAL max_connections = 77")
            if number % 7 == 0:
                k.execute("CREATE TABLE own (id INT)")
                k.execute("CREATE USER x@localhost")
            assert ask(k, "SELECT MAX(id), COUNT(*) FROM t1") == ((4, 4),)
            k.connection.close()
            assert http("DELETE", own["lease_url"]) == {}
            return own["port"]
        normal = ask(c, "SELECT @@GLOBAL.auto_increment_increment, @@GLOBAL.max_connections")
        with ThreadPoolExecutor(3) as tests:
            ports = list(tests.map(test, range(24)))
        own = take()
        assert ask(on(own), "SHOW TABLES") == ask(c, "SHOW TABLES")
        assert own["url"].startswith("mysql://") and own["jdbc_url"].startswith("jdbc:")
        assert os.environ["FLUSHLAB_PORT"] not in ports, "a worker's server is its own"
        print(len(set(ports)))
    """
    result, out, err = project.test("--server", server, "--pool", "3", *takes(code))
    servers, pool = int(out), result["pool"]
    assert servers <= 3 == pool["most"] <= pool["started"]
    assert (pool["taken"], pool["left"], pool["ended"]) == (25, 1, 0)
    assert "a pool of 3 servers takes up to " in err
    assert "flushlab: tests took 25 databases from 3 servers" in err
    assert "1 was not given back" in err
    assert {one["how"] for one in result["resets_by"]} == {"undone", "restarted"}
    wait_until_memory_is_free()


def test_a_database_keeps_its_connections_and_a_late_test_does_not_keep_its_database(
    project: Project,
) -> None:
    code = """
        import time
        own = take()
        k = on(own)
        k.execute("INSERT INTO t1 (v) VALUES (1)")
        assert http("POST", own["reset_url"])["how"] == "undone"
        assert ask(k, "SELECT COUNT(*) FROM t1") == ((2,),), "the same connection"
        http("DELETE", own["lease_url"] + "?connections=keep")
        again = take()
        assert again["port"] == own["port"]
        assert ask(k, "SELECT COUNT(*) FROM t1") == ((2,),), "a pool of connections can go on with it"
        http("DELETE", again["lease_url"])
        late = take("?lease=0.5")
        k = on(late)
        try:
            while True:
                ask(k, "SELECT 1")
                time.sleep(0.02)
        except pymysql.err.OperationalError:
            print(http("DELETE", late["lease_url"])["error"])
        print(take()["port"] != late["port"])
    """
    result, out, err = project.test("--server", "mariadb@10.11", "--pool", "1", *takes(code))
    assert out.splitlines() == ["the lease has ended: the time of the lease was over", "True"]
    assert (result["pool"]["ended"], result["pool"]["most"]) == (1, 1)
    assert "1 lease ended before the test gave its database back" in err


def test_a_test_that_stops_waiting_leaves_the_database_to_the_next_one(project: Project) -> None:
    code = """
        import socket
        from urllib.parse import urlparse
        own, at = take(), urlparse(POOL)
        for _ in range(3):
            gone = socket.create_connection((at.hostname, at.port))
            gone.sendall(f"POST {at.path}/databases HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
            gone.close()
        http("DELETE", own["lease_url"])
        for _ in range(3):
            http("DELETE", take()["lease_url"])
    """
    result, _, err = project.test("--server", "mariadb@10.11", "--pool", "1", *takes(code))
    assert (result["pool"]["taken"], result["pool"]["left"]) == (4, 0)
    assert "Exception" not in err


def test_a_server_that_a_test_killed_is_not_given_to_the_next_one(project: Project) -> None:
    code = """
        own = take()
        k = on(own)
        k.execute("INSERT INTO t1 (v) VALUES (1)")
        k.execute("SHUTDOWN")
        http("DELETE", own["lease_url"])
        print(ask(on(take()), "SELECT COUNT(*) FROM t1"))
    """
    _, out, _ = project.test("--server", "mariadb@10.11", "--pool", "1", *takes(code))
    assert out == "((2,),)\n"


def test_what_is_no_request_is_refused_with_its_reason(project: Project) -> None:
    code = """
        for method, path in (
            ("GET", "/databases"), ("POST", "/databases?lease=soon"), ("POST", "/databases?lease=0"),
            ("POST", "/databases?wait=1"), ("DELETE", "/databases/x"), ("POST", "/databases/x/reset"),
            ("POST", "/nothing"), ("POST", "x/databases"), ("DELETE", "/databases/x?connections=cut"),
            ("POST", ""), ("PUT", "/databases/"),
        ):
            answer = http(method, POOL + path)
            print(answer["status"], answer["error"])
    """
    result, out, _ = project.test("--server", "mariadb@10.11", *takes(code))
    assert out.splitlines() == [
        "405 GET does nothing here: use POST",
        "400 lease=soon is not a number of seconds up to a day",
        "400 lease=0 is not a number of seconds up to a day",
        "400 wait is not known here, only lease",
        "410 there is no such lease",
        "410 there is no such lease",
        "404 there is nothing at this address",
        "404 there is nothing at this address",
        "400 connections=cut is not known: use kill or keep",
        "404 POST to /databases behind this address takes a database",
        "405 PUT does nothing here: use POST",
    ]
    assert result["pool"] is None, "nobody took one, so none was started"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_servers_that_tests_have_go_with_flushlab(project: Project, number: signal.Signals) -> None:
    code = """
        import time
        print(json.dumps([take()["port"] for _ in range(2)]), flush=True)
        time.sleep(600)
    """
    running = subprocess.Popen(
        project.words("--server", "mariadb@10.11", *takes(code), prepare=False),
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    ports = json.loads(running.stdout.readline())
    os.killpg(running.pid, number)
    wait_for_end(running, "flushlab and its suite")
    listening = [f":{int(port):04X} 00000000:0000 0A" for port in ports]
    wait_until(lambda: not any(one in TCP.read_text() for one in listening), "they are gone")
    wait_until_memory_is_free()


def test_a_comparison_has_no_pool(project: Project) -> None:
    _, _, err = project.test("--pool", "2", "--compare", "--", "true", prepare=False, code=2)
    assert "error: --compare cannot be combined with --pool" in err
