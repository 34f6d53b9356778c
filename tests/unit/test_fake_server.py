"""What the fake adds to the contract: its script."""

from __future__ import annotations

import pytest

from flushlab.errors import ServerDied, ServerError
from tests.fakes.server import FakeServer


def test_it_rounds_as_scripted() -> None:
    server = FakeServer(rounds={"innodb_buffer_pool_size": lambda value: 199_229_440})
    applied = server.apply({"innodb_buffer_pool_size": 200_000_000})
    assert applied.settings == {"innodb_buffer_pool_size": 199_229_440}
    assert [one.slug for one in applied.warnings] == ["rounded"]


def test_it_refuses_as_scripted_and_takes_the_rest() -> None:
    server = FakeServer(refuses={"innodb_doublewrite": "not today"})
    applied = server.apply({"innodb_doublewrite": "OFF", "sync_binlog": 1})
    assert [(one.name, one.reason) for one in applied.refused] == [("innodb_doublewrite", "not today")]
    assert applied.settings == {"sync_binlog": 1}


def test_it_dies_as_scripted() -> None:
    server = FakeServer()
    server.die("[ERROR] mysqld got signal 11")
    assert not server.alive()
    with pytest.raises(ServerDied, match="got signal 11"):
        server.query("SELECT 1")


def test_it_answers_as_scripted_and_remembers_the_statements() -> None:
    counter = iter(range(10))
    server = FakeServer(answers={"SHOW STATUS": [("a", 1)], "COUNT": lambda: [(next(counter),)]})
    assert server.query("SHOW STATUS") == [("a", 1)]
    assert [server.query("COUNT"), server.query("COUNT")] == [[(0,)], [(1,)]]
    assert server.statements == ["SHOW STATUS", "COUNT", "COUNT"]


def test_it_answers_nothing_else() -> None:
    with pytest.raises(ServerError, match="not scripted"):
        FakeServer().query("DROP TABLE t")
