"""A data directory of a stopped server: what of it is copied, and what it persisted."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.errors import StorageError
from flushlab.trial import Dataset
from tests.unit.builds import MYSQL80

V8_0_15 = """{ "Version" : 1 , "mysql_server" : {
 "sync_binlog" : { "Value" : "0" , "Metadata" : { "Timestamp" : 1, "User" : "root" } },
 "mysql_server_static_options" : { "innodb_log_buffer_size" : { "Value" : "1048576", "Metadata": {} } } } }"""
V8_4 = """{"Version": 2, "mysql_dynamic_parse_early_variables": {}, "mysql_dynamic_variables": {
 "sync_binlog": {"Value": "0", "Metadata": {"Host": "localhost", "User": "root", "Timestamp": 1}}},
 "mysql_static_variables": {"innodb_log_buffer_size": {"Value": "1048576", "Metadata": {}}}}"""


@pytest.fixture
def datadir(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "ibdata1").write_bytes(b"")
    return folder


@pytest.mark.parametrize("content", [V8_0_15, V8_4])
def test_what_a_server_persisted_is_read_whatever_its_version(content: str, datadir: Path) -> None:
    (datadir / "mysqld-auto.cnf").write_text(content)
    assert Dataset.open(datadir, MYSQL80).persisted() == {
        "sync_binlog": "0",
        "innodb_log_buffer_size": "1048576",
    }


def test_damaged_persisted_settings_are_an_error(datadir: Path) -> None:
    (datadir / "mysqld-auto.cnf").write_text("{")
    with pytest.raises(StorageError, match="cannot be read"):
        Dataset.open(datadir, MYSQL80).persisted()


def test_nothing_is_copied_that_makes_a_directory_another_servers(datadir: Path, tmp_path: Path) -> None:
    (datadir / "shop").mkdir()
    for name in ("mysql.ibd", "shop/t.ibd", "ib_logfile0", "binlog.000009x", "undo.000001"):
        (datadir / name).write_text(name)
    kept = {path.name for path in datadir.iterdir()}
    (datadir / "binlog.index").write_text("/var/lib/mysql/binlog.000001\n./binlog.000002\n../shop\n")
    (datadir / "host-relay-bin.index").write_text("./host-relay-bin.000003\n")
    for name in (
        *("binlog.000001", "binlog.000002", "host-relay-bin.000003", "auto.cnf", "mysqld-auto.cnf"),
        *("server-key.pem", "private_key.pem", "master.info", "master-eu.info", "relay-log-eu.info"),
        *("multi-master.info", "grastate.dat", "gvwstate.dat", "galera.cache", "host.err", "host.pid"),
    ):
        (datadir / name).write_text("theirs")
    copy = tmp_path / "copy"
    Dataset.open(datadir, MYSQL80).copy_directory(copy)
    assert {path.name for path in copy.iterdir()} == kept
    assert (copy / "shop/t.ibd").read_text() == "shop/t.ibd"
