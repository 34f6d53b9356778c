"""What users are told of settings that a server refused."""

from __future__ import annotations

from flushlab.errors import UsageError
from flushlab.server.sandbox.log import refusal
from tests.unit.builds import MYSQL80


def test_a_refused_setting_keeps_the_servers_reason() -> None:
    reason = "Unknown suffix 'a' used for variable 'mysqlx-port' (value 'abc')."
    error = refusal(reason, MYSQL80)
    assert type(error) is UsageError
    assert error.message == f"mysql@8.0.15 refused the settings: {reason}"
