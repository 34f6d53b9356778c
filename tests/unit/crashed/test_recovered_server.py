"""What a server says when it does not start."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.crashed import recovered_server
from flushlab.crashed.judge import RecoveredServer
from flushlab.crashed.recovered_server import AcksTable, counted_mariadb, counted_mysql, said
from flushlab.errors import NoSpace, ServerDied, ServerError
from flushlab.server.control import StatementFailed


def test_the_first_errors_of_a_log_are_told_and_no_dump_of_a_page() -> None:
    log = """the server did not become ready; its log says:
2026-11-22T22:46:02.1Z 0 [System] [MY-013576] [InnoDB] InnoDB initialization has started.
2026-11-22T22:46:02.2Z 0 [ERROR] [MY-011906] [InnoDB] Database page corruption on disk
 len 16384; hex c8cfc015000000eb [ERROR]
2026-11-22 22:46:03 0 [ERROR] InnoDB: Plugin initialization aborted
2026-11-22 22:46:04 0 [ERROR] Aborting"""
    assert said(log) == (
        "2026-11-22T22:46:02.2Z 0 [ERROR] [MY-011906] [InnoDB] Database page corruption on disk"
        " / 2026-11-22 22:46:03 0 [ERROR] InnoDB: Plugin initialization aborted"
    )


def test_without_an_error_the_last_line_is_told() -> None:
    assert said("it was killed\nby signal 9\n") == "by signal 9"


def test_gtids_are_counted_as_the_servers_write_them() -> None:
    one, other = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
    assert counted_mysql("") == 0
    assert counted_mysql(f"{one}:1-5:7:11-18,\n{other}:1") == 15
    assert counted_mariadb("") == 0
    assert counted_mariadb("0-1-1234") == 1234
    assert counted_mariadb("0-1-12,1-1-3") == 15


class Silent:
    """A server that answers nothing."""

    def __init__(self, error: ServerError, *, dies: bool = False, was_killed: bool = False) -> None:
        self.error, self.dies, self.was_killed = error, dies, was_killed

    def query(self, _sql: str) -> object:
        raise self.error

    def alive(self) -> bool:
        return not self.dies


def test_a_server_that_lives_and_does_not_answer_in_time_has_lost_nothing_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovered_server, "_DYING_S", 0.0)
    silent: Any = Silent(ServerError("the server s1 does not answer within 900 s"))
    with pytest.raises(ServerError, match="within 900 s"):
        recovered_server.ask(silent, None)
    assert silent.answer_s == 900.0


@pytest.mark.parametrize("errno", [1021, 1037, 1040, 1041])
def test_a_server_that_lacks_memory_space_or_a_connection_has_lost_nothing_that_is_known(errno: int) -> None:
    silent: Any = Silent(StatementFailed(errno, "Out of memory", "SELECT 1"))
    with pytest.raises(StatementFailed, match="Out of memory"):
        recovered_server.ask(silent, None)


def test_a_server_that_the_kernel_kills_has_lost_nothing_that_is_known() -> None:
    silent: Any = Silent(ServerDied("it is no longer running"), dies=True, was_killed=True)
    with pytest.raises(NoSpace, match="SIGKILL"):
        recovered_server.ask(silent, None)


@pytest.mark.parametrize("killed_by_the_kernel", [True, False])
def test_a_server_that_the_kernel_kills_after_its_second_start_has_lost_nothing_that_is_known(
    monkeypatch: pytest.MonkeyPatch, killed_by_the_kernel: bool
) -> None:
    monkeypatch.setattr(recovered_server, "look", lambda *_: RecoveredServer({}))
    died = ServerDied("it is no longer running; its log ends with:\n[ERROR] page 4")
    server: Any = Silent(died, dies=True, was_killed=killed_by_the_kernel)
    server.kill = server.start_again = lambda: None
    if killed_by_the_kernel:
        with pytest.raises(NoSpace, match="SIGKILL"):
            recovered_server.ask(server, AcksTable("d", 1))
    else:
        assert recovered_server.ask(server, AcksTable("d", 1)).not_again == "[ERROR] page 4"


@pytest.mark.parametrize(
    ("error", "dies"),
    [
        (ServerError("it does not answer"), True),
        (ServerDied("it is no longer running"), True),
        (StatementFailed(1034, "Incorrect key file", "SELECT 1"), False),
    ],
)
def test_a_server_that_dies_of_a_question_or_refuses_it_cannot_read_its_tables(
    error: ServerError, dies: bool
) -> None:
    silent: Any = Silent(error, dies=dies)
    assert recovered_server.ask(silent, None).extra == (f"its tables cannot be read: {error}",)
