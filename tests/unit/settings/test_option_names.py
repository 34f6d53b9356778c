from __future__ import annotations

import re
import runpy
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest

from flushlab.record import ServerIdentity, Value
from flushlab.record.machine import Flavor
from flushlab.settings.admission import PLUGIN
from flushlab.settings.catalog import load_catalog
from flushlab.settings.check import check
from flushlab.settings.option_names import (
    OptionNames,
    OptionShape,
    Release,
    load_option_names,
    load_option_shapes,
    product_of,
    read_help,
    setting_of,
    shape_of,
)
from tests.unit.settings.servers import MARIADB118, MARIADB1011, MYSQL57, MYSQL80, MYSQL84, MYSQL97, server

_SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "option_names.py"))
listed, render, read_ignored = (_SCRIPT[name] for name in ("listed", "render", "read_ignored"))
OLD, NEW = Release("mysql", (5, 7, 22)), Release("mysql", (8, 0, 15))
OTHER = Release("mariadb", (10, 11, 19))
NAMES = OptionNames(
    (OLD, NEW, OTHER),
    {
        "both": frozenset({OLD, NEW}),
        "gone": frozenset({OLD}),
        "new": frozenset({NEW}),
        "odd": frozenset({OTHER}),
    },
)


def test_a_listed_release_is_known_exactly() -> None:
    assert NAMES.knows("gone", "mysql", (5, 7, 22)) is True
    assert NAMES.knows("gone", "mysql", (8, 0, 15)) is False
    assert NAMES.knows("odd", "mysql", (8, 0, 15)) is False


def test_a_release_between_two_has_what_both_have_and_lacks_what_neither_has() -> None:
    between = (8, 0, 3)
    assert NAMES.knows("both", "mysql", between) is True
    assert NAMES.knows("odd", "mysql", between) is False
    assert NAMES.knows("gone", "mysql", between) is None
    assert NAMES.knows("new", "mysql", between) is None


def test_a_release_after_all_may_have_anything() -> None:
    assert NAMES.knows("new", "mysql", (9, 0, 0)) is True
    assert NAMES.knows("whatever", "mysql", (9, 0, 0)) is None


def test_where_and_near_name_what_there_is() -> None:
    assert NAMES.where("both") == "mysql 5.7, mysql 8.0"
    assert NAMES.where("nowhere") == ""
    assert NAMES.near("boths", "mysql", (8, 0, 15)) == "both"
    assert NAMES.near("gones", "mysql", (8, 0, 15)) is None
    assert NAMES.starting_with("ne", "mysql", (8, 0, 15)) == ("new",)


def test_a_release_ignores_what_the_one_before_it_ignores() -> None:
    names = OptionNames((OLD, NEW), {"new": frozenset({NEW})}, {"old": frozenset({NEW})})
    assert names.ignores("old", "mysql", (8, 0, 36))
    assert not names.ignores("old", "mysql", (8, 0, 3))
    assert not names.ignores("new", "mysql", (8, 0, 36))
    assert names.where("old") == ""
    assert names.names() == {"new", "old"}


def test_the_packaged_list_is_rendered_as_it_was_read() -> None:
    known = load_option_names()
    assert len(known.releases) >= 5
    assert known.knows("innodb_flush_log_at_trx_commit", "mysql", (5, 7, 22))
    text = render(
        {release: known.of(release) for release in known.releases},
        listed(known.ignorers),
        listed(known.limited),
    )
    assert text == (resources.files("flushlab.settings") / "option_names.txt").read_text(encoding="utf-8")


def test_a_release_older_than_all_that_are_listed_ignores_what_the_first_one_does() -> None:
    known = load_option_names()
    assert known.ignores("innodb_buffer_pool_instances", "mariadb", (10, 6, 26))
    assert not known.ignores("innodb_flush_log_at_trx_commit", "mariadb", (10, 6, 26))
    assert not known.ignores("frobnicate", "mariadb", (10, 6, 26))


