"""The doctor on the server's own machine: the process is found by its connection, its limit is seen."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import Any

import pymysql
import pytest

from flushlab.datadir import DataRoot
from flushlab.diagnosis import sampling
from flushlab.diagnosis.diagnose import diagnose
from flushlab.diagnosis.evidence import Evidence
from flushlab.machine import file_system_of
from flushlab.record import Endpoint
from flushlab.record.running import WatchedServer
from flushlab.server import Sandbox
from tests.control_groups import writes_limited

WRITES_PER_S = 30


pytestmark = pytest.mark.usefixtures("patient")


def watched(server: Sandbox, *, tcp: bool = False) -> Evidence:
    own = server.endpoint
    account: dict[str, Any] = {"user": own.user, "password": own.password}
    where: dict[str, Any] = {"host": "127.0.0.1", "port": own.port} if tcp else {"socket": own.socket}
    reach = WatchedServer(
        key=server.name, endpoint=Endpoint(**account, **where), transport="tcp" if tcp else "socket"
    )
    return sampling.watch(reach, 2.0, lambda _: None)


@pytest.mark.parametrize("tcp", [False, True])
def test_the_process_behind_the_connection_is_the_server(tcp: bool, shared_sandbox: Any) -> None:
    """Nothing but the connection tells which process it is."""
    server: Sandbox = shared_sandbox("mariadb@10.11")
    found = watched(server, tcp=tcp)
    assert found.host is not None
    assert found.host.pid == server.pid
    assert found.host.places[0].path == str(server.datadir)
    assert found.host.storage == server.storage
    assert found.host.bytes_per_s is not None
    assert diagnose(found).floor == "strict" or server.storage.volatile_cache is None


def test_a_limit_of_the_control_group_is_found(shared_sandbox: Any) -> None:
    root = DataRoot.open()
    device = file_system_of(root.path).device
    if os.geteuid() != 0 or device is None:
        pytest.skip("needs root and a disk")
    server: Sandbox = shared_sandbox("mysql@8.0")
    server.query("CREATE DATABASE IF NOT EXISTS test")
    server.query("CREATE TABLE test.slow (id INT PRIMARY KEY, n INT) ENGINE=InnoDB")
    server.query("INSERT INTO test.slow VALUES (0, 0), (1, 0), (2, 0), (3, 0)")
    over = threading.Event()

    def commits(number: int) -> None:
        own = server.endpoint
        connection = pymysql.connect(
            unix_socket=own.socket, user=own.user, password=own.password, autocommit=True
        )
        with connection.cursor() as cursor:
            while not over.is_set():
                cursor.execute(f"UPDATE test.slow SET n = n + 1 WHERE id = {number}")

    threads = [threading.Thread(target=commits, args=(number,)) for number in range(4)]
    assert server.pid is not None
    with ExitStack() as meanwhile:
        try:
            meanwhile.enter_context(writes_limited(server.pid, device.disk_number, WRITES_PER_S))
        except OSError as error:
            pytest.skip(str(error))
        try:
            for one in threads:
                one.start()
            found = watched(server)
        finally:
            over.set()
    for one in threads:
        one.join()
    assert found.host is not None
    (limit,) = found.host.io_limits
    assert (limit.unit, limit.limit) == ("writes/s", WRITES_PER_S)
    assert limit.used > 0
