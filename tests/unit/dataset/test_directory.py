"""A data directory of a stopped server: what of it is copied, and what it persisted."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.dataset import Directory, open_dataset
from flushlab.errors import StorageError

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
    assert open_dataset(datadir).settings() == {
        "sync_binlog": "0",
        "innodb_log_buffer_size": "1048576",
    }


def test_damaged_persisted_settings_are_an_error(datadir: Path) -> None:
    (datadir / "mysqld-auto.cnf").write_text("{")
    with pytest.raises(StorageError, match="cannot be read"):
        open_dataset(datadir).settings()


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
    Directory.open(datadir).copy(copy)
    assert {path.name for path in copy.iterdir()} == kept
    assert (copy / "shop/t.ibd").read_text() == "shop/t.ibd"


def test_databases_of_a_directory_are_its_folders_by_their_real_names(datadir: Path) -> None:
    for name in ("shop", "stock@002d2", "mysql", "sys", "performance_schema", "#innodb_temp"):
        (datadir / name).mkdir()
    assert open_dataset(datadir).databases == ("shop", "stock-2")


CHECKPOINTS = "backup_type = {}\nfrom_lsn = 0\nto_lsn = 44404\n"


@pytest.mark.parametrize(
    ("file", "tool"),
    [("mariadb_backup_checkpoints", "mariadb-backup"), ("xtrabackup_checkpoints", "xtrabackup")],
)
def test_backup_that_was_not_prepared_is_refused_with_the_command(
    file: str, tool: str, datadir: Path
) -> None:
    (datadir / file).write_text(CHECKPOINTS.format("full-backuped"))
    with pytest.raises(StorageError, match="was not prepared: its type is full-backuped") as refused:
        open_dataset(datadir)
    assert refused.value.hint == f"run {tool} --prepare --target-dir={datadir}"
    for prepared in ("full-prepared", "log-applied"):
        (datadir / file).write_text(CHECKPOINTS.format(prepared))
        assert open_dataset(datadir).path == str(datadir)


@pytest.mark.parametrize("suffix", [".qp", ".lz4", ".zst"])
def test_backup_that_was_compressed_is_taken_once_it_was_decompressed_and_prepared(
    suffix: str, datadir: Path, tmp_path: Path
) -> None:
    checkpoints, packed = datadir / "xtrabackup_checkpoints", datadir / f"shop/item.ibd{suffix}"
    (datadir / "shop").mkdir()
    packed.write_bytes(b"packed")
    checkpoints.write_text(CHECKPOINTS.format("full-backuped"))
    (datadir / "ibdata1").rename(datadir / f"ibdata1{suffix}")
    with pytest.raises(StorageError, match="is a compressed backup") as refused:
        open_dataset(datadir)
    assert "--decompress" in str(refused.value.hint)
    (datadir / "ibdata1").write_bytes(b"")

    checkpoints.write_text(CHECKPOINTS.format("full-prepared"))
    with pytest.raises(StorageError, match=f"item.ibd{suffix} was not decompressed"):
        open_dataset(datadir)

    (datadir / "shop/item.ibd").write_bytes(b"rows")
    Directory.open(datadir).copy(tmp_path / "copy")
    copied = {str(file.relative_to(tmp_path / "copy")) for file in (tmp_path / "copy").rglob("*")}
    assert copied == {"ibdata1", "shop", "shop/item.ibd"}
    assert packed.exists(), "the original is only read"


def test_backup_brings_what_shapes_its_files_and_nothing_of_its_tool(datadir: Path, tmp_path: Path) -> None:
    (datadir / "backup-my.cnf").write_text(
        "# made by a tool\n[mysqld]\ninnodb_data_file_path=ibdata1:12M;ibdata2:10M:autoextend\n"
        "innodb_log_file_size=100663296\ninnodb_page_size=8192\nserver_id=7\ninnodb_undo_directory=./\n"
    )
    for name in ("xtrabackup_info", "xtrabackup_logfile", "xtrabackup_binlog_info"):
        (datadir / name).write_text("x")
    data = Directory.open(datadir)
    assert data.settings() == {
        "innodb_data_file_path": "ibdata1:12M;ibdata2:10M:autoextend",
        "innodb_page_size": "8192",
    }
    data.copy(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["ibdata1"]
