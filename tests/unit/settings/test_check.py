from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from flushlab.errors import UsageError
from flushlab.record import ServerIdentity, Storage, Value
from flushlab.settings.admission import parse_settings
from flushlab.settings.check import CheckedFile, adjusted, arguments, below, check, unusable
from flushlab.settings.durability import level
from flushlab.settings.floor import Floor
from flushlab.settings.in_force import read_dump
from flushlab.settings.option_names import HelpText
from flushlab.settings.optionfile import Remark, lines
from tests.unit.settings.servers import ALL, MARIADB118, MARIADB123, MARIADB1011, MYSQL57, MYSQL80, MYSQL97

FILES = Path(__file__).parent / "option_files"
THREE = (MYSQL57, MYSQL80, MARIADB1011)

TWENTY = {
    (3, "sync_binlog", "wrong-group"),
    (7, "innodb_flush_log_at_trx_comit", "misspelled"),
    (8, "innodb_flush_method", "wrong-type"),
    (9, "innodb_log_buffer_size", "wrong-type"),
    (10, "innodb_doublewrite", "wrong-type"),
    (11, "innodb_flush_log_at_timeout", "out-of-range"),
    (12, "innodb_page_size", "out-of-range"),
    (13, "max_binlog_size", "rounded"),
    (14, "innodb_io_capacity", "contradiction"),
    (16, "innodb_file_per_table", "duplicate"),
    (18, "log_bin", "not-a-switch"),
    (19, "frobnicate", "unknown-name"),
    (20, "innodb_flush_neighbours", "misspelled"),
    (21, "tx_isolation", "unknown-name"),
    (22, "innodb_max_purge_lag", "prefix"),
    (24, "innodb_redo_log_capacity", "not-in-version"),
    (25, "binlog_checksum", "syntax"),
    (26, "", "include"),
    (27, "innodb_max_dirty_pages_pct_lwm", "contradiction"),
}
SUPPORT_XA = {MYSQL57: "deprecated", MYSQL80: "removed", MARIADB1011: "removed"}


def absent(target: str, directory: bool) -> Iterable[tuple[str, str]]:
    raise FileNotFoundError(2, "No such file or directory", target)


def of(text: str, server: ServerIdentity = MYSQL80, known: HelpText | None = None) -> CheckedFile:
    return check(text, server, loader=absent, known=known)


def only(text: str, server: ServerIdentity = MYSQL80) -> Remark:
    """The single finding about lines in [mysqld]."""
    (finding,) = of(f"[mysqld]\n{text}\n", server).findings
    return finding


@pytest.mark.parametrize("server", THREE, ids=lambda one: one.name)
def test_every_planted_mistake_is_found_with_its_line_and_nothing_else(server: ServerIdentity) -> None:
    text = (FILES / "twenty_mistakes.cnf").read_text(encoding="utf-8")
    checked = check(text, server, path="twenty_mistakes.cnf", loader=absent)
    expected = TWENTY | {(23, "innodb_support_xa", SUPPORT_XA[server])}
    assert len(expected) == 20
    assert sorted((one.line, one.name, one.kind) for one in checked.findings) == sorted(expected)
    assert {one.path for one in checked.findings} == {"twenty_mistakes.cnf"}
    assert not checked.starts


@pytest.mark.parametrize(
    ("file", "server"),
    [
        ("debian_mariadb.cnf", MARIADB1011),
        ("debian_mariadb.cnf", MARIADB118),
        ("debian_mariadb.cnf", MARIADB123),
        *(("mysql_sample.cnf", server) for server in ALL),
    ],
    ids=str,
)
def test_clean_files_raise_no_alarm_but_for_what_the_server_warns_of(
    file: str, server: ServerIdentity
) -> None:
    checked = check((FILES / file).read_text(encoding="utf-8"), server, loader=absent)
    deprecated = {"symbolic_links", "sql_mode"} if server.flavor == "mysql" else set()
    assert {one.name for one in checked.findings} == deprecated - (
        {"symbolic_links"} if server == MYSQL57 else set()
    )
    assert {one.kind for one in checked.findings} <= {"deprecated"}
    assert checked.starts


def test_what_a_file_guarantees_counts_defaults_and_what_the_server_makes_of_values() -> None:
    disk = Storage()
    assert level(of("[mysqld]\n", MYSQL80).guarantees(MYSQL80, disk)) is Floor.STRICT
    relaxed = of("[mysqld]\nloose_innodb_flush_log_at_trx_commit = 0\nskip_log_bin\n", MYSQL80)
    assert level(relaxed.guarantees(MYSQL80, disk)) is Floor.RELAXED
    cut = of("[mysqld]\ninnodb_flush_log_at_trx_commit = 9\nskip_log_bin\n", MYSQL80)
    assert cut.settings["innodb_flush_log_at_trx_commit"] == 2
    assert level(cut.guarantees(MYSQL80, disk)) is Floor.SECOND
    ignored = of("[mysqld]\ninnodb_doublewrite = no\n", MYSQL80)
    assert ignored.settings["innodb_doublewrite"] == "ON"


def test_a_file_can_switch_all_syncs_off() -> None:
    checked = of("[mysqld]\ndebug-no-sync\n", MARIADB1011)
    assert level(checked.guarantees(MARIADB1011, Storage())) is Floor.THROWAWAY


def test_what_is_below_a_floor_names_the_line_to_change() -> None:
    checked = of("[mysqld]\nskip_log_bin\ninnodb_flush_log_at_trx_commit = 2\n", MYSQL57)
    (finding,) = below(checked, "my.cnf", MYSQL57, Storage(), Floor.STRICT)
    assert (finding.kind, finding.name, finding.line) == ("below-floor", "innodb_flush_log_at_trx_commit", 3)
    assert finding.hint is not None
    assert finding.hint.startswith("innodb_flush_log_at_trx_commit = 1")
    assert below(checked, "my.cnf", MYSQL57, Storage(), Floor.SECOND) == ()


