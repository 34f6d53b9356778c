from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.settings.admission import parse_settings
from flushlab.settings.catalog import load_catalog


def parsed(given: dict[str, Value], nodes: int | None) -> dict[str, Value]:
    return parse_settings(given, "mariadb", (10, 11, 6), load_catalog(), nodes=nodes)


@pytest.mark.parametrize(
    ("name", "value", "nodes", "why"),
    [
        ("gcs.fc_limit", 64, 1, "gcs.fc_limit acts on a cluster only: add --cluster 3"),
        ("innodb-autoinc-lock-mode", 1, 3, "innodb_autoinc_lock_mode was set to 1, and Galera needs 2"),
        ("binlog_format", "statement", 3, "binlog_format was set to STATEMENT, and Galera needs ROW"),
    ],
)
def test_what_has_no_place_on_so_many_nodes_is_refused(name: str, value: Value, nodes: int, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed({name: value}, nodes)
    assert (caught.value.message, caught.value.hint) == (why, f"remove {name}")


def test_what_galera_needs_may_be_said() -> None:
    assert parsed({"innodb_autoinc_lock_mode": 2, "gcs.fc_limit": 64}, 3)
    assert parsed({"innodb_autoinc_lock_mode": 1}, 1)
    assert parsed({"innodb_autoinc_lock_mode": 1, "gcs.fc_limit": 64}, None), "nobody knows where it goes"
