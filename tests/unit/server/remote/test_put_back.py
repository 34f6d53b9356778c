"""Settings of the user's own server that change before each slice are reported when all are put back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flushlab.errors import ServerDied, SettingsTouched, UsageError
from flushlab.record import Arm, ServerIdentity
from flushlab.server.remote import journal, put_back
from flushlab.server.remote.login import from_nodes
from flushlab.server.remote.put_back import Changes, require_kept
from flushlab.server.remote.server import RemoteGroup
from flushlab.trial.runner import RemoteSwitching
from tests.fakes.server import FakeServer

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


def switching_of(server: Any) -> RemoteSwitching:
    """The switch before each slice."""
    return RemoteSwitching(RemoteGroup([server]), {}, {FLUSH: 1}, {FLUSH: None})


def switch(server: Any, value: int) -> None:
    switching_of(server).become(Arm(name="arm", settings={FLUSH: value}))


@pytest.mark.parametrize("now", [1, 2], ids=["after a slice", "amid a slice"])
def test_what_alternated_is_told_to_be_put_back(private_home: object, now: int) -> None:
    server: Any = Theirs()
    changes, said = Changes(server, {FLUSH: 1}, {FLUSH: 2}), list[str]()
    changes.announce()
    switch(server, 2)
    switch(server, now)
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
    assert said == [
        f"db1:3306: the server has started anew, and has its own settings: {FLUSH} is 2, and was 1"
    ]
    assert not journal.files(put_back.FOLDER)


def test_what_alternates_is_put_back_on_a_server_that_started_anew(private_home: object) -> None:
    """The slices after the start have set it again."""
    server: Any = Theirs()
    changes, said = Changes(server, {FLUSH: 1}, {FLUSH: 2}), list[str]()
    changes.announce()
    server.started_s += 500
    switch(server, 2)
    changes.put_back(said.append)
    assert server.read_back([FLUSH]) == {FLUSH: 1}
    assert said == [
        f"put back: SET GLOBAL {FLUSH} = 1;",
        f"db1:3306: the server has started anew, and has its own settings: {FLUSH} is 1, as before",
    ]


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
    monkeypatch.setattr(journal.JournalEntry, "is_left", True)
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


@pytest.mark.parametrize(
    ("slice_of", "theirs"),
    [(2, 1), (1, 2), (2, 0), (1, 0)],
    ids=["their old value", "the value of an arm", "another one", "another one in the base"],
)
def test_what_somebody_else_sets_in_mid_run_stays_and_ends_the_run(
    private_home: object, slice_of: int, theirs: int
) -> None:
    server: Any = Theirs()
    changes, said = Changes(server, {}, {FLUSH: 2}), list[str]()
    changes.announce()
    switch(server, slice_of)
    server.query(f"SET GLOBAL {FLUSH} = %s", [theirs])
    words = f"of db1:3306: {FLUSH} is {theirs}, and flushlab had set {slice_of}"
    with pytest.raises(SettingsTouched, match=words):
        switch(server, 2)
    changes.put_back(said.append)
    assert server.read_back([FLUSH]) == {FLUSH: theirs}
    assert not any(line.startswith("put back") for line in said)
    assert not journal.files(put_back.FOLDER)


def test_what_somebody_else_sets_between_a_switch_and_its_reading_stays(
    private_home: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = Theirs()
    changes, said, switching = Changes(server, {}, {FLUSH: 2}), list[str](), switching_of(server)
    changes.announce()
    for value in (2, 1):
        assert switching.become(Arm(name="arm", settings={FLUSH: value})) is None
    query = server.query

    def overtaken(sql: str, *given: Any, **more: Any) -> Any:
        found = query(sql, *given, **more)
        if sql.startswith("SET GLOBAL"):
            query(f"SET GLOBAL {FLUSH} = %s", [0])
        return found

    monkeypatch.setattr(server, "query", overtaken)
    with pytest.raises(SettingsTouched, match=f"{FLUSH} is 0, and flushlab had set 2"):
        switching.become(Arm(name="arm", settings={FLUSH: 2}))
    monkeypatch.undo()
    changes.put_back(said.append)
    assert server.read_back([FLUSH]) == {FLUSH: 0}
    assert said == [f"{FLUSH} is 0 now: somebody else has set it, and it stays so"]


def test_what_somebody_else_sets_in_a_single_run_is_noticed(private_home: object) -> None:
    server: Any = Theirs()
    changes = Changes(server, {FLUSH: 2})
    changes.make()
    require_kept(server)
    server.query(f"SET GLOBAL {FLUSH} = %s", [1])
    with pytest.raises(SettingsTouched, match=f"{FLUSH} is 1, and flushlab had set 2"):
        require_kept(server)
    changes.put_back(list[str]().append)
    assert server.read_back([FLUSH]) == {FLUSH: 1}


def test_a_restart_in_mid_run_is_not_taken_for_somebody_else(private_home: object) -> None:
    server: Any = Theirs()
    changes, said = Changes(server, {}, {FLUSH: 2}), list[str]()
    changes.announce()
    switch(server, 2)
    server.started_s += 500
    server.query(f"SET GLOBAL {FLUSH} = %s", [1])  # by its option file
    with pytest.raises(SettingsTouched, match=f"db1:3306 started anew: {FLUSH} is 1"):
        switching_of(server).require_kept()
    changes.put_back(said.append)
    assert said == [
        f"db1:3306: the server has started anew, and has its own settings: {FLUSH} is 1, as before"
    ]


def test_a_value_that_was_set_and_not_read_back_is_put_back_whatever_it_is(private_home: object) -> None:
    server: Any = Theirs(values={"innodb_io_capacity": 200})
    changes = Changes(server, {}, {"innodb_io_capacity": 1777})
    changes.announce()
    server.made["innodb_io_capacity"] = None  # a Ctrl-C in the midst of the switch
    server.query("SET GLOBAL innodb_io_capacity = %s", [1700])  # as the server rounds it
    changes.put_back(list[str]().append)
    assert server.read_back(["innodb_io_capacity"]) == {"innodb_io_capacity": 200}


class Silent(Theirs):
    """One that answers nothing for so many statements, each of which takes its limit, and then goes on."""

    silent_for = 0
    interrupted = False

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Answers late or never; a Ctrl-C comes while it is waited for, if it is to come."""
        if self.silent_for:
            self.silent_for -= 1
            if self.interrupted:
                raise KeyboardInterrupt
            self.clock_s += answer_s or 0.0
            raise ServerDied("the server at db1:3306 does not answer: timed out")
        return super().query(sql, args, answer_s=answer_s)

    clock_s = 0.0