def test_a_default_below_a_floor_is_told_of_the_file() -> None:
    (finding,) = below(of("[mysqld]\nlog_bin\n", MARIADB1011), "my.cnf", MARIADB1011, Storage(), Floor.STRICT)
    assert finding.place == "my.cnf"
    assert finding.text == "is 0 by default, which keeps the file below the floor strict"


@pytest.mark.parametrize(
    ("line", "server", "kind", "hint"),
    [
        ("innodb_checksums = ON", MYSQL80, "removed", "innodb_checksum_algorithm"),
        ("innodb_log_file_size = 1G", MYSQL97, "removed", "innodb_redo_log_capacity"),
        ("binlog_commit_wait_usec = 5", MYSQL80, "not-in-version", "binlog_group_commit_sync_delay"),
        ("innodb_data_file_buffering = ON", MARIADB1011, "not-in-version", "innodb_flush_method"),
        ("replica_preserve_commit_order", MYSQL57, "not-in-version", "slave_preserve_commit_order"),
        ("query_cache_size = 1M", MYSQL80, "removed", None),
        ("innodb_ft_enable_stopwords = 1", MYSQL80, "misspelled", "innodb_ft_enable_stopword"),
    ],
)
def test_a_name_of_other_versions_says_where_it_lives_and_what_to_write(
    line: str, server: ServerIdentity, kind: str, hint: str | None
) -> None:
    finding = only(line, server)
    assert finding.kind == kind
    assert finding.fatal
    assert (finding.hint or "").find(hint or "") >= 0


@pytest.mark.parametrize("server", [MARIADB1011, MARIADB118, MARIADB123], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "line", ["innodb_log_files_in_group = 4", "binlog_order_commits", "thread_concurrency = 8"]
)
def test_what_mariadb_takes_and_does_nothing_with_does_not_stop_it(line: str, server: ServerIdentity) -> None:
    finding = only(line, server)
    assert (finding.severity, finding.fatal) == ("warning", False)
    assert "accepts and ignores it" in finding.text
    assert of(f"[mysqld]\n{line}\n", server).settings == {}


def test_a_variable_that_is_no_option_says_how_to_set_it() -> None:
    finding = only("foreign_key_checks = 0", MYSQL80)
    assert (finding.kind, finding.fatal) == ("unknown-name", True)
    assert finding.hint == "set it with SET GLOBAL, after every restart"


def test_options_of_plugins_are_only_noted_and_count_for_what_is_guaranteed() -> None:
    checked = of("[mysqld]\nrpl_semi_sync_master_enabled = 1\nvalidate_password.policy = LOW\n", MYSQL80)
    assert [(one.kind, one.severity, one.fatal) for one in checked.findings] == [
        ("plugin", "note", False)
    ] * 2
    assert checked.guarantees(MYSQL80, Storage()).replication.level == "unknown"


@pytest.mark.parametrize("name", ["audit_log_policy", "rpl_semi_sync_source_enabled", "validate_password"])
def test_a_loose_option_of_a_plugin_is_never_refused(name: str) -> None:
    loose, plain = only(f"loose_{name} = 1", MYSQL57), only(f"{name} = 1", MYSQL57)
    assert "it takes effect only" in loose.text and loose.text.endswith("else the server passes over it")
    assert "the server accepts it only" in plain.text and "loose_" in (plain.hint or "")


def test_a_loose_name_that_the_server_lacks_does_not_stop_it() -> None:
    checked = of("[mysqld]\nloose_innodb_redo_log_capacity = 1G\n", MYSQL57)
    assert [(one.kind, one.severity) for one in checked.findings] == [("not-in-version", "warning")]
    assert checked.starts


@pytest.mark.parametrize("server", [MYSQL80, msgspec.structs.replace(MARIADB1011, version=(11, 4, 5))])
def test_capitals_in_a_name_are_a_mistake_on_mysql_and_mariadb_11_4_5(server: ServerIdentity) -> None:
    finding = only("Sync-Binlog = 1", server)
    assert (finding.kind, finding.fatal, finding.hint) == ("misspelled", True, "write sync-binlog")
    assert of("[mysqld]\nSync-Binlog = 1\n", MARIADB1011).settings == {"sync_binlog": 1}


def test_mariadb_takes_the_beginning_of_a_name_and_mysql_does_not() -> None:
    line = "innodb_flush_log_at_trx = 2"
    checked = of(f"[mysqld]\n{line}\n", MARIADB1011)
    assert [one.kind for one in checked.findings] == ["abbreviated"]
    assert checked.settings == {"innodb_flush_log_at_trx_commit": 2}
    assert only(line, MYSQL57).kind in ("misspelled", "unknown-name")


def test_a_name_that_only_a_newer_server_may_know_is_a_caveat_not_an_error() -> None:
    finding = only("innodb_shiny_new_thing = 1", MARIADB123)
    assert (finding.kind, finding.severity, finding.fatal) == ("unknown-name", "warning", False)


def test_the_build_itself_knows_better_than_the_lists() -> None:
    told = HelpText(names=frozenset({"frobnicate"}), values={})
    assert of("[mysqld]\nfrobnicate = 1\n", known=told).findings == ()


@pytest.mark.parametrize(
    ("text", "server", "name", "fatal"),
    [
        ("log_bin\n", MYSQL57, "log_bin", True),
        ("gtid_mode = ON\n", MYSQL57, "gtid_mode", True),
        ("server_id_bits = 0\n", MYSQL80, "server_id_bits", True),
        ("server_id_bits = 3\nserver_id = 9\n", MYSQL57, "server_id_bits", True),
        ("innodb_buffer_pool_instances = 4\n", MYSQL57, "innodb_buffer_pool_instances", False),
        (
            "binlog_commit_wait_count=5\nbinlog_commit_wait_usec=0\n",
            MARIADB1011,
            "binlog_commit_wait_count",
            False,
        ),
        (
            "log_bin\nbinlog_format = STATEMENT\ntransaction_isolation = READ-COMMITTED\n",
            MARIADB1011,
            "binlog_format",
            False,
        ),
    ],
)
def test_settings_that_cannot_both_hold_are_named(
    text: str, server: ServerIdentity, name: str, fatal: bool
) -> None:
    finding = only(text, server)
    assert (finding.kind, finding.name, finding.fatal) == ("contradiction", name, fatal)


