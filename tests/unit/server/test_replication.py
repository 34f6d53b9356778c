"""Whether a server is a replica, as far as an account may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flushlab.server import FakeServer
from flushlab.server.control import StatementFailed
from flushlab.server.replication import replica_statement, sources_of


class Refuses(FakeServer):
    """Answers every question with an error."""

    errno = 1227

    def query(self, sql: str, parameters: Sequence[Any] = (), *, answer_s: float | None = None) -> Any:
        raise StatementFailed(self.errno, "no", sql)


def test_the_sources_of_a_replica_are_named() -> None:
    server = FakeServer()
    row = ("", "Waiting", "Waiting", "db1", "db2")
    place = 3 if server.identity.flavor == "mariadb" else 1
    server = FakeServer(answers={replica_statement(server.identity): [row]})
    assert sources_of(server) == [row[place]]


def test_what_an_account_may_not_see_is_no_answer() -> None:
    assert sources_of(Refuses()) is None


def test_another_error_is_not_taken_for_a_missing_privilege() -> None:
    server = Refuses()
    server.errno = 1064
    with pytest.raises(StatementFailed):
        sources_of(server)
