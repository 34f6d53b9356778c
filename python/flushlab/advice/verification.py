"""Verification: statements that show on the real server whether a change is in force and what it did. Pure.

They only read. They are run before and after the change, under the usual load, and the two outputs compared.
"""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import SettingHere, load_catalog

SECONDS = 60
"""That the counters are watched for."""

COUNTERS = (
    *("Questions", "Handler_commit", "Handler_write", "Handler_update", "Handler_delete"),
    *("Innodb_data_fsyncs", "Innodb_os_log_fsyncs", "Innodb_os_log_written"),
    *("Innodb_log_waits", "Innodb_buffer_pool_wait_free"),
)
"""Of SHOW GLOBAL STATUS; those that a version lacks do not appear, and MySQL keeps Com_commit elsewhere."""

_HISTOGRAM_SINCE = (8, 0, 3)
"""MySQL with performance_schema.events_statements_histogram_global
(https://dev.mysql.com/doc/refman/8.0/en/performance-schema-statement-histogram-summary-tables.html)."""


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
    status = f"{schema}.global_status"
    names = ", ".join(f"'{name}'" for name in COUNTERS)
    watched = "\n".join(
        f"SELECT variable_value INTO @{name} FROM {status} WHERE variable_name = '{name}';"
        for name in COUNTERS
    )
    cases = "\n".join(f"    WHEN '{name.lower()}' THEN @{name}" for name in COUNTERS)
    lines = [
        "-- Only reads. Run it before and after the change, under your usual load, and compare:",
        f"--   mysql --table < verify.sql     ({SECONDS} seconds)",
        "",
        "-- Is the change in force?",
        "\nUNION ALL ".join(settings) + ";",
        "",
        "-- What does the server do per second?",
        watched,
        f"DO SLEEP({SECONDS});",
        f"SELECT variable_name AS counter, ROUND((variable_value - CASE LOWER(variable_name)\n{cases}\n"
        f"    END) / {SECONDS}, 1) AS per_second",
        f"FROM {status} WHERE variable_name IN ({names}) ORDER BY variable_name;",
    ]
    if identity.flavor == "mysql" and identity.version >= _HISTOGRAM_SINCE:
        lines += [
            "",
            "-- 99th percentile of all statements since the server started, in milliseconds.",
            "SELECT ROUND(MIN(bucket_timer_high) / 1e9, 2) AS p99_ms"
            " FROM performance_schema.events_statements_histogram_global WHERE bucket_quantile >= 0.99;",
        ]
    return "\n".join(lines) + "\n"
