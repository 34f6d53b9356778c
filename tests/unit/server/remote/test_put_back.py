"""Settings of the user's own server that change before each slice are reported when all are put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flushlab.server import FakeServer
from flushlab.server.remote.address import from_nodes
from flushlab.server.remote.put_back import Changes

FLUSH = "innodb_flush_log_at_trx_commit"


class Theirs(FakeServer):
    """A running server of somebody's own."""

    address = from_nodes("mysql://me@db1:3306")[0]

    locked = 0
    """So often this connection has the lock."""

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Counts, as MySQL does."""
        if sql == "SELECT GET_LOCK(%s, %s)":
            self.locked += 1
            return [(1,)]
        if sql == "SELECT RELEASE_LOCK(%s)":
            had, self.locked = self.locked, max(0, self.locked - 1)
            return [(int(had > 0),)]
        return super().query(sql, args, answer_s=answer_s)


@pytest.mark.parametrize("now", [1, 2], ids=["after a slice", "amid a slice"])
def test_what_alternated_is_told_to_be_put_back(private_home: object, now: int) -> None:
    server: Any = Theirs()
    changes, said = Changes(server, {FLUSH: 1}, {FLUSH: 2}), list[str]()
    changes.announce()
    server.query(f"SET GLOBAL {FLUSH} = %s", [2])
    server.query(f"SET GLOBAL {FLUSH} = %s", [now])
    changes.put_back(said.append)
    assert said == [f"put back: SET GLOBAL {FLUSH} = 1;"]
    assert server.read_back([FLUSH]) == {FLUSH: 1}


def test_the_next_flushlab_need_not_wait_until_the_server_sees_that_this_one_is_gone(
    private_home: object,
) -> None:
    server: Any = Theirs()
    changes = Changes(server, {FLUSH: 2})
    changes.make()
    assert server.locked
    changes.put_back(list[str]().append)
    assert not server.locked


def test_what_somebody_else_has_set_meanwhile_is_not_told_to_be_put_back(private_home: object) -> None:
    server: Any = Theirs()
    changes, said = Changes(server, {"sync_binlog": 0}, {"sync_binlog": 1}), list[str]()
    changes.make()
    server.query("SET GLOBAL sync_binlog = %s", [7])
    changes.put_back(said.append)
    assert said == ["sync_binlog is 7 now: somebody else has set it, and it stays so"]


def test_the_statements_to_run_by_hand_say_that_a_restart_loses_them(private_home: object) -> None:
    server: Any = Theirs()
    changes = Changes(server, {FLUSH: 2})
    assert changes.by_hand == f"SET GLOBAL {FLUSH} = 1; (SET GLOBAL is lost at a restart)"