@pytest.mark.parametrize("server", [MYSQL57, MYSQL80, MYSQL97], ids=lambda one: one.name)
def test_what_needs_a_binary_log_has_no_effect_without_one(server: ServerIdentity) -> None:
    text = "[mysqld]\nskip_log_bin\nbinlog_format = ROW\nlog_slave_updates = ON\n"
    found = [one.name for one in of(text, server).findings if one.kind == "contradiction"]
    assert found == ["binlog_format", "log_slave_updates"]


def test_galera_needs_a_binlog_format_without_a_binary_log() -> None:
    assert of("[mysqld]\nskip_log_bin\nbinlog_format = ROW\n", MARIADB1011).findings == ()


def test_what_the_server_puts_in_place_of_a_contradiction_counts() -> None:
    text = "[mysqld]\ninnodb_io_capacity=4000\ninnodb_io_capacity_max=2000\ninnodb_buffer_pool_instances=4\n"
    assert of(text, MYSQL57).settings == {
        "innodb_io_capacity": 2000,
        "innodb_io_capacity_max": 2000,
        "innodb_buffer_pool_instances": 1,
    }


def test_two_ways_to_size_the_redo_log_say_which_one_wins() -> None:
    server = ServerIdentity(flavor="mysql", version=(8, 0, 36), version_text="8.0.36")
    text = "[mysqld]\ninnodb_log_file_size = 1G\ninnodb_redo_log_capacity = 2G\n"
    found = {one.kind: one for one in of(text, server).findings}
    assert found.keys() == {"deprecated", "contradiction"}
    assert found["contradiction"].name == "innodb_log_file_size"
    assert "innodb_redo_log_capacity" in found["contradiction"].text


def test_the_flush_method_beside_mariadbs_booleans_is_a_contradiction() -> None:
    text = "[mysqld]\ninnodb_flush_method = O_DIRECT\ninnodb_log_file_buffering = ON\n"
    kinds = {(one.kind, one.name) for one in of(text, MARIADB118).findings}
    assert kinds == {("deprecated", "innodb_flush_method"), ("contradiction", "innodb_flush_method")}


def test_the_last_of_several_values_wins_and_options_that_add_up_are_no_duplicates() -> None:
    checked = of("[mysqld]\nsync_binlog=1\nsync-binlog=5\nreplicate_do_db=a\nreplicate_do_db=b\n")
    (finding,) = checked.findings
    assert (finding.kind, finding.line, finding.severity) == ("duplicate", 2, "warning")
    assert checked.settings["sync_binlog"] == 5


def test_overriding_in_an_included_file_is_only_noted() -> None:
    def loader(target: str, directory: bool) -> Iterable[tuple[str, str]]:
        return [("/b.cnf", "[mysqld]\nsync_binlog = 7\n")]

    checked = check("[mysqld]\nsync_binlog=1\n!include /b.cnf\n", MYSQL80, path="a.cnf", loader=loader)
    finding, included = checked.findings
    assert included.kind == "include"
    assert (finding.kind, finding.severity, finding.place) == ("duplicate", "note", "a.cnf:2")
    assert "/b.cnf:2" in finding.text
    assert checked.lines["sync_binlog"] == ("/b.cnf", 2)


def test_files_that_include_each_other_end() -> None:
    checked = check("!include /a", MYSQL80, loader=lambda target, _: [(target, "!include /a")])
    assert [(one.kind, one.severity, one.path) for one in checked.findings] == [
        ("include", "note", "my.cnf"),
        ("include", "note", "/a"),
        ("include", "error", "/a"),
    ]


@pytest.mark.parametrize("line", ["!include /no/file", "!includedir /no/directory"])
def test_what_is_included_may_be_where_the_server_runs_so_its_absence_here_is_a_warning(line: str) -> None:
    (finding,) = of(f"{line}\n").findings
    assert (finding.kind, finding.severity, finding.fatal) == ("include", "warning", False)


def test_a_directory_that_the_server_lacks_too_stops_it_and_a_file_does_not() -> None:
    assert "does not start" in of("!includedir /no/directory\n").findings[0].text
    assert "continues without it" in of("!include /no/file\n").findings[0].text


def test_a_group_of_another_version_or_flavor_is_no_mistake() -> None:
    text = "[mysqld-8.0]\nsync_binlog=1\n[mariadb]\nsync_binlog=1\n"
    assert of(text, MYSQL57).findings == ()
    assert [one.kind for one in of("[mysqd]\nsync_binlog = 1\n").findings] == ["wrong-group"]


INSTANCES = "[mysqld]\nsync_binlog=1\n[mysqld@s1]\nsync_binlog=0\nport=1\n[mysqld1]\nsync_binlog=5\n"


def test_a_group_of_an_instance_is_noted_once_and_not_moved_to_all() -> None:
    findings = check(INSTANCES, MYSQL80).findings
    assert [(one.kind, one.severity, one.line) for one in findings] == [
        ("instance", "note", 3),
        ("instance", "note", 6),
    ]
    assert [(one.hint or "").rpartition("=")[2] for one in findings] == ["@s1", "1"]


@pytest.mark.parametrize(
    ("suffix", "syncs", "others"), [("@s1", 0, 1), ("@S1", 0, 1), ("1", 5, 1), ("", 1, 2)]
)
def test_a_file_is_checked_as_one_instance(suffix: str, syncs: int, others: int) -> None:
    checked = check(INSTANCES, MYSQL80, suffix=suffix)
    assert checked.settings["sync_binlog"] == syncs
    assert sum(one.kind == "instance" for one in checked.findings) == others


def test_an_instance_that_the_file_does_not_have_is_a_caveat() -> None:
    findings = check(INSTANCES, MYSQL80, suffix="@s2").findings
    assert [one.text for one in findings if one.severity == "warning"] == [
        "the file has no group that ends in @s2"
    ]


