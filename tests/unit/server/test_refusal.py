"""What users are told of settings that a server refused."""

from __future__ import annotations

from flushlab.errors import UnknownSetting, UsageError
from flushlab.server.refusal import refusal
from flushlab.settings.catalog import load_catalog
from tests.unit.builds import MARIADB, MYSQL80


def test_a_setting_that_only_the_server_knows_keeps_the_servers_reason() -> None:
    reason = "Unknown suffix 'a' used for variable 'mysqlx-port' (value 'abc')."
    error = refusal(reason, {"mysqlx_port": "abc"}, load_catalog(), MYSQL80)
    assert type(error) is UsageError
    assert error.message == f"mysql@8.0.15 refused the settings: {reason}"


def test_a_misspelled_setting_gets_the_nearest_names() -> None:
    error = refusal("unknown variable 'sync_binlogs=1'", {"sync_binlogs": 1}, load_catalog(), MARIADB)
    assert type(error) is UnknownSetting
    assert error.message == "sync_binlogs is not a setting that flushlab knows"
    assert error.hint == "did you mean sync_binlog?"