def test_mariadb_says_which_options_do_nothing() -> None:
    said = (
        "2026-01-01 [Warning] 'innodb-page-cleaners' was removed. It does nothing now and exists only for"
        " compatibility with old my.cnf files.\n"
        "2026-01-01 [Warning] 'log-raw' is MySQL 5.6 / 5.7 compatible option. Not used.\n"
        "2026-01-01 [Warning] unknown variable 'loose-frobnicate=1'\n"
    )
    assert read_ignored(said) == {"innodb_page_cleaners", "log_raw"}


def test_help_text_gives_options_and_the_values_that_were_read() -> None:
    told = read_help(
        "mysqld  Ver 8.0.15\n\nUsage: mysqld [OPTIONS]\n\n"
        "  -b, --basedir=name  Path to installation directory.\n"
        "  --innodb-io-capacity=# \n                      Number of IOPs\n"
        "  --log-bin[=name]    Configures the name prefix\n\n"
        "Variables (--variable-name=value)\n"
        "and boolean options {FALSE|TRUE}                             Value (after reading options)\n"
        "------------------------------------------------------------ -------------\n"
        "basedir                                                      /usr/\n"
        "innodb-io-capacity                                           200\n"
        "log-bin                                                      (No default value)\n\n"
        "To see what values a running MySQL server is using, type\n"
    )
    assert told.names == {"basedir", "innodb_io_capacity", "log_bin"}
    assert told.values == {"basedir": "/usr/", "innodb_io_capacity": "200", "log_bin": "(No default value)"}


@pytest.mark.parametrize(
    ("word", "value", "setting"),
    [
        ("skip-log-bin", None, ("log_bin", "OFF")),
        ("skip_log_bin", "1", ("log_bin", "OFF")),
        ("skip_log_bin", "0", ("log_bin", "ON")),
        ("disable-innodb-doublewrite", None, ("innodb_doublewrite", "OFF")),
        ("enable-log-bin", None, ("log_bin", "ON")),
        ("loose-skip-log-bin", None, ("log_bin", "OFF")),
        ("log-bin", None, ("log_bin", "ON")),
        ("innodb_file_per_table", None, ("innodb_file_per_table", "ON")),
        ("skip-sync-binlog", None, ("sync_binlog", 0)),
        ("skip-performance-schema", None, ("performance_schema", "OFF")),
        ("skip-name-resolve", None, ("skip_name_resolve", "ON")),
        ("loose_sync_binlog", "1", ("sync_binlog", "1")),
        ("log-bin", "/var/log/mysql/bin", ("log_bin", "/var/log/mysql/bin")),
        ("sync_binlog", None, ("sync_binlog", None)),
        ("skip_foo", None, ("skip_foo", None)),
        ("skip_foo", "1", ("skip_foo", "1")),
    ],
)
def test_an_option_stands_for_a_setting_as_the_servers_take_it(
    word: str, value: Value | None, setting: tuple[str, Value | None]
) -> None:
    assert setting_of(word, value) == setting


@pytest.mark.parametrize("text", ["enumeration?:OFF,ON", "signed", "text?", "boolean?:OFF"])
def test_a_shape_is_read_as_it_is_written(text: str) -> None:
    assert str(OptionShape.parse(text)) == text


def test_between_two_releases_an_option_takes_the_values_of_both() -> None:
    older, newer = OptionShape.parse("enumeration:A,B"), OptionShape.parse("enumeration:B,C")
    shapes = {Release("mysql", (5, 7)): {"x": older}, Release("mysql", (9, 7)): {"x": newer}}
    between = shape_of("x", "mysql", (8, 0), shapes)
    assert between is not None and set(between.values) == {"A", "B", "C"}
    assert shape_of("x", "mysql", (5, 7), shapes) == older
    assert shape_of("x", "mariadb", (10, 11), shapes) is None


def test_between_releases_that_differ_in_kind_nothing_is_known() -> None:
    shapes = {
        Release("mysql", (5, 7)): {"x": OptionShape.parse("signed")},
        Release("mysql", (9, 7)): {"x": OptionShape.parse("text")},
    }
    assert shape_of("x", "mysql", (8, 0), shapes) is None


def test_the_packaged_list_has_shapes_for_every_server() -> None:
    assert all(len(shapes) > 400 for shapes in load_option_shapes().values())


