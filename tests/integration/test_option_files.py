"""Option files of distributions and people as the base of every command, on a real server.

What the server makes of a file is judged in one way: a command that measures it, measures it with all of it
that may enter a sandbox. `make soak` runs every file through windows of every command.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flushlab
from flushlab.build import Build
from flushlab.errors import UsageError
from flushlab.server.sandbox.base_file import read_base_file
from tests.conftest import require_build

ROOT = Path(__file__).parents[2]
FILES = (
    *sorted((ROOT / "tests/data/option_files").glob("*.cnf")),
    *sorted((ROOT / "examples").rglob("*.cnf")),
)
MARIADB = "mariadb@10.11"
SOAK = "FLUSHLAB_OPTION_FILE_SERVERS"
"""Set to servers, whose windows every file then runs through."""

UNLIKE = """
[mysqld]
skip-external-locking
character-set-client-handshake = 0
default-time-zone = +00:00
wsrep_slave_threads = 4
myisam-recover-options
character_set_server = utf8
sql_mode = NO_ENGINE_SUBSTITUTION,STRICT_TRANS_TABLES
optimizer_switch = 'mrr=on'
open_files_limit = 5000
table_open_cache = 50000
innodb_open_files = 50000
back_log = 70000
thread_cache_size = 384
"""
"""What no variable is called, and what the server reports otherwise than it is written."""

ARM = "innodb_flush_log_at_trx_commit=0"
SMALL: dict[str, Any] = {"threads": 2, "tables": 1, "table_size": 100}
PLAN = f"""
title = "One arm"
blocks = 2
window = 0.1

[workload]
name = "oltp_update_non_index"
threads = 2
tables = 1
table_size = 100

[[arm]]
name = "relaxed"
{ARM.replace("=", " = ").join(("settings = { ", " }"))}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "one.toml"
    file.write_text(PLAN)
    return file


@pytest.fixture
def unlike(tmp_path: Path) -> Path:
    file = tmp_path / "unlike.cnf"
    file.write_text(UNLIKE)
    return file


def starts(file: Path, build: Build) -> bool:
    """Whether the server starts with what of the file may enter a sandbox."""
    try:
        read_base_file(file, build, build.identity)
    except UsageError:
        return False
    return True


def uses(plan: Path, server: str) -> tuple[Callable[[Path, bool], Any], ...]:
    """Every command that takes an option file as its base, for a window or only to foresee it."""

    def compare(file: Path, dry: bool) -> Any:
        return flushlab.compare([str(file), ARM], server=server, blocks=2, duration=6.0, dry_run=dry, **SMALL)

    def series(file: Path, dry: bool) -> Any:
        return flushlab.series(plan, server=server, base=file, dry_run=dry)

    def tune(file: Path, _: bool) -> Any:
        return flushlab.tune(server=server, base=file, dry_run=True)

    def bench(file: Path, dry: bool) -> Any:
        return None if dry else flushlab.bench(server=server, base=file, duration=1.0, **SMALL)

    return compare, series, tune, bench


@pytest.mark.server(MARIADB)
def test_every_file_that_the_server_starts_with_is_compared_whole(unlike: Path) -> None:
    require_build(MARIADB)
    refused = {"bitnami-mysql-8.0": "Unknown collation", "tak848-isucon14": "outside any group"}
    for name, why in refused.items():
        (other,) = (file for file in FILES if file.stem == name)
        with pytest.raises(UsageError, match=why):
            flushlab.compare([str(other), ARM], server=MARIADB, dry_run=True)
    files = [str(file) for file in (unlike, *FILES) if file.stem not in refused]
    facts = flushlab.compare(files, server=MARIADB, duration=600.0, dry_run=True, **SMALL)
    assert facts.forecast is not None
    assert [(arm.name, arm.reason) for arm in facts.forecast.arms if arm.outcome != "measured"] == []
    assert len(facts.forecast.arms) == len(files) - 1
    assert [one.text for one in facts.warnings if one.slug == "base-left-out"] == []


@pytest.mark.server(MARIADB)
@pytest.mark.usefixtures("furnished_home")
def test_a_file_with_what_no_variable_shows_is_measured_by_every_command(plan: Path, unlike: Path) -> None:
    relaxed = unlike.with_name("relaxed.cnf")
    relaxed.write_text(UNLIKE + ARM)
    facts = flushlab.compare([str(unlike), str(relaxed)], server=MARIADB, blocks=2, duration=4.0, **SMALL)
    assert [(arm.outcome, arm.reason) for arm in facts.arms] == [("measured", "")]
    assert facts.base.settings["character_set_server"] == "utf8mb3"  # as the server reports it
    assert facts.arms[0].changes == {"innodb_flush_log_at_trx_commit": 0}  # all else is as in the base
    said = " ".join(warning.text for warning in facts.warnings)
    assert "thread_cache_size was set to 384; the server changed it to" in said
    _, series, tune, bench = uses(plan, MARIADB)
    (arm,) = series(unlike, False).arms[:1]
    assert (arm.outcome, arm.reason) == ("measured", "")
    assert tune(unlike, True).forecast is not None
    for file in (unlike, ROOT / "examples/shop/my.cnf"):
        assert bench(file, False).result is not None  # discarded on a busy machine


@pytest.mark.soak(SOAK)
@pytest.mark.parametrize("server", os.environ.get(SOAK, "").split(","))
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.timeout(0)
def test_every_file_runs_through_windows_of_every_command(file: Path, server: str, plan: Path) -> None:
    taken = starts(file, require_build(server))
    for use in uses(plan, server):
        if not taken:
            with pytest.raises(UsageError):
                use(file, False)
            continue
        found = use(file, False)
        outcomes = [arm.outcome for arm in getattr(found, "arms", ())[:1]] or ["measured"]
        assert outcomes == ["measured"], use.__name__
