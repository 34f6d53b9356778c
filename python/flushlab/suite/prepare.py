"""Prepare: checks whether a prepare command may extend a template of fewer inputs.

Suite layer. Three conditions, otherwise the command runs in full:

- a migration tool has recorded the migrations that it applied;
- a second run of the command on its own result changed nothing (a script that loads seed rows fails here);
- on the restored prefix the record grew, by one row per new input if the tool writes one row per file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from flushlab.server.sql import is_system, quoted
from flushlab.suite.templates import Facts, History

Query = Callable[..., list[tuple[Any, ...]]]


class PrepareRecord(NamedTuple):
    tools: str
    columns: frozenset[str]
    by_file: bool
    name: str = ""

    def fits(self, table: str, columns: Collection[str]) -> bool:
        if self.name:
            return self.name == table.lower() and self.columns == columns
        return self.columns <= set(columns)


def _record(tools: str, columns: str, *, by_file: bool, name: str = "") -> PrepareRecord:
    return PrepareRecord(tools, frozenset(columns.split()), by_file, name)


RECORDS = (
    _record("Flyway", "installed_rank version description script checksum success", by_file=True),
    _record("golang-migrate", "version dirty", by_file=False),
    _record("Rails, dbmate", "version", by_file=True, name="schema_migrations"),
    _record("Ecto", "version inserted_at", by_file=True, name="schema_migrations"),
    _record("sql-migrate", "id applied_at", by_file=True, name="gorp_migrations"),
    _record("sqlx", "version description installed_on success checksum execution_time", by_file=True),
    _record("Knex", "id name batch migration_time", by_file=True),
    _record("Sequelize", "name", by_file=True, name="sequelizemeta"),
    _record("Phinx", "version migration_name start_time end_time breakpoint", by_file=True),
    _record("Doctrine", "version executed_at execution_time", by_file=True),
    _record("DbUp", "schemaversionid scriptname applied", by_file=True),
    _record("Liquibase", "id author filename dateexecuted orderexecuted md5sum", by_file=False),
    _record("Alembic", "version_num", by_file=False, name="alembic_version"),
    _record("Django", "id app name applied", by_file=False),
    _record("goose", "id version_id is_applied tstamp", by_file=False),
    _record("Prisma", "id checksum migration_name rolled_back_at applied_steps_count", by_file=False),
    _record("Entity Framework", "migrationid productversion", by_file=False),
    _record("Laravel", "id migration batch", by_file=False),
    _record("TypeORM", "id timestamp name", by_file=False, name="migrations"),
)
"""By their columns, as a tool's table may have another name, and the name may be of another tool."""

_COLUMNS = "SELECT table_schema, table_name, column_name FROM information_schema.columns"
_ROUTINES = (
    "SELECT routine_schema, routine_name, routine_type, routine_definition FROM information_schema.routines",
    "SELECT trigger_schema, trigger_name, action_statement FROM information_schema.triggers",
    "SELECT event_schema, event_name, event_definition FROM information_schema.events",
    "SELECT table_schema, table_name, view_definition FROM information_schema.views",
    "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata",
)
_PRIVILEGES = "SELECT grantee, privilege_type, is_grantable FROM information_schema.user_privileges"


def histories(query: Query) -> tuple[History, ...]:
    columns = dict[tuple[str, str], set[str]]()
    for schema, table, column in query(_COLUMNS):
        columns.setdefault((str(schema), str(table)), set()).add(str(column).lower())
    found = [
        (schema, table, record)
        for schema, table in _tables(query)
        if (record := next((one for one in RECORDS if one.fits(table, columns[schema, table])), None))
    ]
    return tuple(
        History(
            schema=schema,
            table=table,
            rows=int(query(f"SELECT COUNT(*) FROM {quoted(schema, table)}")[0][0]),
            checksum=_checksum(query, schema, table),
            by_file=record.by_file,
        )
        for schema, table, record in found
    )


def reason_not_reusable(facts: Facts) -> str:
    if facts.errors:
        return "the prepare command reported an error"
    if not facts.histories:
        return "no table has the columns of a known migration tool"
    return "" if facts.rerunnable else "a second run of the prepare command failed or changed something"


def only_added(before: Sequence[History], after: Sequence[History], added: int) -> bool:
    then = {(one.schema, one.table): one for one in before}
    now = {(one.schema, one.table): one for one in after}
    if not then or then.keys() != now.keys():
        return False
    changed = [place for place in then if then[place] != now[place]]
    by_file = [place for place in changed if now[place].by_file]
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
