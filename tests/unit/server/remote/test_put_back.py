"""Settings of the user's own server that change before each slice are reported when all are put back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flushlab.errors import UsageError
from flushlab.record import ServerIdentity
from flushlab.server import FakeServer
from flushlab.server.remote import journal, put_back
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


def test_a_server_that_started_anew_keeps_what_it_starts_with(private_home: object) -> None:
    server: Any = Theirs()
    changes, said = Changes(server, {FLUSH: 2}), list[str]()
    changes.make()
    server.started_s += 500  # with 2 in its option file
    changes.put_back(said.append)
    assert server.read_back([FLUSH]) == {FLUSH: 2}
    assert said and "started anew" in said[0]
    assert not journal.files(put_back.FOLDER)


def test_what_alternates_is_put_back_on_a_server_that_started_anew(private_home: object) -> None:
    """The slices after the start have set it again."""
    server: Any = Theirs()
    changes = Changes(server, {FLUSH: 1}, {FLUSH: 2})
    changes.announce()
    server.started_s += 500
    server.query(f"SET GLOBAL {FLUSH} = %s", [2])
    changes.put_back(list[str]().append)
    assert server.read_back([FLUSH]) == {FLUSH: 1}


def test_a_redo_log_that_older_variables_sized_is_put_back_to_its_size(private_home: object) -> None:
    shown, in_force = 100 << 20, 4 << 30
    server: Any = Theirs(
        identity=ServerIdentity(flavor="mysql", version=(8, 0, 36), version_text="8.0.36"),
        values={"innodb_redo_log_capacity": shown},
        answers={
            "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_%'": [
                ("Innodb_redo_log_capacity_resized", str(in_force)),
                ("Innodb_redo_log_resize_status", "OK"),
            ]
        },
    )
    changes = Changes(server, {"innodb_redo_log_capacity": 8 << 30})
    assert changes.before == {"innodb_redo_log_capacity": in_force}
    changes.make()
    changes.put_back(list[str]().append)
    assert server.read_back(["innodb_redo_log_capacity"]) == {"innodb_redo_log_capacity": in_force}


def test_certificates_that_are_gone_leave_the_file_and_say_so(
    private_home: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = Theirs()
    changes = Changes(server, {FLUSH: 2})
    changes.make()
    (file,) = journal.files(put_back.FOLDER)
    monkeypatch.setattr(journal.Entry, "is_left", True)
    gone = UsageError("the certificates in '/srv/ca.pem' cannot be read")

    def refuse(*_: object, **__: object) -> None:
        raise gone

    monkeypatch.setattr(put_back, "RemoteServer", refuse)
    said = list[str]()
    put_back.put_back_left(said.append)
    assert file.exists()
    assert "certificates" in said[-1] and f"SET GLOBAL {FLUSH} = 1;" in said[-1]


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
