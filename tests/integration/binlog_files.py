"""What tests of binlog files share: the servers' own tools, and the strict checker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab import _core
from flushlab.build import apt
from flushlab.errors import FlushlabError
from flushlab.machine import home
from flushlab.progress import silent
from tests.conftest import REQUIRED, require_build


def mariadb_binlog() -> Path:
    prefix = home() / "tools" / "mariadb-client"
    if not prefix.is_dir():
        fresh = prefix.with_name(f"mariadb-client.{os.getpid()}")
        try:
            apt.unpack(["mariadb-client"], fresh, silent)
        except FlushlabError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            if "mariadb@10.11" in REQUIRED:
                raise
            pytest.skip(f"mariadb-binlog is absent: {error.message}")
        try:
            fresh.rename(prefix)
        except OSError:  # another worker was quicker
            shutil.rmtree(fresh)
            assert prefix.is_dir()
    return prefix / "usr" / "bin" / "mariadb-binlog"


def tool(version: str) -> Path:
    """The tool that reads files of a server version or a flavor."""
    if "maria" in version.lower():
        return mariadb_binlog()
    return Path(str(require_build("mysql@9.7").client)).with_name("mysqlbinlog")


def binlogs(folder: Path) -> list[Path]:
    return sorted(folder.glob("binlog.[0-9]*[0-9]"))


def read(version: str, files: list[Path]) -> subprocess.CompletedProcess[str]:
    options = ["--no-defaults", "--verify-binlog-checksum", "-vv", "--base64-output=DECODE-ROWS"]
    return subprocess.run(
        [tool(version), *options, *files],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=900,
        env={"LC_ALL": "C"},
    )


def shown(version: str, files: list[Path]) -> dict[str, int]:
    """Transactions and rows as the server's tool shows them; it must have nothing to complain of."""
    done = read(version, files)
    assert (done.returncode, done.stderr) == (0, "")

    def count(pattern: str) -> int:
        return len(re.findall(pattern, done.stdout, re.MULTILINE))

    return {
        "transactions": count(r"\t(?:GTID|Anonymous_GTID) ?"),
        "written": count("^### INSERT"),
        "updated": count("^### UPDATE"),
        "deleted": count("^### DELETE"),
    }


def check(files: list[Path]) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = msgspec.json.decode(_core.check_binlogs([str(one) for one in files]))
    return reports


def counted(files: list[Path]) -> dict[str, int]:
    reports = check(files)
    assert [(one["verdict"], one["problems"]) for one in reports] == [("whole", [])] * len(files)
    rows = {key: sum(one["rows"][key] for one in reports) for key in ("written", "updated", "deleted")}
    return {"transactions": sum(one["transactions"] for one in reports), **rows}


def write_sample(folder: Path, version: str, *, updates: int = 300, close: bool = True) -> dict[str, Any]:
    written = _core.write_sample_binlog(str(folder), version, "t", updates, 60_000, close)
    sample: dict[str, Any] = msgspec.json.decode(written)
    return sample
