from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.server import sql
from flushlab.server.control import StatementFailed
from flushlab.server.sql import is_system, quoted, require_not_system
from flushlab.settings.configuration import Configuration, typed
from tests.unit.settings.servers import MARIADB1011, MYSQL57, MYSQL80


def answering(rows: dict[str, str]) -> sql.Query:
    def query(sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        assert sql.startswith("SHOW GLOBAL VARIABLES WHERE Variable_name IN (")
        return [(name, rows[name]) for name in args if name in rows]

    return query


def test_values_are_typed_as_the_catalog_types_them() -> None:
    query = answering(
        {"innodb_buffer_pool_size": "134217728", "innodb_doublewrite": "ON", "sync_binlog": "0"}
    )
    names = ["innodb_buffer_pool_size", "innodb_doublewrite", "sync_binlog"]
    assert sql.read_variables(query, MARIADB1011, names) == {
        "innodb_buffer_pool_size": 134217728,
        "innodb_doublewrite": "ON",
        "sync_binlog": 0,
    }


def test_unknown_variables_are_left_out() -> None:
    assert sql.read_variables(answering({}), MARIADB1011, ["nonsense"]) == {}


def test_nothing_is_asked_for_no_names() -> None:
    def never(sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        raise AssertionError(sql)

    assert sql.read_variables(never, MARIADB1011, []) == {}


def test_variable_with_another_name_is_read_under_the_settings_name() -> None:
    query = answering({"tx_isolation": "READ-COMMITTED"})
    assert sql.read_variables(query, MARIADB1011, ["transaction-isolation"]) == {
        "transaction_isolation": "READ-COMMITTED"
    }


@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), ("-1", -1), ("0.500000", 0.5), ("ON", "ON"), ("10.11.19", "10.11.19")]
)
def test_unknown_settings_are_numbers_if_they_look_like_it(text: str, value: Value) -> None:
    assert typed(text, None) == value


@pytest.mark.parametrize(
    ("one", "other"), [("ON", 1), ("on", "ON"), ("128M", 134217728), ("row", "ROW"), (1, "1"), ("OFF", 0)]
)
def test_unknown_settings_are_compared_by_meaning(one: Value, other: Value) -> None:
    assert Configuration({}, MARIADB1011).same("unheard_of", one, other)


def test_unknown_settings_that_differ_differ() -> None:
    assert not Configuration({}, MARIADB1011).same("unheard_of", "ON", 0)
    assert not Configuration({}, MARIADB1011).same("unheard_of", "128M", 128)


def test_rounded_value_is_a_caveat() -> None:
    (caveat,) = sql.changed_values(
        MARIADB1011, {"innodb_buffer_pool_size": 200_000_000}, {"innodb_buffer_pool_size": 199_229_440}
    )
    assert caveat.slug == "rounded"
    assert (
        caveat.text == "innodb_buffer_pool_size was set to 200000000, and the server changed it to 199229440"
    )


def test_changed_value_and_missing_variable_are_caveats() -> None:
    found = sql.changed_values(
        MARIADB1011, {"innodb_doublewrite": "OFF", "gone": 1}, {"innodb_doublewrite": "ON"}
    )
    assert [one.slug for one in found] == ["differs", "not-shown"]


def test_value_in_another_spelling_is_no_caveat() -> None:
    asked: dict[str, Value] = {"innodb_buffer_pool_size": "128M", "innodb_doublewrite": 1}
    got: dict[str, Value] = {"innodb_buffer_pool_size": 134217728, "innodb_doublewrite": "ON"}
    assert sql.changed_values(MARIADB1011, asked, got) == ()


OPTIONS = "base_dir = /d/; gcache.size = 128M; gcs.fc_factor = 1.0; gcs.fc_limit = 16; gcache.recover = yes; "


def test_options_of_galera_are_read_from_the_one_variable_that_holds_them() -> None:
    names = ["gcs.fc_limit", "wsrep_provider_gcache_size", "gcache.recover", "repl.commit_order"]
    assert sql.read_variables(answering({"wsrep_provider_options": OPTIONS}), MARIADB1011, names) == {
        "gcs.fc_limit": 16,
        "wsrep_provider_gcache_size": 128 << 20,
        "gcache.recover": "ON",
    }


class Asked:
    """Takes statements; the variable that holds the options may be read-only, as where each has its own."""

    def __init__(self, *, read_only: bool = False, errno: int = 1238, text: str = "no") -> None:
        self.statements: list[tuple[str, object]] = []
        self._read_only, self._errno, self._text = read_only, errno, text

    def __call__(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self._read_only and "wsrep_provider_options" in sql:
            raise StatementFailed(self._errno, self._text, sql)
        self.statements.append((sql, args[0]))
        return []


def test_an_option_of_galera_is_set_by_itself_so_that_the_others_stay() -> None:
    asked = Asked()
    sql.set_variable(asked, MARIADB1011, "gcs.fc_limit", 64)
    assert asked.statements == [("SET GLOBAL wsrep_provider_options = %s", "gcs.fc_limit=64")]


LOADED = "wsrep_provider_options cannot be changed while the wsrep-provider plugin is loaded"


@pytest.mark.parametrize(("errno", "text"), [(1238, "no"), (1210, LOADED)])
def test_where_the_plugin_gives_options_variables_of_their_own_these_are_set(errno: int, text: str) -> None:
    asked = Asked(read_only=True, errno=errno, text=text)
    sql.set_variable(asked, MARIADB1011, "gcs.fc_limit", 64)
    assert asked.statements == [("SET GLOBAL wsrep_provider_gcs_fc_limit = %s", 64)]
    with pytest.raises(StatementFailed):
        sql.set_variable(Asked(read_only=True, errno=1210), MARIADB1011, "gcs.fc_limit", 64)


def test_what_is_persisted_is_read_where_there_is_such_a_thing_and_the_account_may_see_it() -> None:
    def refuses(sql: str, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        raise StatementFailed(1142, "SELECT command denied", sql)

    assert sql.persisted(lambda *_: [("sync_binlog", "1")], MYSQL80) == {"sync_binlog": "1"}
    assert sql.persisted(refuses, MYSQL80) is None
    assert sql.persisted(refuses, MYSQL57) is None


@pytest.mark.parametrize(
    ("names", "sql"),
    [
        (["app"], "`app`"),
        (["my app", "t-1"], "`my app`.`t-1`"),
        (["a`b"], "`a``b`"),
        (["`; DROP DATABASE app; --"], "```; DROP DATABASE app; --`"),
        (["app", "a.b"], "`app`.`a.b`"),
    ],
)
def test_a_name_stays_one_name_whatever_is_in_it(names: list[str], sql: str) -> None:
    assert quoted(*names) == sql


@pytest.mark.parametrize("name", ["mysql", "MySQL", "sys", "SYS", "information_schema", "Performance_Schema"])
def test_nothing_is_written_into_a_database_of_the_servers_own_however_it_is_spelled(name: str) -> None:
    assert is_system(name)
    with pytest.raises(UsageError, match=f"the database {name} is the server's own") as refused:
        require_not_system(name)
    assert refused.value.hint == "choose another name"


@pytest.mark.parametrize("name", ["app", "mysql_app", "system", "my.sys"])
def test_any_other_name_is_the_users(name: str) -> None:
    assert not is_system(name)
    assert require_not_system(name) == name
