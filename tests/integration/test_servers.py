"""Servers of other Debian releases and from tarballs: fetched, started, measured, stopped."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flushlab.build import origin
from flushlab.machine import home, home_part
from flushlab.server import Sandbox
from flushlab.telemetry import status
from tests.conftest import require_build, usual_home
from tests.integration.test_bench import events_of
from tests.integration.test_bench import flushlab as run

StartSandbox = Callable[..., Sandbox]

SMALL = ["--tables", "1", "--table-size", "1000", "--threads", "4", "--duration", "0.9"]
"""A window below 1 s is never discarded."""
OF_OTHER_RELEASES = ("mysql@9.7", "mariadb@11.8")

# What these servers do not count, or not under this name.
NOT_COUNTED = {
    "mysql": {"Binlog_bytes_written", "Binlog_commits", "Binlog_group_commits"},
    "mariadb": {"Innodb_os_log_fsyncs", "Innodb_rows_inserted", "Innodb_rows_updated"},
}


@pytest.mark.parametrize("name", OF_OTHER_RELEASES)
def test_server_of_another_release_runs_and_tells_where_its_writes_go(
    name: str, sandbox: StartSandbox
) -> None:
    server = sandbox(name)
    series = name.partition("@")[2]
    assert server.identity.version_text.startswith(f"{series}.")
    assert len(origin(server.build)) > 20  # with every library, the C library included
    assert all(len(file.sha256) == 64 for file in origin(server.build))
    assert server.restored is not None
    server.query("CREATE DATABASE it")
    server.query("CREATE TABLE it.t (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB")
    before, counted = status.innodb(server), status.counters(server)
    for number in range(50):
        server.query("INSERT INTO it.t VALUES (%s, REPEAT('x', 200))", [number])
    after, deltas = status.innodb(server), status.deltas(counted, status.counters(server))
    assert set(status.COUNTERS) - counted.keys() == NOT_COUNTED[server.build.flavor]
    assert after.redo_written_bytes is not None
    assert before.redo_written_bytes is not None
    assert after.redo_written_bytes - before.redo_written_bytes > 50 * 200
    assert after.checkpoint_age_bytes is not None
    assert after.checkpoint_age_bytes > 0
    assert after.dirty_pages is not None
    assert after.history_length is not None
    assert deltas["Innodb_data_fsyncs"] >= 50
    client = subprocess.run(
        [
            str(server.build.client),
            f"--defaults-file={server.endpoint.option_file}",
            "-Ne",
            "SELECT COUNT(*) FROM it.t",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert client.stdout == "50\n"


@pytest.mark.parametrize(("name", "transport"), [("mysql@9.7", "tcp"), ("mariadb@11.8", "socket")])
def test_bench_measures_a_server_of_another_release(name: str, transport: str) -> None:
    require_build(name)
    done = flushlab("bench", "--server", name, "--transport", transport, *SMALL, "--json", "-")
    assert done["result"] > 0
    assert done["load"]["errors"] == []
    assert done["server"]["version_text"].startswith(name.partition("@")[2])
    # Of each connection one event may have been counted before, whose answer came in the window.
    assert events_of(done) - 4.5 <= done["deltas"]["Handler_update"]


def test_server_from_a_tarball_is_unpacked_and_runs(
    tmp_path: Path, private_home: Path, sandbox: StartSandbox
) -> None:
    """The tarball is made of an installed build's prefix, as its publisher would make one."""
    with usual_home():
        build, snapshots = require_build("mysql@5.7"), home_part("snapshots")
    home()  # marks it as flushlab's while it is empty
    (private_home / "snapshots").symlink_to(snapshots)
    tarball = tmp_path / "mysql-5.7.22-linux.tar.gz"
    with tarfile.open(tarball, "w:gz", compresslevel=0) as archive:
        for folder in ("bin", "share", "lib", "usr"):
            if (Path(build.prefix) / folder).exists():
                archive.add(Path(build.prefix) / folder, f"mysql-5.7.22-linux/{folder}")
    got = flushlab("server", "get", str(tarball), "--json", "-")
    assert (got["name"], got["source"]) == (build.name, "tarball")
    assert [file["file"] for file in got["origin"]][:1] == [tarball.name]
    server = sandbox(str(tarball))
    assert server.build.id == got["id"] == build.id
    assert server.query("SELECT VERSION()") == [(build.version_text,)]


def flushlab(*words: str) -> dict[str, Any]:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