@pytest.mark.parametrize(("text", "fatal"), [("", True), ("0", True), ("16384", True), ("1M", False)])
def test_a_session_of_mariadb_10_that_may_use_too_little_memory_ends_the_server(
    text: str, fatal: bool
) -> None:
    checked = check(f"[mysqld]\nmax_session_mem_used={text}\n", MARIADB1011)
    assert checked.starts is not fatal


PACKAGED, CATALOG = load_option_names(), load_catalog()
MYSQL56 = server("mysql", 5, 6, 51)
MYSQL8046 = server("mysql", 8, 0, 46)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_every_option_that_a_later_release_lacks_is_listed_or_catalogued(flavor: str) -> None:
    own = [release for release in PACKAGED.releases if release.flavor == flavor]
    missing = [
        (older.series, newer.series, name)
        for place, (older, newer) in enumerate(pairwise(own), 2)
        for name in PACKAGED.of(older) - PACKAGED.of(newer).union(*map(PACKAGED.of, own[place:]))
        if newer not in PACKAGED.ignorers.get(name, ())
        and name not in PACKAGED.removals
        and name not in CATALOG
        and not name.startswith("wsrep_")
    ]
    assert missing == []


def test_no_release_takes_an_option_after_its_end() -> None:
    late = [
        (name, release.series)
        for name, removal in PACKAGED.removals.items()
        for release in PACKAGED.releases
        if name in PACKAGED.of(release) and release.version >= removal.since.get(release.flavor, (99,))
    ]
    assert late == []


def test_what_takes_the_place_of_an_option_is_an_option_of_some_server() -> None:
    named = {one.partition("=")[0] for gone in PACKAGED.removals.values() for one in gone.successors}
    plugins = {one for one in named if PLUGIN.match(one)}
    unknown = {one for one in named - plugins if not {one, one.removeprefix("skip_")} & PACKAGED.names()}
    assert unknown == set()


@pytest.mark.parametrize(
    ("line", "identity", "says", "hint"),
    [
        ("table_cache = 400", MYSQL80, "was removed in mysql 5.6", "write table_open_cache"),
        ("table_cache = 400", MYSQL57, "was removed in mysql 5.6", "write table_open_cache"),
        ("thread_concurrency = 8", MYSQL57, "was removed in mysql 5.7.2", "remove the line"),
        ("thread_concurrency = 8", MYSQL8046, "was removed in mysql 5.7.2", "remove the line"),
        ("innodb_additional_mem_pool_size = 2M", MYSQL80, "was removed in mysql 5.7.4", "remove the line"),
        (
            "innodb_additional_mem_pool_size = 2M",
            MARIADB1011,
            "in mariadb 10.2.2",
            "remove the line",
        ),
        ("query_cache_size = 0", MYSQL80, "was removed in mysql 8.0.3", "remove the line"),
        ("query_cache_type = 0", MYSQL97, "was removed in mysql 8.0.3", "remove the line"),
        ("log_slow_queries = /x", MYSQL56, "was removed in mysql 5.6.1", "write slow_query_log"),
        ("innodb_file_io_threads = 4", MYSQL57, "removed in mysql 5.5", "innodb_write_io_threads"),
        ("skip-locking", MYSQL57, "was removed in mysql 5.5", "write skip_external_locking"),
        ("expire_logs_days = 7", MYSQL84, "was removed in mysql 8.2", "write binlog_expire_logs_seconds"),
        ("skip-host-cache", MYSQL84, "was removed in mysql 8.3", "write host_cache_size"),
        ("default_authentication_plugin = x", MYSQL84, "removed in mysql 8.4", "write authentication_policy"),
        ("innodb_log_file_size = 1G", MYSQL97, "was removed in mysql 9", "write innodb_redo_log_capacity"),
        ("innodb_support_xa = 1", MYSQL80, "was removed in mysql 8.0", "remove the line"),
        ("skip-innodb", MYSQL84, "was removed in mysql 8.3", "remove the line"),
        # sql/mysqld.cc of MySQL 5.1 says "use GRANT SHOW DATABASES instead": it was the default by then;
        # skip_show_database takes the statement away from accounts without the privilege.
        ("safe_show_database", MYSQL80, "in mysql 5.5", "remove the line; it has been the default"),
        ("log_warnings = 1", MYSQL80, "in mysql 8.0.3", "log_error_verbosity: its value is one more"),
        ("skip-host-cache", MYSQL84, "was removed in mysql 8.3", "write host_cache_size=0"),
        ("no_dd_upgrade", MYSQL84, "was removed in mysql 8.4", "write upgrade=NONE"),
        ("delay_key_write_for_all_tables", MYSQL57, "in mysql 5.5", "write delay_key_write=ALL"),
        ("keyring_file_data = /k", MYSQL84, "in mysql 8.4", "remove the line; first migrate the keys"),
        ("set-variable = key_buffer=96M", MYSQL57, "in mysql 5.5", "write its variable as an option"),
        ("expire_logs_days = 7", MYSQL84, "in mysql 8.2", "binlog_expire_logs_seconds: days times 86400"),
    ],
)
def test_an_option_that_ended_says_when_and_what_to_write_and_guesses_nothing(
    line: str, identity: ServerIdentity, says: str, hint: str
) -> None:
    (finding,) = check(f"[mysqld]\n{line}\n", identity).findings
    assert (finding.kind, finding.severity, finding.fatal) == ("removed", "error", True)
    assert says in finding.text
    assert hint in (finding.hint or "")