@pytest.mark.parametrize(
    ("suffix", "text", "hint"),
    [
        ("s1", INSTANCES, "did you mean @s1?"),
        ("mysqld@s1", INSTANCES, "did you mean @s1?"),
        ("@replica", INSTANCES, "the file has groups for @s1, 1"),
        ("@s1", "[mysqld]\nport=1\n", "[mysqld@s1] is one"),
    ],
)
def test_an_instance_that_the_file_does_not_have_is_told_which_it_has(
    suffix: str, text: str, hint: str
) -> None:
    findings = check(text, MYSQL80, suffix=suffix).findings
    assert [one.hint for one in findings if one.severity == "warning"] == [hint]


def test_a_group_of_an_instance_without_options_is_one() -> None:
    assert check("[mysqld@s1]\n", MYSQL80, suffix="@s1").findings == ()


@pytest.mark.parametrize("group", ["mysqldump", "mysqld_safe", "mysqld_multi", "mariadb-dump", "mysql"])
def test_a_group_of_another_program_is_no_instance(group: str) -> None:
    (finding,) = check(f"[{group}]\nsync_binlog=1\n", MARIADB1011).findings
    assert finding.kind == "wrong-group"


def test_values_of_other_options_that_the_build_adjusts_are_told() -> None:
    checked = of("[mysqld]\nback_log = 100000\nsort_buffer_size = 1M\nmax_connections = 99999999\n")
    assert list(arguments(checked).values()) == ["--back-log=100000", "--sort-buffer-size=1M"]
    told = HelpText(names=frozenset(), values={"back_log": "65535", "sort_buffer_size": "1048576"})
    (finding,) = adjusted(checked, told, "")
    assert (finding.name, finding.line, finding.kind) == ("back_log", 2, "rounded")
    assert "65535" in finding.text
    complaint = "[Warning] option 'back_log': unsigned value 100000 adjusted to 65535"
    assert adjusted(checked, told, complaint)[0].kind == "out-of-range"


def test_mysqls_buffer_pool_grows_to_whole_chunks() -> None:
    checked = of("[mysqld]\ninnodb_buffer_pool_size = 200M\n", MYSQL57)
    assert checked.settings["innodb_buffer_pool_size"] == 256 << 20
    assert [one.kind for one in checked.findings] == ["rounded"]
    assert of("[mysqld]\ninnodb_buffer_pool_size = 200M\n", MARIADB1011).findings == ()
    assert of("[mysqld]\ninnodb_buffer_pool_size = 3G\n", MYSQL80).findings == ()
    small = of("[mysqld]\ninnodb_buffer_pool_size = 64M\n", MYSQL80)
    assert small.settings["innodb_buffer_pool_size"] == 64 << 20


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "text",
    [
        "[mysqld]\nInnodb_doublewrite = OFF\n",
        "innodb_doublewrite = OFF\n",
        "[MYSQLD]\nskip-innodb-doublewrite\n",
    ],
)
def test_a_file_is_judged_by_the_worst_that_it_means_once_it_is_mended(
    text: str, server: ServerIdentity
) -> None:
    checked = of(text, server)
    assert checked.guarantees(server, Storage()).torn_page.level == "at_risk"
    assert level(checked.guarantees(server, Storage())) is Floor.THROWAWAY


def test_where_a_file_puts_its_logs_counts() -> None:
    for line in ("innodb_log_group_home_dir = /dev/shm/redo", "log_bin = /dev/shm/binlog/mysql-bin"):
        checked = of(f"[mysqld]\n{line}\n")
        assert level(checked.guarantees(MYSQL80, Storage())) is Floor.THROWAWAY
    assert (
        level(of("[mysqld]\nlog_bin = /var/log/mysql/bin\n").guarantees(MYSQL80, Storage())) is Floor.STRICT
    )


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "line", ["max_connections=abc", "port=abc", "event_scheduler=maybe", "thread_cache_size=x", "ansi=1"]
)
def test_values_that_servers_refuse_are_refused_whatever_enters_a_sandbox(
    line: str, server: ServerIdentity
) -> None:
    assert not of(f"[mysqld]\n{line}\n", server).starts


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_a_switch_of_another_product_is_off_and_that_is_reported(server: ServerIdentity) -> None:
    finding = only("read_only={TrueIfReplica}", server)
    assert (finding.kind, finding.fatal) == ("wrong-type", False)
    assert "the server takes it for OFF" in finding.text


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_what_servers_take_generously_starts(server: ServerIdentity) -> None:
    lines = (
        "max_connections=many\nenable-max-connections\nloose-skip-max_connections\nevent_scheduler=disab\n"
    )
    assert of(f"[mysqld]\n{lines}log_output=1\nlog_output=file,table\n", server).starts


@pytest.mark.parametrize("name", ["clone", "auth_socket", "group_replication", "connection_control"])
@pytest.mark.parametrize("value", ["ON", "off", "FORCE", "FORCE_PLUS_PERMANENT"])
def test_an_option_that_loads_a_plugin_is_no_misspelled_one(name: str, value: str) -> None:
    alone = only(f"{name} = {value}", MYSQL97)
    assert (alone.kind, alone.severity) == ("plugin", "note")
    library = "mysql_clone.so" if name == "clone" else f"{name}.so"
    assert of(f"[mysqld]\nplugin-load-add={library}\n{name}={value}\n", MYSQL97).findings == ()


def test_an_option_that_loads_a_plugin_takes_few_values() -> None:
    assert not of("[mysqld]\nplugin_load_add=mysql_clone.so\nclone=maybe\n", MYSQL97).starts
    assert of("[mysqld]\nplugin_load_add=mysql_clone.so\nskip-clone\n", MYSQL97).starts


def test_the_native_password_plugin_is_built_into_8_4_and_gone_from_9() -> None:
    text = "[mysqld]\nmysql_native_password = ON\n"
    eight = ServerIdentity(flavor="mysql", version=(8, 4, 9), version_text="8.4.9")
    assert of(text, eight).findings == ()
    assert not of(text, MYSQL97).starts


