"""Write statements: what performance_schema tells of them, as questions to a running server. Pure.

Beside `questions`, for whoever measures the load that is there. The server sums and counts since its start:
only differences of two answers mean anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flushlab.record import ServerIdentity, WrittenStatements
from flushlab.telemetry.live.questions import (
    FILES,
    PERFORMANCE_SCHEMA,
    PROCESS,
    STATES,
    STATUS,
    VARIABLES,
    Question,
    doctor_questions,
)

STATEMENTS, HISTOGRAM = "perf_schema.events_statements", "perf_schema.events_statements_histogram"

EXECUTE = "com/Execute"
"""Prepared statements of the binary protocol, reads among them: servers do not count these by kind (seen on
MySQL 5.7.22, 8.0.15 and 9.7.4)."""
UNTOLD = frozenset((EXECUTE, "sql/execute_sql", "sql/call_procedure"))
"""Statements of any kind: prepared ones, and those of procedures."""
_KINDS = (
    *("sql/insert", "sql/insert_select", "sql/update", "sql/update_multi", "sql/delete", "sql/delete_multi"),
    *("sql/replace", "sql/replace_select", "sql/load", "sql/commit", "sql/xa_prepare", "sql/xa_commit"),
    *sorted(UNTOLD),
)
HISTOGRAMS_SINCE = (8, 0, 3)
"""MySQL with performance_schema.events_statements_histogram_by_digest."""
_MOST_DIGESTS = 50
"""Each has some hundred buckets."""
_PICOSECOND, _US_OF_PS = 1e-12, 1e-6
_PREFIX = re.compile(r"^statement/")


def load_questions(identity: ServerIdentity, variables: Mapping[str, str]) -> tuple[Question, ...]:
    """The doctor's questions that tell of commits and their latency, and the write statements' sums."""
    names = (STATES, STATUS, VARIABLES, FILES)
    asked = [one for one in doctor_questions(identity, variables) if one.name in names]
    if variables.get("performance_schema", "").upper() in ("ON", "1"):
        asked.append(Question(name=STATEMENTS, every_s=1.0, forms=(_statements(),), needs=PERFORMANCE_SCHEMA))
        if identity.flavor == "mysql" and identity.version >= HISTOGRAMS_SINCE:
            asked.append(
                Question(name=HISTOGRAM, every_s=1.0, forms=(_histogram(),), needs=PERFORMANCE_SCHEMA)
            )
    return tuple(asked)


NEEDS = (PROCESS, PERFORMANCE_SCHEMA)
"""Privileges that all of these questions take."""


def _statements() -> str:
    names = ", ".join(f"'statement/{kind}'" for kind in _KINDS)
    return (
        "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT, SUM_ERRORS"
        " FROM performance_schema.events_statements_summary_global_by_event_name"
        f" WHERE EVENT_NAME IN ({names})"
    )


def _histogram() -> str:
    """Of the write statements that are executed most; each is found by its key."""
    busiest = (
        "SELECT schema_name, digest FROM performance_schema.events_statements_summary_by_digest"
        " WHERE digest_text REGEXP '^(INSERT|UPDATE|DELETE|REPLACE|COMMIT)( |$)'"
        f" AND last_seen > NOW() - INTERVAL 1 HOUR ORDER BY count_star DESC LIMIT {_MOST_DIGESTS}"
    )
    return (
        f"SELECT h.bucket_timer_high, SUM(h.count_bucket) FROM ({busiest}) AS s"
        " STRAIGHT_JOIN performance_schema.events_statements_histogram_by_digest AS h"
        " ON h.digest = s.digest AND h.schema_name <=> s.schema_name"
        " WHERE h.count_bucket > 0 GROUP BY h.bucket_timer_high"
    )


def parse_statements(rows: Sequence[Sequence[Any]]) -> tuple[dict[str, WrittenStatements], int]:
    """Sums by kind since the server's start, and how many of the statements failed."""
    sums, errors = dict[str, WrittenStatements](), 0
    for name, count, picoseconds, failed in rows:
        text = name.decode() if isinstance(name, bytes) else str(name)
        kind = _PREFIX.sub("", text)
        sums[kind] = WrittenStatements(count=int(count), seconds=float(picoseconds) * _PICOSECOND)
        errors += int(failed) if kind not in UNTOLD else 0
    return sums, errors


def parse_histogram(rows: Sequence[Sequence[Any]]) -> dict[float, int]:
    """Statements so far by upper bound of their latency in microseconds."""
    return {round(float(high) * _US_OF_PS, 3): int(count) for high, count in rows}
