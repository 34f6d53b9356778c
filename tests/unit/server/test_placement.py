from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.server.placement import check_names


@pytest.mark.parametrize("name", ["datadir", "socket", "port", "bind-address", "PID_FILE", "init_file"])
def test_settings_that_place_the_server_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is set by the sandbox itself"):
        check_names({name: "x"})


def test_name_that_would_break_out_of_its_line_is_refused() -> None:
    with pytest.raises(UsageError, match="is not the name of a server variable"):
        check_names({"sync_binlog\n[client]": 1})


def test_names_are_spelled_as_variables() -> None:
    assert check_names({"Sync-Binlog": 1}) == {"sync_binlog": 1}