@pytest.mark.parametrize(
    ("name", "server", "kind", "says"),
    [
        (
            "mysql_native_password",
            MYSQL57,
            "not-in-version",
            "of mysql 5.7.22, but of mysql since 8.4 before 9.0",
        ),
        (
            "mysql_native_password",
            MYSQL80,
            "not-in-version",
            "of mysql 8.0.15, but of mysql since 8.4 before 9.0",
        ),
        ("mysql_native_password", MYSQL97, "removed", "was removed in mysql 9.0"),
        ("mysql_native_password", MARIADB1011, "not-in-version", "but of mysql since 8.4 before 9.0"),
        ("daemon_memcached", MYSQL97, "removed", "was removed in mysql 8.3"),
        ("keyring_file", MYSQL97, "removed", "was removed in mysql 8.4"),
        ("authentication_fido", MYSQL57, "not-in-version", "but of mysql since 8.0.27 before 8.4"),
        ("skip_mysql_native_password", MYSQL97, "removed", "was removed in mysql 9.0"),
    ],
)
def test_an_option_that_other_versions_have_for_a_plugin_is_no_misspelled_one(
    name: str, server: ServerIdentity, kind: str, says: str
) -> None:
    found = only(f"{name} = ON", server)
    assert (found.kind, found.fatal) == (kind, True)
    assert says in found.text


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_an_engine_that_the_server_lacks_stops_it(server: ServerIdentity) -> None:
    assert not of("[mysqld]\ndefault_storage_engine=Foo\n", server).starts
    assert of("[mysqld]\ndefault_storage_engine=MyISAM\n", server).starts


@pytest.mark.parametrize(
    ("line", "server", "name", "argument"),
    [
        ("innodb-redo-log-capacity = 96M", MYSQL57, "innodb_redo_log_capacity", None),
        ("innodb-redo-log-capacity = 96M", MARIADB1011, "innodb_redo_log_capacity", None),
        ("loose_skip_foo", MARIADB1011, "", ""),
        ("skip_foo", MARIADB1011, "skip_foo", "--skip_foo"),
        ("sort_buffer_size", MYSQL80, "sort_buffer_size", None),
        ("Sync_Binlog=7", MYSQL80, "sync_binlog", None),
        ("sync_binlog=x\nsync_binlog=1", MYSQL80, "sync_binlog", "--sync_binlog=x"),
        ("foo: bar # c", MYSQL80, "foo", "--foo: bar"),
        ("master_password = s3cret", MYSQL80, "master_password", ""),
        ("plugin-load-ad = /tmp/x", MYSQL80, "plugin_load_ad", ""),
    ],
)
def test_a_line_that_stops_the_server_is_given_to_it_as_it_is_written(
    line: str, server: ServerIdentity, name: str, argument: str | None
) -> None:
    """Without what may be a password or a path."""
    written = f"--{line.replace(' = ', '=')}" if argument is None else argument
    assert of(f"[mysqld]\n{line}\n", server).rejected == ({name: written} if name else {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[mysqld]\n=3\n", "the line is neither NAME nor NAME = VALUE"),
        ("[mysqld]\nfoo: bar\n", "is neither NAME nor NAME = VALUE"),
        ("[client\n[mysqld]\n", "the line is a group without its ]"),
        ("[mysqld]\n!foo\n", "the line is neither !include FILE nor !includedir DIRECTORY"),
        ("[client]\n!include\n", "!include names nothing to include"),
        ("=3\n[mysqld]\n", "the line is outside any group"),
    ],
)
def test_what_a_line_without_a_name_does_is_told_of_the_line(text: str, says: str) -> None:
    assert of(text, MYSQL57).findings[0].text.startswith(says)


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        ("block_encryption_mode=+4", True),
        ("block_encryption_mode=-1", False),
        ("log_output=+3", True),
        ("log_output=8", False),
        ("optimizer_switch=+4", False),
        ("character_set_filesystem=+4", False),
    ],
)
def test_the_place_of_a_member_may_have_a_sign(line: str, starts: bool) -> None:
    assert of(f"[mysqld]\n{line}\n", MYSQL80).starts == starts


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_a_pool_without_a_digit_is_the_smallest(server: ServerIdentity) -> None:
    checked = of("[mysqld]\ninnodb_buffer_pool_size=maybe\n", server)
    assert checked.settings["innodb_buffer_pool_size"] == (2 << 20 if server.flavor == "mariadb" else 5 << 20)


def test_without_innodb_mariadb_needs_another_default_engine() -> None:
    assert not of("[mysqld]\nskip-innodb\n", MARIADB1011).starts
    assert not of("[mysqld]\nskip-innodb\ndefault-storage-engine=InnoDB\n", MARIADB1011).starts
    assert of("[mysqld]\nskip-innodb\ndefault-storage-engine=MyISAM\n", MARIADB1011).starts
    assert of("[mysqld]\nskip-innodb\n", MYSQL80).starts


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_an_engine_without_a_log_keeps_no_floor(engine: str) -> None:
    found = of(f"[mysqld]\ndefault_storage_engine={engine}\n", MARIADB1011)
    kept = found.guarantees(MARIADB1011, Storage())
    assert level(kept) == Floor.THROWAWAY
    assert f"are {engine}" in kept.process_crash.text
    assert "below-floor" in {one.kind for one in below(found, "my.cnf", MARIADB1011, Storage(), Floor.STRICT)}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("loose_innodb_flush_log_at_trx_commit = x", 0),
        ("loose_innodb_flush_log_at_trx_commit = 1.0", 0),
        ("loose_innodb_flush_log_at_trx_commit = -1", 0),
        ("loose_innodb_log_file_size = 1.5G", 4 << 20),  # 0 is told, which is no size of a log
        ("loose_innodb_max_dirty_pages_pct = q", 0.0),
        ("loose_sql_mode = q", ""),
        ("loose_innodb_flush_method = q", None),
        ("loose_binlog_format = q", None),
    ],
)
def test_mariadb_takes_a_wrong_number_behind_loose_for_nought(line: str, value: Value | None) -> None:
    checked = of(f"[mysqld]\n{line}\n", MARIADB1011)
    name = line.partition(" ")[0].removeprefix("loose_")
    assert (checked.starts, checked.settings.get(name)) == (True, value)
    (finding,) = (one for one in checked.findings if one.kind in ("wrong-type", "out-of-range"))
    becomes = "the server keeps the default" if value is None else "the server takes it for"
    assert becomes in finding.text
    kept = level(checked.guarantees(MARIADB1011, Storage()))
    assert kept == (Floor.RELAXED if "at_trx_commit" in line else Floor.STRICT)


