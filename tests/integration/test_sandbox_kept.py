"""Kept sandboxes through the command line: start, use, restart, status, stop."""

from __future__ import annotations

import configparser
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from flushlab.errors import ServerDied, UsageError
from flushlab.process import all_records, reap, run_folder
from flushlab.server import Sandbox, SandboxSpec
from tests.command import flushlab
from tests.conftest import flavors, require_build
from tests.waiting import wait_until

NAME = "kept-test"


@pytest.fixture(params=flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7"), scope="module")
def kept(request: pytest.FixtureRequest, shared_furnished_home: Path) -> Iterator[dict[str, Any]]:
    """Each test leaves it running, but for the last one."""
    require_build(request.param)
    asked = ("--server", request.param, "--name", NAME, "--set", "sync_binlog=3")
    yield json.loads(flushlab("server", "start", *asked, "--json", "-").stdout)
    if any(record.name == NAME for record in all_records()):
        flushlab("server", "stop", NAME)


def test_json_has_exactly_what_it_takes_to_reach_it(kept: dict[str, Any]) -> None:
    assert set(kept) == {
        "schema",
        "name",
        "flavor",
        "version",
        "socket",
        "host",
        "port",
        "user",
        "option_file",
    }
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(kept["option_file"])
    client = parser["client"]
    assert (client["user"], client["socket"], client["port"]) == (
        kept["user"],
        kept["socket"],
        str(kept["port"]),
    )
    with (
        pymysql.connect(
            host=kept["host"],
            port=kept["port"],
            user=kept["user"],
            password=client["password"],
            ssl_disabled=True,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT @@sync_binlog")
        assert cursor.fetchone() == (3,)


def test_it_outlives_its_command_is_listed_and_used(kept: dict[str, Any]) -> None:
    (status,) = json.loads(flushlab("server", "status", "--json", "-").stdout)["sandboxes"]
    assert (status["name"], status["state"]) == (NAME, "running")
    with Sandbox.attach(NAME) as server:
        assert server.identity.flavor == kept["flavor"]
        assert server.read_back(["sync_binlog"]) == {"sync_binlog": 3}
    assert Path(f"/proc/{status['pid']}").exists(), "letting go of it does not end it"


def test_a_shell_takes_its_address_and_account_as_a_suite_does(kept: dict[str, Any]) -> None:
    ask = (
        "import os, pymysql; at = lambda name: os.environ['MYSQL_' + name]\n"
        "c = pymysql.connect(host=at('HOST'), port=int(at('PORT')), user=at('USER'), password=at('PASSWORD'),"
        " database=at('DATABASE')).cursor()\n"
        "c.execute('SELECT DATABASE(), CURRENT_USER()'); print(c.fetchone())"
    )
    program = f"{sys.executable} -m flushlab"
    script = f'eval "$({program} server env {NAME} --database it)"; {sys.executable} -c "$0"'
    done = subprocess.run(["/bin/sh", "-ec", script, ask], capture_output=True, text=True, check=True)
    assert done.stdout == "('it', 'flushlab@localhost')\n"


def test_status_shows_the_one_that_is_named(kept: dict[str, Any]) -> None:
    listed = json.loads(flushlab("server", "status", NAME, "--json", "-").stdout)
    assert [one["name"] for one in listed["sandboxes"]] == [NAME]
    assert f"there are: {NAME}" in flushlab("server", "status", "nope", code=2).stderr


def test_janitor_spares_it(kept: dict[str, Any]) -> None:
    assert reap() == []
    with Sandbox.attach(NAME) as server:
        assert server.query("SELECT 1") == [(1,)]


def test_it_has_no_guard_and_a_session_of_its_own(kept: dict[str, Any]) -> None:
    with Sandbox.attach(NAME) as server:
        assert server.pid is not None
        stat = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(stat[3]) == server.pid
    (record,) = all_records()
    assert (record.kind, record.guard) == ("kept", None)


def test_its_name_is_taken(kept: dict[str, Any]) -> None:
    done = flushlab("server", "start", "--name", NAME, code=2)
    assert f"a sandbox named '{NAME}' already exists and runs" in done.stderr
    assert f"or remove it and its data: flushlab server stop {NAME}" in done.stderr


def test_unknown_name_lists_those_that_there_are(kept: dict[str, Any]) -> None:
    done = flushlab("server", "stop", "other", code=2)
    assert "there is no kept sandbox named 'other'" in done.stderr
    assert f"hint: there are: {NAME}" in done.stderr


def test_setting_that_takes_a_restart_is_applied_and_it_is_still_kept(kept: dict[str, Any]) -> None:
    with Sandbox.attach(NAME) as server:
        before = server.read_back(["log_bin"])["log_bin"]
        after = "OFF" if before == "ON" else "ON"
        assert server.apply({"log_bin": after, "sync_binlog": 9}).restarted
        pid = server.pid
    assert reap() == []
    with Sandbox.attach(NAME) as server:
        assert server.pid == pid
        assert server.read_back(["log_bin", "sync_binlog"]) == {"log_bin": after, "sync_binlog": 9}
    assert [record.name for record in all_records()] == [NAME]


def test_reset_makes_it_pristine_on_the_same_port_and_it_is_still_kept(kept: dict[str, Any]) -> None:
    with Sandbox.attach(NAME) as server:
        server.query("CREATE DATABASE x")
        server.query("SET GLOBAL max_connections = 17")
        endpoint = server.endpoint
    flushlab("server", "env", NAME, "--database", "shop")
    assert f"reset {NAME} in" in flushlab("server", "reset", NAME).stderr
    with Sandbox.attach(NAME) as server:
        assert server.query("SHOW DATABASES LIKE 'x'") == []
        assert server.query("SHOW DATABASES LIKE 'shop'") == [("shop",)], "its variables name it"
        assert server.read_back(["max_connections"]) != {"max_connections": 17}
        assert server.endpoint == endpoint
    assert reap() == []
    assert [record.name for record in all_records()] == [NAME]
    assert "there is no kept sandbox" in flushlab("server", "reset", "other", code=2).stderr


def test_one_that_has_died_is_shown_as_dead_and_can_be_removed(kept: dict[str, Any]) -> None:
    with Sandbox.attach(NAME) as server:
        server.kill()
    assert "dead" in flushlab("server", "status").stdout
    with pytest.raises(ServerDied, match="is no longer running") as died:
        Sandbox.attach(NAME)
    assert f"flushlab server start --name {NAME} starts it again" in str(died.value.hint)
    flushlab("server", "stop", NAME)
    assert list(run_folder().iterdir()) == []


def test_one_that_runs_is_stopped_and_gone(furnished_home: Path) -> None:
    with Sandbox.start(SandboxSpec(require_build("mariadb@10.11"), name=NAME, kept=True)) as server:
        pid = server.pid
    assert Path(f"/proc/{pid}").exists(), "letting go of it does not end it"
    flushlab("server", "stop", NAME)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the server is gone")
    assert list(run_folder().iterdir()) == []
    assert json.loads(flushlab("server", "status", "--json", "-").stdout)["sandboxes"] == []


def test_owned_sandbox_cannot_be_attached(furnished_home: Path) -> None:
    with (
        Sandbox.start(SandboxSpec(require_build("mariadb@10.11"), name=NAME)),
        pytest.raises(UsageError, match="there is no kept sandbox"),
    ):
        Sandbox.attach(NAME)


def test_start_that_fails_leaves_nothing(private_home_with_builds: Path) -> None:
    require_build("mariadb@10.11")
    done = flushlab("server", "start", "--set", "innodb_nonsense=1", code=2)
    assert "innodb_nonsense is not a setting" in done.stderr
    assert list(run_folder().iterdir()) == []