@pytest.mark.parametrize(
    ("line", "identity"), [("expire_logs_days = 7", MYSQL8046), ("query_cache_size = 0", MYSQL57)]
)
def test_before_its_end_an_option_is_taken(line: str, identity: ServerIdentity) -> None:
    assert check(f"[mysqld]\n{line}\n", identity).starts


@pytest.mark.parametrize("name", ["innodb_thread_concurrency_timer_based", "myisam_thread_concurrency"])
def test_a_name_with_other_words_is_no_misspelled_one(name: str) -> None:
    (finding,) = check(f"[mysqld]\n{name} = 1\n", MYSQL80).findings
    assert (finding.kind, finding.hint) == ("unknown-name", None)


@pytest.mark.parametrize(
    ("line", "identity", "says", "hint"),
    [
        (
            "binlog_format = ROW",
            MYSQL97,
            "is deprecated since mysql 8.0.34; a later version will remove it",
            "remove the line; ROW is the default and remains",
        ),
        (
            "slave-parallel-workers = 4",
            MYSQL84,
            "is deprecated since mysql 8.0.26; a later version will remove it",
            "write replica_parallel_workers",
        ),
        (
            "innodb_log_file_size = 1G",
            MYSQL8046,
            "is deprecated since mysql 8.0.30; mysql 9.3 removed it",
            "write innodb_redo_log_capacity: the size of all files together",
        ),
        (
            "expire_logs_days = 3",
            MYSQL80,
            "is deprecated since mysql 8.0.3; mysql 8.2 removed it",
            "write binlog_expire_logs_seconds: days times 86400",
        ),
        (
            "loose_rpl_semi_sync_master_timeout = 1000",
            MYSQL8046,
            "is deprecated since mysql 8.0.26; mysql 9.5 removed it",
            "write rpl_semi_sync_source_timeout: the option of the plugin semisync_source, which replaces"
            " semisync_master",
        ),
        (
            "loose_audit_log_format = JSON",
            MYSQL97,
            "is deprecated since mysql 9.6.0; a later version will remove it",
            "remove the line; the audit_log component replaces the plugin",
        ),
        ("query_cache_size = 0", MYSQL57, "is deprecated since mysql 5.7.20; mysql 8.0.3 removed it", None),
        (
            "table_cache = 2000",
            MARIADB118,
            "is deprecated; a later version will remove it",
            "write table_open_cache",
        ),
        (
            "wsrep_causal_reads = 1",
            MARIADB1011,
            "is deprecated; a later version will remove it",
            "write wsrep_sync_wait=1",
        ),
        (
            "explicit-defaults-for-timestamp = 0",
            MYSQL80,
            "has a value that is deprecated since mysql 5.6.6",
            "write explicit_defaults_for_timestamp=ON",
        ),
        (
            "sql_mode = NO_ENGINE_SUBSTITUTION,STRICT_TRANS_TABLES",
            MYSQL97,
            "has a value that is deprecated since mysql 5.7.8",
            None,
        ),
        (
            "skip_symbolic_links",
            MYSQL80,
            "is deprecated since mysql 8.0.2; a later version will remove it",
            "remove the line; OFF is the default",
        ),
    ],
)
def test_what_a_server_warns_of_is_told_with_its_successor_and_its_end(
    line: str, identity: ServerIdentity, says: str, hint: str | None
) -> None:
    checked = check(f"[mysqld]\n{line}\n", identity)
    (finding,) = (one for one in checked.findings if one.kind == "deprecated")
    assert (finding.text, finding.severity, finding.fatal) == (says, "warning", False)
    assert hint is None or finding.hint == hint
    assert checked.starts


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        ("binlog_format = ROW", MYSQL80),
        ("binlog_format = ROW", MARIADB118),
        ("innodb_file_per_table = ON", MARIADB1011),
        ("explicit_defaults_for_timestamp = ON", MYSQL80),
        ("character_set_server = utf8mb4", MYSQL97),
        ("character_set_server = ucs2", MYSQL80),
        ("sql_mode = TRADITIONAL", MYSQL97),
        ("sql_mode = ''", MYSQL57),
        (
            "sql_mode = STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO",
            MYSQL57,
        ),
    ],
)
def test_what_no_server_warns_of_is_not_deprecated(line: str, identity: ServerIdentity) -> None:
    assert check(f"[mysqld]\n{line}\n", identity).findings == ()