@pytest.mark.parametrize(
    "line", ["enable-optimizer-trace=1 0", "enable-optimizer-trace", "skip-optimizer-trace"]
)
@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_a_list_of_flags_is_neither_enabled_nor_disabled(line: str, server: ServerIdentity) -> None:
    assert not of(f"[mysqld]\n{line}\n", server).starts


@pytest.mark.parametrize(
    "name",
    [
        "table_open_cache",
        "table_cache",
        "innodb_buffer_pool_size",
        "innodb_log_buffer_size",
        "innodb_page_size",
        "innodb_purge_threads",
    ],
)
def test_mariadb_does_not_survive_nought_of_some(name: str) -> None:
    assert not of(f"[mysqld]\nloose_{name}=off\n", MARIADB1011).starts


@pytest.mark.parametrize(
    ("line", "server", "starts", "says"),
    [
        ("maximum-sort_buffer_size=1M", MYSQL80, True, "limits sort_buffer_size for sessions"),
        ("maximum-sort_buffer_size=1M", MARIADB1011, True, "limits sort_buffer_size for sessions"),
        ("maximum-sort_buffer_size=off", MYSQL80, False, "takes whole numbers"),
        ("loose-maximum-sort_buffer_size=off", MYSQL80, False, "takes whole numbers"),
        ("loose-maximum-sort_buffer_size=off", MARIADB1011, True, "takes whole numbers"),
        ("maximum-sort_buffer_size", MARIADB1011, False, "has no value"),
        ("maximum-sort_buffer=1M", MARIADB1011, True, "is an abbreviation of sort_buffer_size"),
        ("maximum-inn=1", MARIADB118, False, "is the beginning of"),
        ("maximum-query_cache_size=1", MYSQL97, False, "was removed in mysql 8.0.3"),
        ("innodb_force_load=1", MARIADB118, True, "is an abbreviation of innodb_force_load_corrupted"),
        ("maximum-sql_mode=ANSI", MARIADB1011, True, "limits sql_mode for sessions"),
        ("maximum-sql_mode=ANSI", MYSQL80, False, "has no maximum"),
        ("maximum-max_connections=9", MYSQL97, False, "has no maximum"),
        ("maximum-max_connections=9", MARIADB118, False, "has no maximum"),
        ("loose-maximum-max_connections=9", MYSQL57, False, "has no maximum"),
        ("loose-maximum-max_connections=9", MARIADB1011, True, "has no maximum: the server continues"),
    ],
)
def test_maximum_limits_what_has_a_limit_and_stops_the_server_elsewhere(
    line: str, server: ServerIdentity, starts: bool, says: str
) -> None:
    checked = of(f"[mysqld]\n{line}\n", server)
    assert (checked.starts, checked.settings) == (starts, {})
    assert "sort_buffer_size" not in checked.others
    assert says in checked.findings[0].text


@pytest.mark.parametrize(
    ("text", "taken"), [("dec8,swe7", True), ("x,,swe7", True), ("swe7,", True), ("x,y", False), (",", False)]
)
@pytest.mark.parametrize("server", [MYSQL57, MYSQL80, MYSQL97, MARIADB1011], ids=lambda one: one.name)
def test_the_first_known_one_of_several_character_sets_is_the_servers(
    text: str, taken: bool, server: ServerIdentity
) -> None:
    assert of(f"[mysqld]\ncharacter_set_server={text}\n", server).starts == (taken and server != MYSQL97)
    assert not of(f"[mysqld]\ncharacter_set_filesystem={text}\n", server).starts


def test_what_was_a_plugins_option_may_be_the_beginning_of_the_servers_own() -> None:
    assert not of("[mysqld]\nloose-skip-rpl-semi-sync-slave=a,b\n", MARIADB1011).starts


def test_a_wrong_value_behind_loose_stops_mysql_alone() -> None:
    line = "[mysqld]\nloose-max_connections=abc\nloose-sync_binlog=abc\n"
    assert not of(line, MYSQL80).starts
    found = of(line, MARIADB1011)
    assert found.starts and found.settings == {"sync_binlog": 0}
    assert [one.kind for one in found.findings] == ["wrong-type", "wrong-type"]


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_a_prefix_wins_over_the_value_behind_it(server: ServerIdentity) -> None:
    found = of("[mysqld]\nskip-innodb-file-per-table=OFF\nskip-sync_binlog=OFF\nenable-log-bin=x\n", server)
    assert found.settings == {"innodb_file_per_table": "OFF", "sync_binlog": 0, "log_bin": "ON"}


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_an_empty_number_is_0_on_mariadb_and_stops_mysql(server: ServerIdentity) -> None:
    for line in ("sync_binlog=", "table_open_cache=''", "loose_sync_binlog="):
        assert check(f"[mysqld]\n{line}\n", server).starts == (server.flavor == "mariadb")


def test_port_alone_may_be_empty_on_mysql_5_7() -> None:
    assert check("[mysqld]\nport=\n", MYSQL57).starts
    assert not check("[mysqld]\nport=\n", MYSQL80).starts


