"""The list of options that ended, held against the lists of what servers take."""

from __future__ import annotations

from itertools import pairwise

import pytest

from flushlab.record import ServerIdentity
from flushlab.settings.admission import PLUGIN
from flushlab.settings.catalog import load_catalog
from flushlab.settings.check import check
from flushlab.settings.option_names import load_option_names
from tests.unit.settings.servers import MARIADB1011, MYSQL57, MYSQL80, MYSQL84, MYSQL97, server

NAMES, CATALOG = load_option_names(), load_catalog()
MYSQL56 = server("mysql", 5, 6, 51)
MYSQL8046 = server("mysql", 8, 0, 46)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_every_option_that_a_later_release_lacks_is_listed_or_catalogued(flavor: str) -> None:
    own = [release for release in NAMES.releases if release.flavor == flavor]
    missing = [
        (older.series, newer.series, name)
        for older, newer in pairwise(own)
        for name in NAMES.of(older) - NAMES.of(newer)
        if newer not in NAMES.ignorers.get(name, ())
        and name not in NAMES.removals
        and name not in CATALOG
        and not name.startswith("wsrep_")
    ]
    assert missing == []


def test_no_release_takes_an_option_after_its_end() -> None:
    late = [
        (name, release.series)
        for name, removal in NAMES.removals.items()
        for release in NAMES.releases
        if name in NAMES.of(release) and release.version >= removal.since.get(release.flavor, (99,))
    ]
    assert late == []


def test_what_takes_the_place_of_an_option_is_an_option_of_some_server() -> None:
    named = {one.partition("=")[0] for gone in NAMES.removals.values() for one in gone.successors}
    plugins = {one for one in named if PLUGIN.match(one)}
    unknown = {one for one in named - plugins if not {one, one.removeprefix("skip_")} & NAMES.names()}
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
