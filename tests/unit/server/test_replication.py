"""Whether a server is a replica."""

from __future__ import annotations

from flushlab.server.protocol import replica_statement, sources_of
from tests.fakes.server import FakeServer


def test_the_sources_of_a_replica_are_named() -> None:
    server = FakeServer()
    row = ("", "Waiting", "Waiting", "db1", "db2")
    place = 3 if server.identity.flavor == "mariadb" else 1
    server = FakeServer(answers={replica_statement(server.identity): [row]})
    assert sources_of(server) == [row[place]]
