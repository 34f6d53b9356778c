"""The packaged words are taken and refused by the servers that the list says."""

from __future__ import annotations

import pymysql
import pytest

from flushlab.server.control import connect
from flushlab.settings.words import load_entries
from tests.conftest import StartSandbox, flavors

_REFUSED = (1064, 1101, 1273, 1286, 1305, 1524, 1901, 1911, 3102, 3763, 4161)


@pytest.mark.parametrize(
    "server",
    flavors("mariadb@10.11", "mysql@8.0", "mariadb@11.8", "mariadb@11.4", "mysql@5.7", "mysql@9.7", first=2),
)
def test_servers_take_the_words_that_the_list_says(server: str, sandbox: StartSandbox) -> None:
    started = sandbox(server)
    identity, wrong = started.identity, []
    started.query("CREATE DATABASE app")
    with connect(started.endpoint, "socket") as connection, connection.cursor() as cursor:
        cursor.execute("USE app")
        cursor.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        cursor.execute("CREATE TABLE tj (j JSON)")
        for entry in load_entries():
            taken = all(word.taken_by(identity.flavor, identity.version) for word in entry.words())
            try:
                for statement in filter(None, (entry.setup if taken else "", entry.try_, entry.undo)):
                    cursor.execute(statement)
            except pymysql.MySQLError as error:
                if taken or error.args[0] not in _REFUSED:
                    wrong.append(f"{entry.try_}: {error}")
            else:
                wrong += [] if taken else [f"{entry.try_}: taken"]
            cursor.execute("SET SESSION sql_mode = DEFAULT")
            cursor.execute("DROP TABLE IF EXISTS x")
    assert wrong == []
