"""What committers write through every pipeline is a log as servers write it: their tools say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.binlog_files import binlogs, check, counted, shown
from tests.integration.commit_path import ALL_WAYS, run

VERSIONS = ["9.7.4", "10.11.19-MariaDB-log"]


@pytest.mark.parametrize("threads", [16, 64])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_servers_tool_and_the_checker_accept_rotated_files_of_every_way(
    version: str, threads: int, tmp_path: Path
) -> None:
    for transactions in (
        2000,
        8000,
        32_000,
        128_000,
    ):  # a machine may be too busy to make all changes in time
        folder = tmp_path / str(transactions)
        folder.mkdir()
        result = run(folder, version, threads=threads, transactions=transactions)
        if result["switches"] == len(ALL_WAYS):
            break
    assert result["switches"] == len(ALL_WAYS)
    files = binlogs(folder)
    assert len(files) > 4
    commits = result["last_gtid"]
    assert commits == transactions
    expected = {"transactions": commits, "written": 0, "updated": commits, "deleted": 0}
    assert counted(files) == expected == shown(version, files)
    first, last = check(files)[0], check(files)[-1]
    assert first["previous_gtids"] == ""
    # One server's numbers from 1 on, none left out.
    assert last["gtids"].endswith(f":1-{commits}" if version == "9.7.4" else f"-{commits}")