@pytest.mark.parametrize(
    "server", [MYSQL57, MYSQL80, MYSQL97, MARIADB1011, MARIADB118], ids=lambda one: one.name
)
def test_a_value_may_be_left_out_where_the_servers_help_has_it_in_brackets(server: ServerIdentity) -> None:
    assert check("[mysqld]\ninnodb_flush_neighbors\n", server).settings["innodb_flush_neighbors"] == 1
    assert not check("[mysqld]\nsync_binlog\n", server).starts
    assert not check("[mysqld]\nloose_sync_binlog\n", server).starts
    assert not check("[mysqld]\ninnodb_buffer_pool_dump_at_shutdown\n", server).starts
    assert check("[mysqld]\ninnodb_buffer_pool_dump_at_shutdown=1\n", server).starts


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        ("skip-bulk-insert_buffer_=1", True),
        ("disable-thread-concurrency=No", True),
        ("innodb-sys-tab=", True),
        ("loose-max_connect=100", True),
        ("log_basename=a.b", False),
        ("collation_server=", False),
        ("r=1", False),
        ("loose-r=1", False),
        ("loose-innodb-=ON", False),
        ("g=1", True),
        ("disable-ge=1M", True),
        ("gen=1", False),
        ("loose-skip-innodb_background_s=TRUE", False),
        ("innodb_lru_flush_size=32", True),
        ("skip-bdb", True),
    ],
)
def test_mariadb_takes_beginnings_behind_prefixes_and_none_that_several_options_have(
    line: str, starts: bool
) -> None:
    assert check(f"[mysqld]\n{line}\n", MARIADB1011 if "sys" in line else MARIADB118).starts == starts


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_switches_are_on_off_or_default_and_members_of_sets_end_before_an_equals_sign(
    server: ServerIdentity,
) -> None:
    assert not check("[mysqld]\noptimizer_switch=mrr\n", server).starts
    assert check("[mysqld]\noptimizer_switch=mrr=on,default\n", server).starts
    assert check("[mysqld]\nlog_output=TABLE=on\n", server).starts


@pytest.mark.parametrize("server", ALL, ids=lambda one: one.name)
def test_a_collation_belongs_to_a_character_set_of_the_server(server: ServerIdentity) -> None:
    assert check("[mysqld]\ncollation_server=latin1_swedish_ci\n", server).starts
    assert not check("[mysqld]\ncollation_server=maybe\n", server).starts


def test_what_is_no_locale_stops_some_servers() -> None:
    found = [
        check("[mysqld]\nlc_time_names=xx\n", one).starts for one in (MYSQL57, MYSQL80, MYSQL97, MARIADB118)
    ]
    assert found == [False, True, True, False]


def test_date_formats_are_read_by_servers_that_have_them() -> None:
    for line, starts in (
        ("date_format=%d.%m.%Y", True),
        ("date_format=off", False),
        ("time_format=%H:%i", False),
    ):
        assert check(f"[mysqld]\n{line}\n", MYSQL57).starts == starts


def test_write_sets_need_their_extraction() -> None:
    line = "[mysqld]\nbinlog_transaction_dependency_tracking=WRITESET\n"
    assert not check(line, MYSQL57).starts
    assert check(f"{line}transaction_write_set_extraction=XXHASH64\n", MYSQL57).starts
    assert check(line, MYSQL80).starts


@pytest.mark.parametrize("server", [MYSQL57, MYSQL80], ids=lambda one: one.name)
def test_an_option_of_a_product_and_of_another_flavor_is_named_with_both(server: ServerIdentity) -> None:
    (told,) = check("[mysqld]\nlog_slow_verbosity=full\n", server).findings
    assert (
        "is an option of Percona Server and mariadb 10.11, mariadb 11.4, mariadb 11.8, not of mysql"
        in told.text
    )


def test_a_long_line_is_one_line_on_newer_mysql() -> None:
    text = f"#{'x' * 5000}\n[mysqld]\n#{'x' * 5000}\nsync_binlog=1\n"
    assert [check(text, one).starts for one in (MYSQL80, MARIADB118, MYSQL97)] == [False, False, True]


def test_ciphers_are_read_at_the_start_of_newer_mysql() -> None:
    wrong, right = "[mysqld]\nssl_cipher=100\n", "[mysqld]\nssl_cipher=ECDHE-RSA-AES128-GCM-SHA256\n"
    assert [check(wrong, one).starts for one in (MYSQL80, MYSQL97)] == [True, False]
    assert check(right, MYSQL97).starts


@pytest.mark.parametrize("line", ["loose-skip-secure-auth", "secure_auth=0", "old_passwords=1"])
def test_the_oldest_passwords_stop_mysql_5_7(line: str) -> None:
    assert not check(f"[mysqld]\n{line}\n", MYSQL57).starts


ROOT = Path(__file__).parents[3]
OTHER_FILES = [*(ROOT / "tests/data/option_files").glob("*.cnf"), *(ROOT / "examples").rglob("*.cnf")]
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: mysql
data:
  my.cnf: |
    [mysqld]
    sync_binlog = 1
