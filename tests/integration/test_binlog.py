"""Binlog files: the servers and their tools take those written here, the checker takes those of servers.

The tools are MySQL 9.7's mysqlbinlog, which stands in its build, and mariadb-binlog, whose package is
unpacked into flushlab's home once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab import _core
from flushlab.build import Build, apt, silent
from flushlab.errors import FlushlabError
from flushlab.machine import home, server_user
from flushlab.server import Sandbox
from tests.conftest import REQUIRED

CORPUS = Path(__file__).parents[2] / "crates" / "binlog" / "tests" / "corpus"
SAMPLE_UUID = "666c7573-686c-6162-2d73-616d706c6521"

StartSandbox = Callable[..., Sandbox]
FindBuild = Callable[[str], Build]


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
        fresh.rename(prefix)
    return prefix / "usr" / "bin" / "mariadb-binlog"


@pytest.fixture
def tool(build: FindBuild) -> Callable[[str], Path]:
    """The tool that reads files of a server version or a flavor."""

    def find(version: str) -> Path:
        if "maria" in version.lower():
            return mariadb_binlog()
        return Path(str(build("mysql@9.7").client)).with_name("mysqlbinlog")

    return find


def binlogs(folder: Path) -> list[Path]:
    return sorted(folder.glob("binlog.[0-9]*[0-9]"))


def read(tool: Path, files: list[Path]) -> subprocess.CompletedProcess[str]:
    options = ["--no-defaults", "--verify-binlog-checksum", "-vv", "--base64-output=DECODE-ROWS"]
    return subprocess.run(
        [tool, *options, *files],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=60,
        env={"LC_ALL": "C"},
    )


def shown(tool: Path, files: list[Path]) -> dict[str, int]:
    """Transactions and rows as the server's tool shows them; it must have nothing to complain of."""
    done = read(tool, files)
    assert (done.returncode, done.stderr) == (0, "")
    count = lambda pattern: len(re.findall(pattern, done.stdout, re.MULTILINE))  # noqa: E731
    return {
        "transactions": count(r"\t(?:GTID|Anonymous_GTID) ?"),
        "written": count("^### INSERT"),
        "updated": count("^### UPDATE"),
        "deleted": count("^### DELETE"),
    }


def check(files: list[Path]) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = msgspec.json.decode(
        _core.check_binlogs([str(one) for one in files], False)
    )
    return reports


def counted(files: list[Path]) -> dict[str, int]:
    reports = check(files)
    assert [(one["verdict"], one["problems"]) for one in reports] == [("whole", [])] * len(files)
    rows = {key: sum(one["rows"][key] for one in reports) for key in ("written", "updated", "deleted")}
    return {"transactions": sum(one["transactions"] for one in reports), **rows}


def write(folder: Path, version: str, *, updates: int = 300, close: bool = True) -> dict[str, Any]:
    written = _core.write_sample_binlog(str(folder), version, "t", updates, 60_000, close)
    sample: dict[str, Any] = msgspec.json.decode(written)
    return sample


@pytest.mark.parametrize("version", ["8.0.44", "9.7.4", "10.11.19-MariaDB-log", "11.8.6-MariaDB"])
def test_the_servers_tool_accepts_every_type_written_here(
    version: str, tool: Callable[[str], Path], tmp_path: Path
) -> None:
    sample = write(tmp_path, version)
    expected = {key: sample[key] for key in ("transactions", "written", "updated", "deleted")}
    assert len(binlogs(tmp_path)) == sample["files"] > 3
    assert shown(tool(version), binlogs(tmp_path)) == expected
    assert counted(binlogs(tmp_path)) == expected


def test_values_are_those_that_were_meant(tool: Callable[[str], Path], tmp_path: Path) -> None:
    write(tmp_path, "9.7.4")
    text = read(tool("9.7.4"), binlogs(tmp_path)).stdout
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
def test_the_checker_counts_in_real_files_what_the_servers_tool_shows(
    server: str, tool: Callable[[str], Path]
) -> None:
    # Compressed events are opaque to the checker: their rows are the tool's alone.
    files = [file for file in binlogs(CORPUS / server) if not check([file])[0]["opaque_events"]]
    assert files
    assert counted(files) == shown(tool(server), files)


