"""What tells whether a prepare command may build upon fewer inputs."""

from __future__ import annotations

import pytest

from flushlab.suite.prepare import RECORDS, histories, only_added, reason_not_reusable
from flushlab.suite.templates import Facts, History


def history(rows: int, checksum: int, table: str = "flyway_schema_history") -> History:
    by_file = table != "alembic_version"
    return History(schema="app", table=table, rows=rows, checksum=checksum, by_file=by_file)


def test_a_row_per_new_input() -> None:
    assert only_added([history(3, 1)], [history(5, 2)], added=2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [history(2, 1)]),
        ([history(3, 1)], []),
        ([history(3, 1)], [history(3, 1)]),
        ([history(3, 1)], [history(4, 2)]),
        ([history(3, 1)], [history(6, 2)]),
        ([history(3, 1)], [history(5, 2, "other")]),
        ([history(3, 1)], [history(5, 2), history(1, 1, "alembic_version")]),
    ],
    ids=["none before", "gone", "unchanged", "too few", "too many", "another", "one more"],
)
def test_anything_else_is_a_caveat(before: list[History], after: list[History]) -> None:
    assert not only_added(before, after, added=2)


def test_a_tool_that_keeps_one_row_must_have_changed_it() -> None:
    assert only_added([history(1, 1, "alembic_version")], [history(1, 2, "alembic_version")], added=5)
    assert not only_added([history(1, 1, "alembic_version")], [history(1, 1, "alembic_version")], added=5)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (Facts(rerunnable=True), "no table has the columns of a known migration tool"),
        (Facts(), "no table has the columns of a known migration tool"),
        (
            Facts(histories=(history(1, 1),)),
            "a second run of the prepare command failed or changed something",
        ),
        (Facts(histories=(history(1, 1),), rerunnable=True), ""),
        (
            Facts(histories=(history(1, 1),), rerunnable=True, errors=("ERROR 1064",)),
            "the prepare command reported an error",
        ),
    ],
)
def test_a_template_in_question_is_not_built_upon_and_the_reason_is_told(facts: Facts, why: str) -> None:
    assert reason_not_reusable(facts) == why


TABLES = {
    "flyway_schema_history": "installed_rank version description type script checksum installed_by"
    " installed_on execution_time success",
    "schema_version": "version_rank installed_rank version description type script checksum installed_by"
    " installed_on execution_time success",
    "my_history": "installed_rank version description type script checksum installed_by installed_on"
    " execution_time success",
    "schema_migrations": "version",
    "migrations": "id migration batch",
    "DATABASECHANGELOG": "ID AUTHOR FILENAME DATEEXECUTED ORDEREXECUTED EXECTYPE MD5SUM DESCRIPTION COMMENTS"
    " TAG LIQUIBASE CONTEXTS LABELS DEPLOYMENT_ID",
    "__EFMigrationsHistory": "MigrationId ProductVersion",
    "_prisma_migrations": "id checksum finished_at migration_name logs rolled_back_at started_at"
    " applied_steps_count",
}


def found(table: str, columns: str) -> list[bool]:
    """Whether each record in a database with this table has a row per file."""

    def query(sql: str) -> list[tuple[object, ...]]:
        if "columns" in sql:
            return [("app", table, column) for column in columns.split()]
        if "information_schema.tables" in sql:
            return [("app", table)]
        return [(1,)] if "COUNT" in sql else [(table, 7)]

    return [one.by_file for one in histories(query)]


@pytest.mark.parametrize(("table", "columns"), TABLES.items())
def test_a_tools_table_is_known_by_its_columns_whatever_its_name(table: str, columns: str) -> None:
    assert len(found(table, columns)) == 1


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("schema_version", "version applied_on"),  # of an application
        ("schema_version", "version"),
        ("migrations", "id note"),
        ("tags", "name"),
        ("flyway_schema_history", "id"),
    ],
)
def test_a_table_with_a_tools_name_and_other_columns_is_none(table: str, columns: str) -> None:
    assert found(table, columns) == []


def test_golang_migrates_table_has_the_name_of_rails_and_one_row() -> None:
    assert found("schema_migrations", "version dirty") == [False]
    assert found("schema_migrations", "version") == [True]


def test_columns_are_lower_case() -> None:
    assert all(name == name.lower() for one in RECORDS for name in (*one.columns, one.name))