"""


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("innodb_buffer_pool_size = {{ mysql_innodb_buffer_pool_size }}", "{{ … }}"),
        ("server_id = {{ .Values.mysql.serverId | default 1 }}", "{{ … }}"),
        ("{{- with .Values.extra }}", "{{ … }}"),
        ("{% if mysql_slow_query_log %}", "{% … %}"),
        ("port = <%= @port %>", "<% … %>"),
        ("<% if $mysql::slow_log { -%>", "<% … %>"),
        ("port = ${MYSQL_PORT:-3306}", "${…}"),
        ("server-id=$(SERVER_ID)", "$(…)"),
        ('server_id = "$SERVER_ID"', "$NAME"),
        ("basedir=@MYSQL_PREFIX@", "@NAME@"),
        ("datadir = %DATA_DIR%", "%NAME%"),
    ],
)
def test_a_template_is_told_in_one_line_by_its_first_mark(line: str, form: str) -> None:
    text = f"# {{{{ ansible_managed }}}}\n[mysqld]\n{line}\n" + "port = {{ mysql_port }}\n" * 57
    assert unusable(text) == (f"is a template: line 3 has {form}", "give the rendered file")


@pytest.mark.parametrize(
    "text", [CONFIG_MAP, "---\nmysql:\n  port: 3306\n", "services:\n  db:\n    image: mysql\n"]
)
def test_yaml_is_not_an_option_file(text: str) -> None:
    says, hint = unusable(f"# values\n\n{text}") or ("", "")
    assert says == "is YAML, not an option file"
    assert hint == "write the options inside it to an option file, under [mysqld], and give that"


def test_json_is_not_an_option_file() -> None:
    assert (unusable('{"sync_binlog": 1}') or ("",))[0] == "is JSON, not an option file"


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_and_variables_in_it_are_read(coding: str) -> None:
    text = "[mysqld]\n# Größe\ninnodb_buffer_pool_size = 1G\n".encode(coding).decode(errors="replace")
    assert (unusable(text) or ("",))[0] == "is UTF-16, which no server reads"
    said = "Variable_name\tValue\nsync_binlog\t1\nversion\t8.0.36\n".encode(coding).decode(errors="replace")
    dump = read_dump(said)
    assert dump is not None and dump.variables == {"sync_binlog": "1", "version": "8.0.36"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# {{ ansible_managed }}\n[mysqld]\nport = 3306\n",
        "[client]\npassword = $ecret{1}\n[mysqld]\ninit_connect = 'SET @a = 1'\n",
        "[mysqld]\nport: 3306\n",
        "sync_binlog = 1\n",
        "[mysqld]\nport = 1\n" + "\0" * 4096,
        *(file.read_text() for file in OTHER_FILES),
    ],
)
def test_an_option_file_is_one_with_whatever_mistakes(text: str) -> None:
    assert unusable(text) is None


def test_a_byte_order_mark_stops_every_server_and_is_told_once() -> None:
    for identity in (MYSQL57, MYSQL97, MARIADB118):
        (finding,) = check("\ufeff[mysqld]\nsync_binlog = 1\n", identity).findings
        assert finding.text == "the line begins with a byte order mark"
        assert (finding.line, finding.fatal) == (1, True)


@pytest.mark.parametrize(
    ("text", "fgets", "getline"),
    [
        ("# a\0b\nport=7\n", ["--port=7"], []),
        ("port=7\0\nsocket=/x\n", ["--port=7", "--socket=/x"], ["--port=7socket=/x"]),
        ("\0\nport=7\n", ["--port=7"], []),
        ("port=7\n\0\0\0\0\nport=8\n", ["--port=7", "--port=8"], ["--port=7"]),
        ("po\0rt=7\n\0\nport=8\n", ["--po", "--port=8"], ["--po", "--port=8"]),
        ("port=7\n\0\0\0", ["--port=7"], ["--port=7"]),
        ("port=7\0", ["--port=7"], ["--port=7"]),
    ],
)
def test_a_nul_byte_ends_a_line_or_joins_it_to_the_next_one(
    text: str, fgets: list[str], getline: list[str]
) -> None:
    """As MySQL 5.7.22 and MariaDB 11.8.9, and MySQL 9.7.4, print it with --print-defaults."""
    for whole, given in ((False, fgets), (True, getline)):
        found = list(lines(f"[mysqld]\n{text}", "my.cnf", whole=whole))
        assert [one.argument for one in found if one.argument] == given
        assert any("NUL byte" in one.problem for one in found)


def test_a_last_line_without_its_end_is_whole() -> None:
    found = list(lines("[mysqld]\n#\0\nport=7\nport=8", "my.cnf", whole=True))
    assert [one.line for one in found if "NUL byte" in one.problem] == [2]
    (told,) = lines("# a\0b\nport=7", "my.cnf", whole=True)
    assert "NUL byte" in told.problem


def test_carriage_returns_and_tabs_are_blanks() -> None:
    text = "\t[mysqld]\t\r\n\tsync_binlog\t=\t7\t\r\n"
    checked = check(text, MYSQL80)
    assert (checked.settings, checked.findings) == ({"sync_binlog": 7}, ())


def test_an_included_template_is_one_finding() -> None:
    template = "[mysqld]\n" + "port = {{ port }}\n" * 9
    found = check("!includedir /d\n", MYSQL80, loader=lambda *_: [("/d/a.cnf", template)]).findings
    told = [one.text for one in found if one.severity == "error"]
    assert told == ["is a template: line 2 has {{ … }}"]


def test_includes_name_what_was_read_and_where() -> None:
    names = [f"/etc/mysql/conf.d/{number}.cnf" for number in range(9)]
    text = "!includedir /etc/mysql/conf.d/\n!include extra.cnf\n"
    checked = check(text, MYSQL80, loader=lambda _, directory: [(name, "") for name in names if directory])
    folder, file, relative = checked.findings
    assert folder.text == (
        "/etc/mysql/conf.d/ was read on this machine: 0.cnf, 1.cnf, 2.cnf, 3.cnf, 4.cnf, 5.cnf and 3 more"
    )
    assert (file.text, file.severity) == ("extra.cnf was read on this machine", "note")
    assert (relative.hint, relative.severity) == ("write the whole path", "warning")


def parsed(given: dict[str, Value], nodes: int | None) -> dict[str, Value]:
    return parse_settings(given, "mariadb", (10, 11, 6), nodes=nodes)


@pytest.mark.parametrize(
    ("name", "value", "nodes", "why"),
    [
        ("gcs.fc_limit", 64, 1, "gcs.fc_limit acts on a cluster only: add --cluster 3"),
        ("innodb-autoinc-lock-mode", 1, 3, "innodb_autoinc_lock_mode was set to 1, and Galera needs 2"),
        ("binlog_format", "statement", 3, "binlog_format was set to STATEMENT, and Galera needs ROW"),
    ],
)
def test_what_has_no_place_on_so_many_nodes_is_refused(name: str, value: Value, nodes: int, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed({name: value}, nodes)
    assert (caught.value.message, caught.value.hint) == (why, f"remove {name}")


def test_what_galera_needs_may_be_said() -> None:
    assert parsed({"innodb_autoinc_lock_mode": 2, "gcs.fc_limit": 64}, 3)
    assert parsed({"innodb_autoinc_lock_mode": 1}, 1)
    assert parsed({"innodb_autoinc_lock_mode": 1, "gcs.fc_limit": 64}, None), "nobody knows where it goes"
