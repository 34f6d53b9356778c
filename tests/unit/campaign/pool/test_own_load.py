"""Settings that a load on the user's own server would not notice."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.campaign.pool.own_load import _require_noticed
from flushlab.errors import UsageError
from flushlab.server.control import READ_ONLY_VARIABLE, StatementFailed

ACCESS_DENIED = 1227


class Server:
    """One that answers a question for a session's value with this error; 0: with the value."""

    def __init__(self, errno: int) -> None:
        self._errno = errno

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        if self._errno:
            raise StatementFailed(self._errno, "no", sql)
        return [(1,)]


def required(errno: int) -> None:
    server: Any = Server(errno)
    _require_noticed(server, ["sync_binlog"])


def test_a_global_setting_is_noticed_and_a_copied_one_is_not() -> None:
    required(READ_ONLY_VARIABLE)
    with pytest.raises(UsageError, match="open connections keep the value"):
        required(0)


def test_another_error_is_no_proof_that_a_setting_is_global_alone() -> None:
    with pytest.raises(StatementFailed, match="1227"):
        required(ACCESS_DENIED)
