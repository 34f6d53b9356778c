"""A restart for settings: what is refused, and what is the machine's fault."""

from __future__ import annotations

from typing import Any

import pytest

from flushlab.errors import FlushlabError, NoMemory, NoSpace, StartFailed
from flushlab.record import Value
from flushlab.server.protocol import Refusal
from flushlab.server.sandbox.reconfigure import _set_by_restart

HAD: dict[str, Value] = {"sync_binlog": 1}
WANTED: dict[str, Value] = {"innodb_log_file_size": 1 << 30, "log_bin": "ON"}


class Server:
    """Starts with what it had, and with other settings as it is told."""

    def __init__(self, error: FlushlabError, said: str) -> None:
        self.settings, self.error, self.said = HAD, error, said
        self.runs_with: dict[str, Value] | None = HAD

    def restart(self, settings: dict[str, Value]) -> None:
        self.runs_with = None
        if "innodb_log_file_size" in settings:
            raise self.error
        self.runs_with = settings

    def said_since_start(self) -> str:
        return self.said


@pytest.mark.parametrize(
    "error", [NoSpace("the disk is full"), NoMemory("the memory is full")], ids=["disk", "memory"]
)
def test_a_full_machine_refuses_no_setting_and_the_server_runs_as_before(error: FlushlabError) -> None:
    server: Any = Server(error, "[ERROR] No space left on device")
    with pytest.raises(type(error), match="is full"):
        _set_by_restart(server, WANTED)
    assert server.runs_with == HAD


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StartFailed("it did not start"), "[ERROR] unknown variable 'innodb_log_file_size=1G'"),
        (NoSpace("the disk is full"), "[ERROR] log file of this size: No space left on device"),
    ],
)
def test_a_setting_that_the_log_blames_is_refused_and_the_others_are_set(
    error: FlushlabError, said: str
) -> None:
    server: Any = Server(error, said)
    found = _set_by_restart(server, WANTED)
    assert found == [Refusal(name="innodb_log_file_size", value=1 << 30, reason=said)]
    assert server.runs_with == {"sync_binlog": 1, "log_bin": "ON"}