def test_a_flipped_byte_and_a_torn_tail_are_named(tool: Callable[[str], Path], tmp_path: Path) -> None:
    write(tmp_path, "9.7.4", close=False)
    last = binlogs(tmp_path)[-1]
    content = last.read_bytes()
    whole = check([last])[0]
    assert (whole["verdict"], whole["in_use"], whole["whole_until"]) == ("whole", True, len(content))

    last.write_bytes(content[:-7])
    torn = check([last])[0]
    assert (torn["verdict"], torn["tail"]["kind"]) == ("torn", "event")
    assert torn["tail"]["offset"] == torn["whole_until"] < len(content) - 7
    assert read(tool("9.7.4"), [last]).returncode == 0, "the server's tool finds nothing wrong with it"

    last.write_bytes(content[:-50] + bytes([content[-50] ^ 1]) + content[-49:])
    damaged = check([last])[0]
    assert (damaged["verdict"], damaged["problems"][0]["rule"]) == ("damaged", "checksum")
    assert read(tool("9.7.4"), [last]).returncode != 0


USUAL = (
    "11,-1,255,-2,65535,-3,16777215,-4,4294967295,-5,18446744073709551615,1.5,-2.25,-12345.67,"
    "-12345678901234567890.123456789,99999,0.123456789,2026,'2026-11-21','-12:34:56','12:34:56.789',"
    "'-838:59:58.999999','2026-11-21 01:02:03','2026-11-21 01:02:03.4','2026-11-21 01:02:03.456789',"
    "FROM_UNIXTIME(1795222923),FROM_UNIXTIME(1795222923.45),FROM_UNIXTIME(1795222923.456789),"
    "'abc','a long char','lat','ab','vär','v300','vb','tb','tt','bl','te','mb','mt','lb','lt',"
    "%s,'b','x,z',1,b'101010101',b'1111000011110000'"
)
ZERO = (
    "12,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,'0000-00-00',0,0,'-00:00:00.000001',0,0,0,FROM_UNIXTIME(1),NULL,"
    "FROM_UNIXTIME(1),'','','','','','','','','','','','','','','','[]','a','',0,0,0"
)
EXTREME = (
    "13,-128,1,-32768,1,-8388608,1,-2147483648,1,-9223372036854775808,1,-1e30,1e300,99999999.99,"
    "12345678901234567890123456789012345.123456789012345678901234567890,1,-0.000000001,1901,'9999-12-31',"
    "'838:59:59','-00:00:00.500','00:00:00.5','9999-12-31 23:59:59',"
    "'1000-01-01 01:02:03','1000-01-01 01:02:03',"
    "FROM_UNIXTIME(2147483647),FROM_UNIXTIME(2147483647.99),FROM_UNIXTIME(2147483647.999999),"
    + ",".join(
        f"REPEAT('l',{n})"
        for n in (10, 120, 20, 8, 20, 300, 300, 255, 255, 60000, 300, 70000, 66000, 300, 300)
    )
    + ",CONCAT('[\"',REPEAT('r',70000),'\"]'),'c','x,y,z',1,511,18446744073709551615"
)
DOCUMENTS = {
    "mysql": '\'{"a": 1, "bb": [-2, 3.5, null, true], "c": {"d": 70000, "e": 5000000000,'
    ' "f": 18446744073709551615, "g": "x"}}\'',
    "mariadb": '\'{"a": 1, "bb": [-2, 3.5, null, true]}\'',
}