def test_every_deprecated_option_is_one_of_a_server_or_of_a_plugin() -> None:
    strange = PACKAGED.deprecations.keys() - PACKAGED.names() - PACKAGED.removals.keys()
    assert {name for name in strange if not PLUGIN.match(name)} == set()


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_an_option_is_deprecated_before_it_ends(flavor: Flavor) -> None:
    late = [
        name
        for name, all_of in PACKAGED.deprecations.items()
        for one in all_of
        if flavor in one.since
        and name in PACKAGED.removals
        and one.since[flavor] >= PACKAGED.removals[name].since.get(flavor, (99,))
    ]
    assert late == []


MYSQLS = [one for one in load_option_names().releases if one.flavor == "mysql"]


@pytest.mark.parametrize(
    ("line", "server", "product"),
    [
        ("wsrep_cluster_address = gcomm://", MYSQL80, "Percona XtraDB Cluster"),
        ("wsrep_slave_threads = 8", MYSQL57, "Percona XtraDB Cluster"),
        ("pxc_strict_mode = ENFORCING", MYSQL84, "Percona XtraDB Cluster"),
        ("userstat = 1", MYSQL80, "Percona Server"),
        ("log_slow_verbosity = full", MYSQL80, "Percona Server"),
        ("extra_port = 3307", MYSQL84, "Percona Server"),
        ("innodb_track_changed_pages = 1", MARIADB1011, "Percona Server"),
        ("aurora_binlog_read_buffer_size = 1M", MYSQL80, "Amazon Aurora"),
        ("audit_log_enabled = ON", MYSQL80, "Azure Database for MySQL"),
        ("cloudsql_iam_authentication = on", MYSQL80, "Google Cloud SQL"),
    ],
)
def test_the_product_is_named(line: str, server: ServerIdentity, product: str) -> None:
    (finding,) = check(f"[mysqld]\n{line}\n", server).findings
    assert (finding.kind, finding.severity, finding.fatal) == ("product", "error", True)
    assert re.search(rf"is an option of {product}( and mariadb .+)?, not of {server.flavor}", finding.text)
    assert f"if the file is for {product}" in (finding.hint or "")


@pytest.mark.parametrize("line", ["userstat = 1", "extra_port = 3307", "wsrep_slave_threads = 8"])
def test_the_server_that_has_the_option_too_takes_it(line: str) -> None:
    assert not [one for one in check(f"[mysqld]\n{line}\n", MARIADB1011).findings if one.kind == "product"]


def test_no_option_of_mysql_is_another_products() -> None:
    names = load_option_names()
    assert not {name for one in MYSQLS for name in names.of(one) if product_of(name)}
