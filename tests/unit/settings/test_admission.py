"""What may enter a sandbox: a list of what is allowed, whatever is known of the rest."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.errors import UnknownSetting, UsageError
from flushlab.record.machine import Flavor
from flushlab.settings.admission import (
    A_PATH,
    UNKNOWN,
    admit,
    barred,
    describe_left_out,
    inside,
    kept_out,
    require_admitted,
    require_admitted_words,
)
from flushlab.settings.catalog import load_catalog
from flushlab.settings.option_names import load_option_names

KNOWN = sorted(load_option_names().names())

HARMFUL = {
    "cluster": ("wsrep_provider", "wsrep_cluster_address", "wsrep_sst_auth", "group_replication_group_seeds"),
    "replication": (
        *("relay_log", "relay_log_index", "report_host", "report_password", "replicate_do_db"),
        *("slave_load_tmpdir", "master_info_file", "rpl_semi_sync_master_enabled", "skip_slave_start"),
    ),
    "accounts, keys and TLS": (
        *("ssl_key", "ssl_ca", "admin_ssl_cert", "mysqlx_ssl_key", "tls_version", "secure_file_priv"),
        *("default_authentication_plugin", "file_key_management_filekey", "keyring_file_data"),
    ),
    "file locations": (
        *("datadir", "basedir", "tmpdir", "socket", "pid_file", "log_error", "log_basename", "log_bin_index"),
        *("innodb_undo_directory", "innodb_data_home_dir", "innodb_log_group_home_dir", "aria_log_dir_path"),
        *("general_log_file", "slow_query_log_file", "innodb_tmpdir", "init_file", "ft_stopword_file"),
    ),
    "addresses and ports": ("bind_address", "port", "extra_port", "mysqlx_socket", "proxy_protocol_networks"),
    "SQL the server runs by itself": ("init_connect", "event_scheduler"),
    "restricts what the server accepts": ("read_only", "super_read_only", "innodb_force_recovery"),
    "plugins": ("plugin_load", "plugin_load_add", "server_audit_file_path", "rocksdb_wal_dir"),
    "process": ("user", "initialize", "daemonize"),
}


@pytest.mark.parametrize("why", HARMFUL)
def test_what_reaches_beyond_the_sandbox_stays_out_with_its_reason(why: str) -> None:
    for name in HARMFUL[why]:
        assert name in describe_left_out(admit({name: "x"})[1])
        assert kept_out(name, "x") not in ("", UNKNOWN)


def test_no_admitted_name_is_one_of_a_path_a_peer_or_a_credential() -> None:
    suspicious = re.compile(
        r".*(dir|dirs|path|file|filename|index|host|hosts|address|url|socket|port|auth|password|key|user|plugin|"
        r"plugins|load|load_add)"
    )
    harmless = {
        "innodb_data_file_path": "names without folders",
        "innodb_temp_data_file_path": "names without folders",
        "local_infile": "the client's files",
        "innodb_buffer_pool_in_core_file": "a boolean",
        "innodb_deadlock_report": "an enumeration",
        "binlog_gtid_index": "a boolean",
        "innodb_force_primary_key": "a boolean",
        "sql_require_primary_key": "a boolean",
        "sql_generate_invisible_primary_key": "a boolean",
        "restrict_fk_on_non_standard_key": "a boolean",
        "max_seeks_for_key": "a number",
    }
    entering = {name for name in KNOWN if name not in load_catalog() and not kept_out(name, "1")}
    assert {name for name in entering if suspicious.fullmatch(name)} == set(harmless)


@given(name=st.sampled_from(KNOWN), folder=st.sampled_from(["/var/lib/mysql", "../x", "C:\\data"]))
def test_no_option_of_any_server_brings_a_path_in(name: str, folder: str) -> None:
    catalog = load_catalog()
    if name not in catalog:  # the catalog's own are typed; log_bin's file name is not used
        assert kept_out(name, folder)


def test_nobody_knows_it_so_it_stays_out() -> None:
    assert kept_out("innodb_something_new", 1) == UNKNOWN
    with pytest.raises(UnknownSetting, match="innodb_nonsense is not a setting that flushlab knows"):
        require_admitted({"innodb_nonsense": 1})
    with pytest.raises(UnknownSetting) as caught:
        require_admitted({"sync_binlogg": 1})
    assert "sync_binlog" in str(caught.value.hint)
    with pytest.raises(UnknownSetting) as caught:
        require_admitted({"query_cache_sizee": 0})  # admitted, but not in the catalog
    assert caught.value.hint == "did you mean query_cache_size?"


@pytest.mark.parametrize("name", ["datadir", "socket", "port", "bind-address", "PID_FILE", "init_file"])
def test_asked_for_by_name_it_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be set in a sandbox"):
        require_admitted({name: "x"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gcs.fc_limt", "did you mean gcs.fc_limit?"),
        ("wsrep_slave_thread", "did you mean wsrep_slave_threads?"),
        ("innodb_doublewrite_dir", "a sandbox sets up its own files, network and accounts; remove it"),
    ],
)
def test_what_stays_out_may_be_misspelt(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_admitted({name: "1"})
    assert caught.value.hint == hint


def test_the_value_of_what_stays_out_is_never_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        require_admitted({"wsrep_sst_auth": "sst:s3cret"})
    assert "s3cret" not in f"{caught.value.message} {caught.value.hint}"
    assert "s3cret" not in repr(admit({"report_password": "s3cret"}))


def test_prefixes_do_not_smuggle_a_name_in() -> None:
    for name in ("loose_wsrep_provider", "loose-datadir", "skip_log_bin", "maximum_sort_buffer_size"):
        with pytest.raises(UsageError):
            require_admitted({name: "x"})


def test_names_are_spelled_as_variables_and_nothing_else_is_a_name() -> None:
    assert require_admitted({"Sync-Binlog": 1, "max-connections": 9}) == {
        "sync_binlog": 1,
        "max_connections": 9,
    }
    with pytest.raises(UsageError, match="is not the name of a server variable"):
        require_admitted({"sync_binlog\n[client]": 1})


@pytest.mark.parametrize(
    ("name", "enters", "stays_out"),
    [
        ("default_storage_engine", "InnoDB", "RocksDB"),
        ("default_time_zone", "+02:00", "Europe/Berlin"),
        ("innodb_data_file_path", "ibdata1:12M:autoextend", "/data/ibdata1:12M"),
        ("collation_server", "utf8mb4_bin", "../x"),
    ],
)
def test_some_enter_with_some_values(name: str, enters: str, stays_out: str) -> None:
    assert not kept_out(name, enters)
    assert kept_out(name, stays_out)


def test_what_stays_out_is_told_by_the_class_of_its_reason() -> None:
    left = admit({"socket": "/s", "datadir": "/d", "report_host": "h", "sort_buffer_size": "4M"})[1]
    assert describe_left_out(left) == "datadir, socket (file locations); report_host (replication)"


PATH = "/srv/theirs/file"
PREFIXES = (
    "",
    "loose-",
    "skip-",
    "enable-",
    "disable-",
    "maximum-",
    "loose-skip-",
    "loose_enable_",
    "LOOSE-",
)
LOCATION = re.compile(
    r".*_(dir|file|path|directory|directories|filename|basename|home_dir)|datadir|tmpdir|basedir|socket|"
    r"pid_file|log_error|log_bin_index|relay_log|relay_log_index|chroot|init_file|log_tc|debug"
)
SERVERS: tuple[tuple[Flavor, tuple[int, ...]], ...] = tuple(
    (one.flavor, one.version) for one in load_option_names().releases
)


@pytest.mark.parametrize(("flavor", "version"), SERVERS)
def test_no_option_of_any_server_takes_a_path_in(flavor: Flavor, version: tuple[int, ...]) -> None:
    for name in load_option_names().names():
        for prefix in PREFIXES:
            word = inside(f"--{prefix}{name.replace('_', '-')}={PATH}")
            assert barred(word, flavor, version) or not A_PATH.search(word), word


@pytest.mark.parametrize(("flavor", "version"), SERVERS)
def test_no_option_of_any_server_that_names_a_file_enters_even_without_a_path(
    flavor: Flavor, version: tuple[int, ...]
) -> None:
    for name in load_option_names().names():
        if LOCATION.fullmatch(name) and kept_out(name, "x"):
            for prefix in PREFIXES:
                assert barred(f"--{prefix}{name}=x", flavor, version), name


@pytest.mark.parametrize("version", [version for flavor, version in SERVERS if flavor == "mariadb"])
def test_an_abbreviation_is_every_option_that_it_may_stand_for(version: tuple[int, ...]) -> None:
    names = load_option_names()
    for name in names.names():
        if kept_out(name, "1") and names.knows(name, "mariadb", version):
            for short in (name[:4], name[: len(name) // 2], name[:-1]):
                whole = names.knows(short, "mariadb", version)
                assert whole or barred(f"--loose-{short}=1", "mariadb", version), (short, name)


@pytest.mark.parametrize(
    "word",
    [
        "--datadir",
        "--data-dir=x",
        "--DATADIR=x",
        "--loose-loose-datadir=x",
        "--loose-skip-skip-networking",
        "--skip-grant-tables",
        "--plugin-load-add=auth_socket",
        "--init-file=x",
        "--slow-query-log-file=slow.log",
        "--innodb-data-file-path=/srv/ibdata1:12M",
        "--innodb-data-file-path=../ibdata1:12M",
        "--general-log=..\\x",
        "--default-storage-engine=federated",
        "-h",
        "---datadir=x",
        "datadir",
        "--foo: /srv",
        "--",
        "--port=3306",
        "--wsrep-cluster-address=gcomm:",
    ],
)
def test_words_that_do_not_enter(word: str) -> None:
    assert barred(word, "mariadb", (10, 11, 19))
    assert barred(word, "mysql", (8, 0, 15))
    with pytest.raises(UsageError, match=re.escape(word.partition("=")[0])):
        require_admitted_words(["--sync-binlog=1", word], "mysql", (8, 0, 15))


@pytest.mark.parametrize(
    "word",
    [
        "--sync-binlog=1",
        "--loose_sync-binlog=1",
        "--skip-log-bin",
        "--log-bin",
        "--log_bin=binlog",
        "--maximum-sort-buffer-size=1M",
        "--no-such-option=1",
        "--foo: 3",
        "--skip-name-resolve",
    ],
)
def test_words_that_enter(word: str) -> None:
    assert not barred(word, "mariadb", (10, 11, 19))
    assert not barred(word, "mysql", (8, 0, 15))


@pytest.mark.parametrize("option", ["--log-bin", "--log_bin", "--loose-log-bin", "--LOG_BIN"])
def test_binary_logs_elsewhere_are_tried_in_the_sandbox(option: str) -> None:
    assert inside(f"{option}={PATH}") == f"{option}=binlog"
    assert inside(f"{option}=mysql-bin") == f"{option}=mysql-bin"
    assert inside(f"{option}-index={PATH}") == f"{option}-index={PATH}"
