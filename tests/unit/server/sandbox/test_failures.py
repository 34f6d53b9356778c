"""The error that fits what the server's log says of its end."""

from __future__ import annotations

from flushlab.errors import NoSpace
from flushlab.record import Endpoint
from flushlab.server.sandbox import log
from tests.unit.builds import MARIADB
from tests.unit.server.sandbox.test_log import MARIADB_MEMORY, MARIADB_SPACE


def test_a_full_disk_is_that_of_the_servers_data_and_a_full_memory_is_not() -> None:
    started, ran = (
        log.start_failed(MARIADB, Endpoint(user="root", password=""), {}, MARIADB_SPACE, "stopped"),
        log.died("s1", MARIADB_SPACE),
    )
    for error in (started, ran):
        assert isinstance(error, NoSpace)
        assert error.of_data
    memory = log.start_failed(MARIADB, Endpoint(user="root", password=""), {}, MARIADB_MEMORY, "stopped")
    assert isinstance(memory, NoSpace)
    assert not memory.of_data
