"""Prepare: checks whether a prepare command may extend a template of fewer inputs.

Suite layer. Three conditions, otherwise the command runs in full:

- a migration tool has recorded the migrations that it applied;
- a second run of the command on its own result changed nothing (a script that loads seed rows fails here);
- on the restored prefix the record grew, by one row per new input if the tool writes one row per file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

from flushlab.server.databases import is_system
from flushlab.server.identifier import quoted
from flushlab.suite.templates import Facts, History

Query = Callable[..., list[tuple[Any, ...]]]

ROW_PER_FILE = frozenset(
    {
        *("flyway_schema_history", "schema_version"),  # Flyway 5 and later, before
        *("schema_migrations", "gorp_migrations", "_sqlx_migrations"),  # Rails, dbmate; sql-migrate; sqlx
        *("knex_migrations", "sequelizemeta", "phinxlog", "doctrine_migration_versions"),
    }
)
ONE_STATE = frozenset(
    {
        *("alembic_version", "databasechangelog", "django_migrations", "goose_db_version", "migrations"),
        *("_prisma_migrations", "__efmigrationshistory", "schema_history"),
    }
)
"""Tables in which migration tools write down what they applied; lower case."""

_ROUTINES = (
    "SELECT routine_schema, routine_name, routine_type, routine_definition FROM information_schema.routines",
    "SELECT trigger_schema, trigger_name, action_statement FROM information_schema.triggers",
    "SELECT event_schema, event_name, event_definition FROM information_schema.events",
    "SELECT table_schema, table_name, view_definition FROM information_schema.views",
    "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata",
)
_PRIVILEGES = "SELECT grantee, privilege_type, is_grantable FROM information_schema.user_privileges"


def histories(query: Query) -> tuple[History, ...]:
    """The records of migration tools in this server."""
    known = ROW_PER_FILE | ONE_STATE
    return tuple(
        History(
            schema=schema,
            table=table,
            rows=int(query(f"SELECT COUNT(*) FROM {quoted(schema, table)}")[0][0]),
            checksum=_checksum(query, schema, table),
        )
        for schema, table in _tables(query)
        if table.lower() in known
    )


def reason_not_reusable(facts: Facts) -> str:
    """Reason why a template cannot be extended; empty: it can."""
    if not facts.histories:
        return "there is no table of a migration tool"
    return "" if facts.rerunnable else "a second run of the prepare command failed or changed something"


def only_added(before: Sequence[History], after: Sequence[History], added: int) -> bool:
    """Whether the tools' records show that exactly the added inputs were applied."""
    then = {(one.schema, one.table): one for one in before}
    now = {(one.schema, one.table): one for one in after}
    if not then or then.keys() != now.keys():
        return False
    changed = [place for place in then if then[place] != now[place]]
    by_file = [place for place in changed if place[1].lower() in ROW_PER_FILE]
    return bool(changed) and all(now[place].rows == then[place].rows + added for place in by_file)


def fingerprint(query: Query) -> int:
    """A number that changes if a table, row, routine, privilege or next automatic number does."""
    state = []
    for schema, table in _tables(query):
        ((_, *definition),) = query(f"SHOW CREATE TABLE {quoted(schema, table)}")
        state.append(f"{schema}.{table} {definition} {_checksum(query, schema, table)}")
    for sql in (*_ROUTINES, _PRIVILEGES):
        state += sorted(repr(row) for row in query(sql))
    return zlib.crc32("".join(state).encode(errors="surrogateescape"))


def _tables(query: Query) -> list[tuple[str, str]]:
    rows = query(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
    )
    return sorted((str(schema), str(table)) for schema, table in rows if not is_system(str(schema)))


def _checksum(query: Query, schema: str, table: str) -> int:
    ((_, value),) = query(f"CHECKSUM TABLE {quoted(schema, table)}")
    return int(value or 0)
