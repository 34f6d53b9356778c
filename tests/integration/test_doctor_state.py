"""The state of real servers: sources of values, and what a restart changes."""

from __future__ import annotations

import pytest

from flushlab.diagnosis import sampling
from flushlab.diagnosis.diagnose import diagnose
from flushlab.diagnosis.state import SettingState, State
from flushlab.record.running import WatchedServer
from flushlab.server import Sandbox
from tests.conftest import StartSandbox, flavors

SERVERS = flavors(
    "mariadb@10.11", "mysql@5.7", "mysql@8.0", "mysql@9.7", "mariadb@11.8", "mariadb@11.4", first=3
)


pytestmark = pytest.mark.usefixtures("patient")


def state(server: Sandbox, seconds: float = 1.5) -> State:
    reach = WatchedServer(key=server.name, endpoint=server.endpoint)
    return diagnose(sampling.watch(reach, seconds, lambda _: None)).state


def one(found: State, name: str) -> SettingState:
    return next(each for each in found.settings if each.name == name)


@pytest.mark.parametrize("build", SERVERS)
def test_a_value_has_its_source_and_a_restart_brings_it_back(build: str, sandbox: StartSandbox) -> None:
    server = sandbox(build, settings={"innodb_flush_log_at_trx_commit": 2})
    server.query("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
    server.query("SET GLOBAL sync_binlog = 77")
    found = state(server)
    before = {name: one(found, name) for name in ("innodb_flush_log_at_trx_commit", "sync_binlog")}
    flush, sync = before.values()
    tells_who = server.identity.flavor == "mysql" and server.identity.version >= (8, 0)
    assert (flush.value, sync.value) == (0, 77)
    assert sync.origin == "SET"
    assert bool(sync.account) == bool(sync.at) == tells_who
    if server.identity.version >= (8, 0):  # 5.7 tells no sources, and 0 is in no file
        assert flush.origin == "SET"
    server.restart()
    after = state(server)
    assert one(after, "innodb_flush_log_at_trx_commit").value == flush.at_restart == 2
    assert one(after, "sync_binlog").value == sync.at_restart
    given = one(after, "innodb_flush_log_at_trx_commit")
    assert given.origin == "option file" and given.at_restart is None
    path, _, line = given.place.rpartition(":")
    with open(path) as file:  # noqa: PTH123
        text = file.read().splitlines()[int(line) - 1]
    assert text.replace("-", "_").startswith("innodb_flush_log_at_trx_commit")
    assert not after.problems