def served(shared: StartSandbox, name: str, version: str) -> tuple[Sandbox, dict[str, Any]]:
    """A server whose binlog was replaced by files that were written here."""
    gtid: dict[str, str] = {} if "mariadb" in name else {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
    source = shared(name, settings={"server_id": "7", "log_bin": "binlog", **gtid})
    source.stop()
    for file in source.datadir.glob("binlog.*"):
        file.unlink()
    # Sandboxes of one snapshot share their UUID, and a replica refuses a source with its own.
    (source.datadir / "auto.cnf").unlink(missing_ok=True)
    sample = write(source.datadir, version, updates=500)
    owner = server_user()
    for file in source.datadir.glob("binlog.*"):
        os.chown(file, owner.uid, owner.gid)
    source.start_again()
    return source, sample


def make_tables(replica: Sandbox, sample: dict[str, Any], flavor: str) -> None:
    statements = []
    for schema in ("meant", "t"):
        statements += [f"CREATE DATABASE {schema}"]
        statements += [table.replace("TABLE ", f"TABLE {schema}.", 1) for table in sample["tables"]]
    statements += ["SET sql_mode=''", "SET NAMES utf8mb4"]
    for row in (USUAL.replace("%s", DOCUMENTS[flavor]), ZERO, EXTREME):
        statements.append(f"INSERT INTO meant.types VALUES ({row})")
    for statement in ["SET sql_log_bin=0", *statements]:
        replica.query(statement)
    for number in range(1, 101):
        # Of 500 updates each row had five; the last of row n had the number 400 + n.
        c = f"{400 + number:011d}" + "-12345678901" * 9
        replica.query(
            "INSERT INTO meant.sbtest1 VALUES (%s, %s, %s, %s)",
            (number, number * 7, c, "12345678901-" * 4),
        )


def assert_rows_are_those_that_were_meant(replica: Sandbox) -> None:
    for table in ("types", "sbtest1"):
        rows, meant = (
            replica.query(f"SELECT * FROM {schema}.{table} ORDER BY id") for schema in ("t", "meant")
        )
        assert len(rows) == len(meant) > 2
        for row, other in zip(rows, meant, strict=True):
            assert row == other


@pytest.mark.server("mysql@9.7")
def test_a_mysql_replica_takes_files_written_here_from_a_real_source(sandbox: StartSandbox) -> None:
    source, sample = served(sandbox, "mysql@9.7", "9.7.4")
    gtids = f"{SAMPLE_UUID}:1-{sample['transactions']}"
    assert source.query("SELECT @@GLOBAL.gtid_executed") == [(gtids,)]
    # The sandbox's own password is longer than replication takes.
    for statement in (
        "SET sql_log_bin=0",
        "CREATE USER replica@'127.0.0.1' IDENTIFIED BY 'replica'",
        "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
    ):
        source.query(statement)
    settings = {"server_id": "8", "gtid_mode": "ON", "enforce_gtid_consistency": "ON", "log_bin": "binlog"}
    replica = sandbox("mysql@9.7", settings={**settings, "replica_parallel_workers": "4"})
    make_tables(replica, sample, "mysql")
    replica.query(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%s, SOURCE_USER='replica',"
        " SOURCE_PASSWORD='replica', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
        (source.endpoint.port,),
    )
    replica.query("START REPLICA")
    reached = replica.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)", (gtids,))
    assert reached == [(0,)], replica.log_tail(20)
    assert replica.query("SELECT @@GLOBAL.gtid_executed") == [(gtids,)]
    assert_rows_are_those_that_were_meant(replica)
    replica.query("STOP REPLICA")
    # What the replica wrote of it, with its own events' places, is whole too.
    replica.query("FLUSH BINARY LOGS")
    assert counted(binlogs(replica.datadir)[:1])["transactions"] == sample["transactions"]


@pytest.mark.server("mariadb@10.11")
def test_a_mariadb_replica_takes_files_written_here_from_a_real_source(sandbox: StartSandbox) -> None:
    source, sample = served(sandbox, "mariadb@10.11", "10.11.19-MariaDB-log")
    last = f"0-7-{sample['transactions']}"
    assert source.query("SELECT @@GLOBAL.gtid_binlog_pos") == [(last,)]
    replica = sandbox("mariadb@10.11", settings={"server_id": "8", "slave_parallel_threads": "4"})
    make_tables(replica, sample, "mariadb")
    endpoint = source.endpoint
    replica.query(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%s, MASTER_USER=%s, MASTER_PASSWORD=%s,"
        " MASTER_USE_GTID=slave_pos",
        (endpoint.port, endpoint.user, endpoint.password),
    )
    replica.query("START SLAVE")
    assert replica.query("SELECT MASTER_GTID_WAIT(%s, 30)", (last,)) == [(0,)], replica.log_tail(20)
    assert replica.query("SELECT @@GLOBAL.gtid_slave_pos") == [(last,)]
    assert_rows_are_those_that_were_meant(replica)
    replica.query("STOP SLAVE")
