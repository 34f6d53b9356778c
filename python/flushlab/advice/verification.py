"""Verification: statements that show on the real server whether a change is in force and what it did. Pure.

The statements only read. The user runs them before and after the change, under the usual load, and compares
the two outputs. Every number is the difference of two readings, so nothing from before the minute counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.advice.template import template
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import SettingHere, load_catalog

SECONDS = 60
"""Seconds between the two readings."""

COUNTERS = (
    *("Questions", "Handler_commit", "Handler_write", "Handler_update", "Handler_delete"),
    *("Innodb_data_fsyncs", "Innodb_os_log_fsyncs", "Innodb_os_log_written"),
    *("Innodb_log_waits", "Innodb_buffer_pool_wait_free", "Binlog_commits", "Binlog_group_commits"),
)
"""Of SHOW GLOBAL STATUS; those that a version lacks do not appear, and MySQL keeps Com_commit elsewhere."""

_FILES = {
    "redo_log_syncs": "wait/io/file/innodb/innodb_log_file",
    "binary_log_syncs": "wait/io/file/sql/binlog",
}
"""Counters and their rows in file_summary_by_event_name, whose COUNT_MISC has syncs and, far rarer, opens and
closes (https://dev.mysql.com/doc/refman/8.0/en/performance-schema-file-summary-tables.html)."""

_BY_DIGEST = "performance_schema.events_statements_summary_by_digest"
_STATEMENTS = (
    ("COMMIT", _BY_DIGEST, "digest_text REGEXP '^COMMIT( |$)'"),
    ("INSERT, UPDATE, DELETE, REPLACE", _BY_DIGEST, "digest_text REGEXP '^(INSERT|UPDATE|DELETE|REPLACE) '"),
    (
        "prepared, of any kind",
        "performance_schema.events_statements_summary_global_by_event_name",
        "event_name = 'statement/com/Execute'",
    ),
)
"""Statements, the table that counts them, and its rows. Executions over the binary protocol are in no digest
(seen on MySQL 5.7.22, 8.0.15 and 9.7.4)."""

_HISTOGRAMS_SINCE = (8, 0, 3)
"""MySQL with performance_schema.events_statements_histogram_by_digest
(https://dev.mysql.com/doc/refman/8.0/en/performance-schema-statement-histogram-summary-tables.html)."""


def verification(changes: Mapping[str, Value], identity: ServerIdentity) -> str:
    """A file for the server's command-line client.

    Raises:
        UnknownSetting, ValueOutOfRange: a setting that this server would not take.
    """
    settings = [
        (load_catalog().require(name, identity.flavor, identity.version), value)
        for name, value in changes.items()
    ]
    is_mysql = identity.flavor == "mysql"
    return template("verify.sql.j2").render(
        changes=[(here, _printed(here, value)) for here, value in settings],
        server=identity,
        schema="performance_schema" if is_mysql else "information_schema",
        has_histograms=is_mysql and identity.version >= _HISTOGRAMS_SINCE,
        seconds=SECONDS,
        counters=COUNTERS,
        logs=_FILES,
        statements=_STATEMENTS,
        percentiles=(50, 95, 99),
    )


def _printed(here: SettingHere, value: Value) -> str:
    """A value as the statement prints it: 0.5, and 90 for 90.0."""
    parsed = here.parse(value)
    return f"{parsed:f}".rstrip("0").rstrip(".") if isinstance(parsed, float) else str(parsed)