@pytest.fixture
def silent(private_home: object, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Changes]:
    """A server with the settings of an arm, and their changes; no time passes but the server's."""
    server: Any = Silent()
    monkeypatch.setattr("flushlab.server.remote.journal.time.monotonic", lambda: server.clock_s)
    changes = Changes(server, {}, {FLUSH: 2})
    changes.announce()
    switch(server, 2)
    return server, changes


BY_HAND = f"SET GLOBAL {FLUSH} = 1; (SET GLOBAL is lost at a restart)"


def test_a_server_that_answers_again_within_the_wait_is_put_back(silent: tuple[Any, Changes]) -> None:
    server, changes = silent
    said = list[str]()
    server.silent_for = 1
    changes.put_back(said.append)
    assert "db1:3306 does not answer: waiting for 60 s" in said[0]
    assert said[1:] == [f"put back: SET GLOBAL {FLUSH} = 1;"]


def test_a_server_that_stays_silent_leaves_the_statements_and_the_file(silent: tuple[Any, Changes]) -> None:
    server, changes = silent
    said = list[str]()
    server.silent_for = 1000
    changes.put_back(said.append)
    assert said[-1].endswith(BY_HAND) and server.clock_s <= 65
    assert journal.files(put_back.FOLDER)


def test_after_a_signal_nobody_waits_a_minute_for_a_silent_server(
    silent: tuple[Any, Changes], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, changes = silent
    said = list[str]()
    server.silent_for = 1000
    monkeypatch.setattr(journal, "signals", ["SIGTERM"])
    changes.put_back(said.append)
    assert len(said) == 1 and said[0].endswith(BY_HAND) and server.clock_s <= 5


def test_ctrl_c_while_a_silent_server_is_waited_for_ends_with_the_statements(
    silent: tuple[Any, Changes],
) -> None:
    server, changes = silent
    said = list[str]()
    server.silent_for, server.interrupted = 1000, True
    with pytest.raises(KeyboardInterrupt):
        changes.put_back(said.append)
    assert said[-1].endswith(BY_HAND)


def test_silence_is_reported_once_with_the_statements(silent: tuple[Any, Changes]) -> None:
    server, changes = silent
    said = list[str]()
    changes.report_silence(said.append)
    server.when_silent()
    server.when_silent()
    assert said == [f"warning: db1:3306 does not answer. If it stays so, by hand: {BY_HAND}"]


def test_the_statements_to_run_by_hand_say_that_a_restart_loses_them(private_home: object) -> None:
    server: Any = Theirs()
    changes = Changes(server, {FLUSH: 2})
    assert changes.by_hand == f"SET GLOBAL {FLUSH} = 1; (SET GLOBAL is lost at a restart)"
