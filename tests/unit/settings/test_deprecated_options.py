"""Options that servers still take and warn of."""

from __future__ import annotations

import pytest

from flushlab.record import ServerIdentity
from flushlab.record.machine import Flavor
from flushlab.settings.admission import PLUGIN
from flushlab.settings.check import check
from flushlab.settings.option_names import load_option_names
from tests.unit.settings.servers import MARIADB118, MARIADB1011, MYSQL57, MYSQL80, MYSQL84, MYSQL97, server

NAMES = load_option_names()
MYSQL8046 = server("mysql", 8, 0, 46)


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
    strange = NAMES.deprecations.keys() - NAMES.names() - NAMES.removals.keys()
    assert {name for name in strange if not PLUGIN.match(name)} == set()


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_an_option_is_deprecated_before_it_ends(flavor: Flavor) -> None:
    late = [
        name
        for name, all_of in NAMES.deprecations.items()
        for one in all_of
        if flavor in one.since
        and name in NAMES.removals
        and one.since[flavor] >= NAMES.removals[name].since.get(flavor, (99,))
    ]
    assert late == []
