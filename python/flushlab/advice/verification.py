"""Verification: statements that show on the real server whether a change is in force and what it did. Pure.

They only read. They are run before and after the change, under the usual load, and the two outputs compared:
every figure is the difference of two readings, so that nothing from before the minute is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
_STATEMENTS = {
    "COMMIT": (_BY_DIGEST, "digest_text REGEXP '^COMMIT( |$)'"),
    "INSERT, UPDATE, DELETE, REPLACE": (_BY_DIGEST, "digest_text REGEXP '^(INSERT|UPDATE|DELETE|REPLACE) '"),
    "prepared, of any kind": (
        "performance_schema.events_statements_summary_global_by_event_name",
        "event_name = 'statement/com/Execute'",
    ),
}
"""Statements, the table that counts them, and its rows. Executions over the binary protocol are in no digest
(seen on MySQL 5.7.22, 8.0.15 and 9.7.4)."""

_HISTOGRAMS_SINCE = (8, 0, 3)
"""MySQL with performance_schema.events_statements_histogram_by_digest
(https://dev.mysql.com/doc/refman/8.0/en/performance-schema-statement-histogram-summary-tables.html)."""
_PERCENTILES = (50, 95, 99)


def _now(here: SettingHere) -> str:
    """What the server has, as text."""
    if not here.part:
        return f"CAST(@@GLOBAL.{here.variable} AS CHAR)"
    behind = f"SUBSTRING_INDEX(@@GLOBAL.{here.variable}, '{here.part} = ', -1)"
    return f"SUBSTRING_INDEX({behind}, ';', 1)"


def verification(changes: Mapping[str, Value], identity: ServerIdentity) -> str:
    """A file for the server's command-line client.

    Args:
        changes: the advised settings.
        identity: the server.

    Raises:
        UnknownSetting, ValueOutOfRange: a setting that this server would not take.
    """
    catalog = load_catalog()
    settings = [
        f"SELECT '{here.part or here.variable}' AS setting, {_now(here)} AS now,"
        f" '{str(here.parse(value)).replace(chr(39), chr(39) * 2)}' AS advised"
        for here, value in (
            (catalog.require(name, identity.flavor, identity.version), value)
            for name, value in changes.items()
        )
    ]
    schema = "performance_schema" if identity.flavor == "mysql" else "information_schema"
    has_histograms = identity.flavor == "mysql" and identity.version >= _HISTOGRAMS_SINCE
    lines = [
        "-- Only reads. Run it before and after the change, under your usual load, and compare:",
        f"--   mysql --table < verify.sql     ({SECONDS} seconds)",
        "SELECT 'performance_schema is OFF: no latencies, no syncs of each log' AS note"
        " FROM DUAL WHERE NOT @@GLOBAL.performance_schema;",
        "",
        "-- Is the change in force?",
        "\nUNION ALL ".join(settings) + ";",
        "",
        "-- First reading.",
        *(_first_histograms() if has_histograms else ()),
        *_first_reading(f"{schema}.global_status"),
        "SET @began = UNIX_TIMESTAMP(SYSDATE(6));",
        f"DO SLEEP({SECONDS});",
        "SET @seconds = UNIX_TIMESTAMP(SYSDATE(6)) - @began;",
        "",
        "-- What does the server do per second?",
        "-- *_syncs also count how often files of that log were opened and closed.",
        *(
            ()
            if identity.flavor == "mysql"
            else ("-- Syncs of the redo log are in innodb_data_fsyncs, or else in innodb_os_log_fsyncs.",)
        ),
        *_counters(f"{schema}.global_status"),
        "",
        "-- How long do statements take? (An INSERT without a transaction of its own includes its commit.)",
        *_statements(),
    ]
    if not has_histograms:
        lines.append(f"-- No percentiles: {identity.name} keeps no histograms of its statements' latency.")
    else:
        lines += [
            "",
            "-- Percentiles of their latency; the server's histogram is exact to 5 %.",
            *_percentiles(),
        ]
    return "\n".join(lines) + "\n"


def _first_reading(status: str) -> Iterator[str]:
    """The counters come last, and first in the second reading: other queries count in them."""
    for number, (table, rows) in enumerate(_STATEMENTS.values()):
        sums = f"SELECT SUM(count_star), SUM(sum_timer_wait) INTO @n{number}, @ps{number}"
        yield f"{sums} FROM {table} WHERE {rows};"
    for name in COUNTERS:
        yield f"SELECT variable_value INTO @{name} FROM {status} WHERE variable_name = '{name}';"
    for name, event in _FILES.items():
        yield (
            f"SELECT count_misc INTO @{name} FROM performance_schema.file_summary_by_event_name"
            f" WHERE event_name = '{event}';"
        )


def _counters(status: str) -> Iterator[str]:
    names = ", ".join(f"'{name}'" for name in COUNTERS)
    yield "SELECT counter, ROUND((value - before_value) / @seconds, 1) AS per_second FROM ("
    yield "  SELECT variable_name AS counter, variable_value AS value, CASE LOWER(variable_name)"
    yield from (f"    WHEN '{name.lower()}' THEN @{name}" for name in COUNTERS)
    yield f"    END AS before_value FROM {status} WHERE variable_name IN ({names})"
    for name, event in _FILES.items():
        yield (
            f"  UNION ALL SELECT '{name}', count_misc, @{name}"
            f" FROM performance_schema.file_summary_by_event_name WHERE event_name = '{event}'"
        )
    yield ") AS readings ORDER BY LOWER(counter);"


def _statements() -> Iterator[str]:
    yield "SELECT statement, ROUND(n / @seconds, 1) AS per_second,"
    yield "  ROUND(ps / NULLIF(n, 0) / 1e9, 3) AS mean_ms FROM ("
    for number, (name, (table, rows)) in enumerate(_STATEMENTS.items()):
        yield (
            f"  {'UNION ALL ' if number else ''}SELECT '{name}' AS statement,"
            f" SUM(count_star) - COALESCE(@n{number}, 0) AS n,"
            f" SUM(sum_timer_wait) - COALESCE(@ps{number}, 0) AS ps FROM {table} WHERE {rows}"
        )
    yield ") AS readings WHERE n IS NOT NULL;"


def _buckets(rows: str) -> str:
    return (
        f"FROM {_BY_DIGEST} AS s JOIN performance_schema.events_statements_histogram_by_digest AS h"
        f" ON h.digest = s.digest AND h.schema_name <=> s.schema_name WHERE s.{rows} GROUP BY h.bucket_number"
    )


def _by_digest() -> Iterator[tuple[int, str, str]]:
    """Number, name and rows of the statements that have a histogram."""
    for number, (name, (table, rows)) in enumerate(_STATEMENTS.items()):
        if table == _BY_DIGEST:
            yield number, name, rows


def _first_histograms() -> Iterator[str]:
    for number, _, rows in _by_digest():
        yield (
            f"SELECT JSON_OBJECTAGG(bucket, n) INTO @buckets{number} FROM (SELECT h.bucket_number AS bucket,"
            f" SUM(h.count_bucket) AS n {_buckets(rows)}) AS readings;"
        )


def _percentiles() -> Iterator[str]:
    yield "WITH buckets AS ("
    for number, name, rows in _by_digest():
        before = f"COALESCE(JSON_EXTRACT(@buckets{number}, CONCAT('$.\"', h.bucket_number, '\"')), 0)"
        yield (
            f"  {'UNION ALL ' if number else ''}SELECT '{name}' AS statement,"
            f" MAX(h.bucket_timer_high) AS high, SUM(h.count_bucket) - {before} AS n {_buckets(rows)}"
        )
    yield "), running AS ("
    yield "  SELECT statement, high, SUM(n) OVER (PARTITION BY statement ORDER BY high) AS up_to,"
    yield "    SUM(n) OVER (PARTITION BY statement) AS total FROM buckets"
    columns = ", ".join(
        f"ROUND(MIN(IF(up_to >= {percent / 100:g} * total, high, NULL)) / 1e9, 3) AS p{percent}_ms"
        for percent in _PERCENTILES
    )
    yield f") SELECT statement, {columns} FROM running WHERE total > 0 GROUP BY statement"
    for number, (name, (table, rows)) in enumerate(_STATEMENTS.items()):
        if table != _BY_DIGEST:
            missing = ", ".join("NULL" for _ in _PERCENTILES)
            yield f"UNION ALL SELECT '{name}: no histogram of them', {missing} FROM {table}"
            yield f"  WHERE {rows} AND count_star > COALESCE(@n{number}, 0)"
    yield ";"
