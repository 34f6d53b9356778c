"""Binlog files: the servers' tools take those written here, the checker takes those of servers.

The tools are MySQL 9.7's mysqlbinlog, which stands in its build, and mariadb-binlog, whose package is
unpacked into flushlab's home once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.binlog_files import binlogs, check, counted, read, shown, write_sample

CORPUS = Path(__file__).parents[2] / "crates" / "binlog" / "tests" / "corpus"


@pytest.mark.parametrize("version", ["8.0.44", "9.7.4", "10.11.19-MariaDB-log", "11.8.6-MariaDB"])
def test_the_servers_tool_accepts_every_type_written_here(version: str, tmp_path: Path) -> None:
    sample = write_sample(tmp_path, version)
    expected = {key: sample[key] for key in ("transactions", "written", "updated", "deleted")}
    assert len(binlogs(tmp_path)) == sample["files"] > 3
    assert shown(version, binlogs(tmp_path)) == expected
    assert counted(binlogs(tmp_path)) == expected


def test_values_are_those_that_were_meant(tmp_path: Path) -> None:
    write_sample(tmp_path, "9.7.4")
    text = read("9.7.4", binlogs(tmp_path)).stdout
    for value in (
        "@15=-12345678901234567890.123456789000000000000000000000 /* DECIMAL(65,30)",
        "@22='-838:59:58.999999' /* TIME(6)",
        "@25='2026-11-21 01:02:03.456789' /* DATETIME(6)",
        "@27=1795222923.45 /* TIMESTAMP(2)",
        '@44=\'{"a": 1, "c": {"d": 70000, "e": 5000000000, "f": 18446744073709551615, "g": "x"},'
        ' "bb": [-2, 3.5, null, true]}\' /* JSON',
        "@46=b'00000101' /* SET(1 bytes)",
        "@48=b'101010101' /* BIT(9)",
    ):
        assert value in text


@pytest.mark.parametrize("server", ["mysql-5.7", "mysql-8.0", "mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_the_checker_counts_in_real_files_what_the_servers_tool_shows(server: str) -> None:
    files = binlogs(CORPUS / server)
    assert [one["opaque_events"] for one in check(files)] == [0] * len(files)
    assert counted(files) == shown(server, files)


def test_a_flipped_byte_and_a_torn_tail_are_named(tmp_path: Path) -> None:
    write_sample(tmp_path, "9.7.4", close=False)
    last = binlogs(tmp_path)[-1]
    content = last.read_bytes()
    whole = check([last])[0]
    assert (whole["verdict"], whole["in_use"], whole["whole_until"]) == ("whole", True, len(content))

    last.write_bytes(content[:-7])
    torn = check([last])[0]
    assert (torn["verdict"], torn["tail"]["kind"]) == ("torn", "event")
    assert torn["tail"]["offset"] == torn["whole_until"] < len(content) - 7
    assert read("9.7.4", [last]).returncode == 0, "the server's tool finds nothing wrong with it"

    last.write_bytes(content[:-50] + bytes([content[-50] ^ 1]) + content[-49:])
    damaged = check([last])[0]
    assert (damaged["verdict"], damaged["problems"][0]["rule"]) == ("damaged", "checksum")
    assert read("9.7.4", [last]).returncode != 0
