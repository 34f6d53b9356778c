"""Databases that are the server's own."""

from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.server.sql import is_system, require_not_system


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
