"""What was changed of somebody's own server is put back, whatever the server made of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flushlab.errors import ServerError, UsageError
from flushlab.machine import state_path
from flushlab.record import Value
from flushlab.server import Sandbox
from flushlab.server.remote import journal, put_back
from flushlab.server.remote.journal import ANSWER_S
from flushlab.server.remote.login import Address, from_dsn
from flushlab.server.remote.put_back import FOLDER, Changes, put_back_left
from flushlab.server.remote.server import RemoteServer
from tests.conftest import StartSandbox
from tests.waiting import stop, wait_until

NAMES = (
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_max_dirty_pages_pct",
    "innodb_max_dirty_pages_pct_lwm",
)
LOWERED = {"innodb_io_capacity_max": 150, "innodb_max_dirty_pages_pct": 5}
RAISED = {"innodb_io_capacity": 50_000}
KILLED = """
import os, sys
from flushlab.server.remote.login import from_dsn
from flushlab.server.remote.server import RemoteServer
from flushlab.server.remote.put_back import Changes
changes = Changes(RemoteServer(from_dsn(sys.argv[1])), {WANTED})
changes.{HOW}()
os._exit(9)
"""


@pytest.fixture(params=["mariadb", "mysql@8.0"], scope="module")
def sandbox(request: pytest.FixtureRequest, shared_sandbox: StartSandbox) -> Sandbox:
    server = shared_sandbox(
        request.param, settings={"innodb_max_dirty_pages_pct_lwm": 20, "innodb_max_dirty_pages_pct": 80}
    )
    server.query("CREATE USER tuner@'%' IDENTIFIED BY 'secret'")
    server.query("GRANT ALL ON *.* TO tuner@'%'")
    return server


@pytest.fixture
def owned(sandbox: Sandbox, private_home: Path) -> Iterator[RemoteServer]:
    before = sandbox.read_back(NAMES)
    with RemoteServer(Address(endpoint=sandbox.endpoint)) as server:
        yield server
    assert sandbox.read_back(NAMES) == before
    assert not list((state_path() / FOLDER).glob("*"))


@pytest.mark.parametrize("wanted", [LOWERED, RAISED], ids=["lowered", "raised"])
def test_what_the_server_cut_or_changed_along_is_put_back(
    owned: RemoteServer, wanted: dict[str, Value]
) -> None:
    before, said = owned.read_back(NAMES), list[str]()
    changes = Changes(owned, wanted)
    changes.make()
    changed = {name for name, value in owned.read_back(NAMES).items() if value != before[name]}
    changes.put_back(said.append)
    assert owned.read_back(NAMES) == before
    assert len([line for line in said if line.startswith("put back: ")]) == len(changed) == len(said)


@pytest.mark.parametrize("how", ["make", "announce"])
def test_what_a_killed_flushlab_left_is_put_back_whatever_it_is(
    owned: RemoteServer, sandbox: Sandbox, how: str
) -> None:
    dsn = f"mysql://tuner:secret@127.0.0.1:{sandbox.endpoint.port}/"
    code = KILLED.replace("{WANTED}", repr(RAISED)).replace("{HOW}", how)
    assert subprocess.run([sys.executable, "-c", code, dsn], check=False).returncode == 9
    if how == "announce":
        owned.query("SET GLOBAL innodb_io_capacity_max = 123456")
    said = list[str]()
    put_back_left(said.append)
    assert any(line.startswith("put back: SET GLOBAL innodb_io_capacity") for line in said)


def test_what_its_owner_set_after_a_kill_stays_though_settings_changed_in_slices(
    owned: RemoteServer, sandbox: Sandbox
) -> None:
    dsn = f"mysql://tuner:secret@127.0.0.1:{sandbox.endpoint.port}/"
    code = KILLED.replace("{WANTED}", "{'innodb_flush_log_at_trx_commit': 2}").replace("{HOW}", "announce")
    assert subprocess.run([sys.executable, "-c", code, dsn], check=False).returncode == 9
    owned.query("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
    said = list[str]()
    put_back_left(said.append)
    assert said[1:] == ["innodb_flush_log_at_trx_commit is 0 now: somebody else has set it, and it stays so"]
    assert owned.read_back(["innodb_flush_log_at_trx_commit"]) == {"innodb_flush_log_at_trx_commit": 0}


@pytest.fixture
def quick_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((journal, "CONNECT_S"), (journal, "_SILENCE_S"), (put_back, "CONNECT_S")):
        monkeypatch.setattr(module, name, 0.5)


def test_a_server_that_hangs_is_given_up_and_put_back_by_the_next_command(
    owned: RemoteServer, sandbox: Sandbox, quick_to_give_up: None
) -> None:
    """Each command that comes meanwhile goes on, too."""
    address = msgspec.structs.replace(
        from_dsn(f"mysql://tuner:secret@127.0.0.1:{sandbox.endpoint.port}/"), ssl_mode="disabled"
    )
    said, server = list[str](), RemoteServer(address)
    changes = Changes(server, {"innodb_io_capacity": 170})
    changes.make()
    assert sandbox.pid is not None
    stop(sandbox.pid)
    try:
        began = time.monotonic()
        changes.put_back(said.append)
        (path,) = (state_path() / FOLDER).glob("*")
        write_as_of_a_dead_process(path)
        put_back_left(said.append)
        took_s = time.monotonic() - began
    finally:
        os.kill(sandbox.pid, signal.SIGCONT)
    assert took_s < ANSWER_S
    assert "does not answer: waiting" in said[0]
    assert all("settings could not be put back" in line for line in (said[1], said[3])), said
    server.stop()

    def is_put_back() -> bool:
        put_back_left(said.append)
        return "put back: SET GLOBAL innodb_io_capacity = " in said[-1]

    # A server that has just gone on may not know yet that the client with the lock is gone.
    wait_until(is_put_back, "the next command puts back")


def write_as_of_a_dead_process(path: Path) -> None:
    """As if whoever wrote it were gone."""
    entry = json.loads(path.read_bytes())
    entry["owner"]["start_ticks"] += 1
    path.write_text(json.dumps(entry))


def test_a_login_that_is_refused_is_no_refused_statement(sandbox: Sandbox) -> None:
    with pytest.raises(ServerError, match=r"refused the connection: Access denied .*1045") as refused:
        RemoteServer(from_dsn(f"mysql://tuner:wrong@127.0.0.1:{sandbox.endpoint.port}/"))
    assert refused.value.hint


def test_a_password_may_have_any_characters(sandbox: Sandbox) -> None:
    sandbox.query("CREATE USER keyed@'%' IDENTIFIED BY 'schlüssel€'")
    with RemoteServer(
        from_dsn(f"mysql://keyed:schl%C3%BCssel%E2%82%AC@127.0.0.1:{sandbox.endpoint.port}/")
    ) as owned:
        assert str(owned.query("SELECT CURRENT_USER()")[0][0]).startswith("keyed@")


def test_what_somebody_else_sets_meanwhile_stays(owned: RemoteServer) -> None:
    before, said = owned.read_back(NAMES), list[str]()
    changes = Changes(owned, {"innodb_io_capacity": 170})
    changes.make()
    owned.query("SET GLOBAL innodb_io_capacity = 190")
    changes.put_back(said.append)
    assert said == ["innodb_io_capacity is 190 now: somebody else has set it, and it stays so"]
    owned.query(f"SET GLOBAL innodb_io_capacity = {before['innodb_io_capacity']}")


def test_what_was_read_while_another_flushlab_changed_it_is_not_taken_for_the_owners(
    owned: RemoteServer, sandbox: Sandbox
) -> None:
    first = Changes(owned, {"innodb_io_capacity": 170})
    first.make()
    with RemoteServer(Address(endpoint=sandbox.endpoint)) as another:
        second = Changes(another, {"innodb_io_capacity": 160})
        with pytest.raises(UsageError, match="another flushlab has changed settings"):
            second.make()
        first.put_back(list[str]().append)
        owned.stop()  # its lock goes with its connection
        with pytest.raises(UsageError, match=r"innodb_io_capacity of .* changed while this started"):
            second.make()
