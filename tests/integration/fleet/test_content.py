"""Content of a campaign reaches a machine of a fleet that has none of it: its build, its files, its data."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flushlab.build import Build
from flushlab.build.prefix import prefix_of
from tests.fleet_testbed import Node, needs_ray, needs_root

pytestmark = [
    needs_ray,
    needs_root,
    pytest.mark.long,
    pytest.mark.server("mariadb@10.11"),
]
SECRET = "planted-7f3a9c"


@pytest.fixture(scope="module")
def key(build: Callable[[str], Build]) -> str:
    """Name of the prefix of the build."""
    prefix = prefix_of(build("mariadb@10.11").prefix)
    assert prefix is not None
    return prefix.name


def compare(pair: tuple[Node, Node], workload: str, *more: str, files: Path | None = None) -> Any:
    """A comparison from the first machine; only the command itself has these files, in `only_here(files)`."""
    words = (
        *(sys.executable, "-m", "flushlab", "compare"),
        *("innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=2"),
        *("--workload", workload, "--server", "mariadb@10.11", "--blocks", "2", "--json", "-"),
        *("--fleet", pair[0].address, *more),
    )
    if files is None:
        return pair[0].run(*words)
    return on_driver(pair, files, *words)


def bench(pair: tuple[Node, Node], workload: str, files: Path) -> subprocess.CompletedProcess[str]:
    """One run on each machine; only the command itself has these files, in `only_here(files)`."""
    words = (sys.executable, "-m", "flushlab", "bench", "--workload", workload, "--server", "mariadb@10.11")
    return on_driver(pair, files, *words, "--json", "-", "--fleet", pair[0].address)


def on_driver(pair: tuple[Node, Node], files: Path, *words: str) -> subprocess.CompletedProcess[str]:
    mount = 'mount --bind "$0" "$1" && shift && exec "$@"'
    return pair[0].run(*("unshare", "-m", "sh", "-c", mount, str(files), str(only_here(files))), *words)


def only_here(files: Path) -> Path:
    """Where a command has files that no worker has: the folder is empty outside of its mounts."""
    place = files.with_name(f"{files.name}-of-driver")
    place.mkdir(exist_ok=True)
    return place


def machines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Those that ran blocks."""
    assert done.returncode == 0, done.stderr
    return [one["name"] for one in json.loads(done.stdout)["machines"]]


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What it said."""
    return done.stderr.splitlines()


def test_a_build_and_files_of_the_command_alone_reach_both_machines_once(
    pair: tuple[Node, Node], key: str, tmp_path: Path
) -> None:
    shutil.rmtree(pair[1].home / "builds", ignore_errors=True)  # of another test
    files = tmp_path / "files"
    files.mkdir()
    (files / "load.sh").write_text('sleep "$(cat "$1")"\n')
    (files / "seconds").write_text("3\n")
    workload = f"command: sh {only_here(files)}/load.sh {only_here(files)}/seconds"
    first = bench(pair, workload, files)
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)
    assert found["schema"] == "flushlab.fleet-bench/1"
    assert [one["machine"] for one in found["runs"]] == ["one", "two"]
    assert all(one["trial"]["result"] > 2.9 for one in found["runs"]), "each has slept"
    assert {found["fastest"], found["slowest"]} == {"one", "two"}
    assert found["between"] >= 1
    sends = [line for line in lines(first) if "sends " in line]
    assert len(sends) == 2
    assert any("sends load.sh, seconds, " in line and line.endswith("to one") for line in sends), sends
    assert any("sends mariadb@10.11" in line and line.endswith("to two") for line in sends), sends
    there = json.loads((pair[1].home / "builds" / key / "build.json").read_text())["build"]
    assert there["prefix"] == str(pair[1].home / "builds" / key)
    second = compare(pair, workload, files=files)  # the same content, whatever the command
    assert machines(second) == ["one", "two"]
    assert not [line for line in lines(second) if "sends " in line]


def test_a_dump_reaches_both_machines_and_what_holds_a_password_none(
    pair: tuple[Node, Node], tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "load.sh").write_text(f"MYSQL_PWD={SECRET} sleep 3\n")
    (files / "shop.sql").write_text(
        "CREATE DATABASE shop; USE shop; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);\n"
    )
    options = tmp_path / "my.cnf"
    options.write_text(f"[client]\npassword={SECRET}\n[mysqld]\ninnodb_buffer_pool_size=64M\n")
    refused = compare(pair, f"command: sh {only_here(files)}/load.sh", files=files)
    assert refused.returncode == 2, refused.stderr
    assert "load.sh, which is not sent: there is a password or a private key in it" in refused.stderr
    data = ("--dataset", str(only_here(files) / "shop.sql"))
    # The script is at the same path on every machine, the dump is not.
    done = compare(pair, f"command: sh {files}/load.sh", "--base", str(options), *data, files=files)
    assert machines(done) == ["one", "two"]
    assert any("sends shop.sql, " in line and line.endswith("to one, two") for line in lines(done))
    for node in pair:
        assert [*(node.home / "content").glob("data-*/shop.sql")]
        session = Path(json.loads((node.home / "fleet" / "node.json").read_text())["folder"])
        logs = [one for one in session.rglob("*") if one.is_file()]
        assert logs
        assert not [one for one in (*logs, *node.home.rglob("*")) if has_secret(one)]


def has_secret(file: Path) -> bool:
    return file.is_file() and not file.is_symlink() and SECRET.encode() in file.read_bytes()


def test_a_command_line_with_a_password_is_refused(pair: tuple[Node, Node]) -> None:
    done = compare(pair, f"command: sh -c 'MYSQL_PWD={SECRET} sleep 3'")
    assert done.returncode == 2, done.stderr
    assert "has a password in it" in done.stderr
    assert SECRET not in done.stderr
