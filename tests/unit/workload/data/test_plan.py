"""Plans: what is left out, and why. Statements are tried on real servers (integration)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flushlab.errors import MeasurementError
from flushlab.workload.data.plan import plan_of

Row = tuple[Any, ...]


def asked(tables: Sequence[Row], keys: Sequence[Row] = (), triggers: Sequence[Row] = ()) -> Any:
    """A server with these tables; whatever else it is asked for it has none of."""

    def query(sql: str, args: Sequence[Any] = ()) -> list[Row]:
        if "sql_mode" in sql:
            return [("STRICT_TRANS_TABLES",)]
        if "FROM information_schema.TABLES" in sql:
            return list(tables)
        if "FROM information_schema.STATISTICS" in sql:
            return list(keys)
        if "FROM information_schema.TRIGGERS" in sql:
            return list(triggers)
        return [(0,)] if sql.startswith("SELECT COUNT(*)") else []

    return query


def refusal(*tables: Row, **more: Any) -> MeasurementError:
    with pytest.raises(MeasurementError) as raised:
        plan_of(asked(tables, **more), databases=(), most=8, seed=1)
    return raised.value


def test_data_without_a_table_that_can_be_written_to_is_refused_with_the_reasons() -> None:
    keys = [(name, "PRIMARY", "id", None) for name in ("none", "log")]
    error = refusal(
        ("shop", "hits", "BASE TABLE", "MyISAM"),
        ("shop", "heap", "BASE TABLE", "InnoDB"),
        ("shop", "none", "BASE TABLE", "InnoDB"),
        ("shop", "log", "BASE TABLE", "InnoDB"),
        ("shop", "v", "VIEW", None),
        keys=keys,
        triggers=[("orders", "INSERT INTO `Log` VALUES (NEW.id)")],
    )
    assert error.message == (
        "the data has no table that --workload data can write to: shop.hits (MyISAM, not InnoDB), shop.heap"
        " (no primary key), shop.none (no rows), shop.log (a trigger of orders uses it), 1 view"
    )
    assert "txn:FILE" in (error.hint or "")


def test_views_alone_and_nothing_at_all_are_refused() -> None:
    views = refusal(("shop", "a", "VIEW", None), ("shop", "b", "VIEW", None)).message
    assert views == "the data has no table that --workload data can write to: 2 views"
    assert refusal().message == "the data has no table that --workload data can write to"


def test_many_tables_are_counted() -> None:
    tables = [("shop", f"t{number}", "BASE TABLE", "MyISAM") for number in range(500)]
    assert refusal(*tables).message.endswith("shop.t4 (MyISAM, not InnoDB), 495 more tables")
