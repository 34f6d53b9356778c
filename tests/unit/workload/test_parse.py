from typing import Any

import pytest

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.workload.command import CommandWorkload
from flushlab.workload.parse import parse_timing, parse_workload
from flushlab.workload.tables import OltpWorkload, UpsertWorkload


def test_an_oltp_name_takes_its_shape() -> None:
    workload = parse_workload("oltp_update_non_index", {"threads": 4, "tables": 2, "table_size": 500})
    assert isinstance(workload, OltpWorkload)
    assert (workload.threads, workload.tables, workload.table_size) == (4, 2, 500)


def test_an_upsert_takes_its_own_options_and_defaults() -> None:
    shape: dict[str, Any] = {"threads": 2, "rows": 10, "key": "unique", "hit_ratio": 0.25, "commit": "1 s"}
    assert parse_workload("upsert", shape) == UpsertWorkload(
        threads=2, rows=10, key="unique", hit_ratio=0.25, commit="1 s", rand_type="uniform"
    )


def test_an_option_of_upsert_is_refused_where_nobody_takes_it() -> None:
    for text in ("oltp_update_non_index", "command: true"):
        with pytest.raises(UsageError, match="takes no --hit-ratio"):
            parse_workload(text, {"hit_ratio": 0.5})


def test_anything_after_command_is_a_program() -> None:
    assert parse_workload("command: make load", {}) == CommandWorkload(command="make load")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("oltp_update_nonindex", "did you mean oltp_update_non_index?"),
        ("tpcc", "oltp_point_select, data, upsert, txn:FILE, sql:FILE and 'command: …'"),
        ("upserts", "did you mean upsert?"),
        ("command:  ", "write --workload"),
    ],
)
def test_a_wrong_workload_is_refused_with_the_way_out(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_workload(text, {})
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize("shape", [{"threads": 0}, {"tables": 0}, {"table_size": 0}, {"rate": -1}])
def test_a_shape_that_makes_no_load_is_refused(shape: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        parse_workload("oltp_update_non_index", shape)


def test_data_of_the_same_tables_are_shared_whatever_the_threads() -> None:
    one = parse_workload("oltp_update_non_index", {"threads": 1})
    many = parse_workload("oltp_update_non_index", {"threads": 64})
    assert one.data_key == many.data_key
    assert one.data_key != parse_workload("oltp_update_non_index", {"tables": 2}).data_key


def test_the_options_of_flags_and_the_own_ones_make_one_workload() -> None:
    workload = parse_workload("oltp_write_only", {"threads": 2, "delete_inserts": 0, "skip_trx": "on"})
    assert isinstance(workload, OltpWorkload)
    assert (workload.threads, workload.statements.delete_inserts, workload.statements.skip_trx) == (
        2,
        0,
        True,
    )
    with pytest.raises(UsageError, match="the workload upsert takes no --skip-trx"):
        parse_workload("upsert", {"skip_trx": "on"})


def test_what_shapes_tables_or_their_rows_makes_other_data() -> None:
    def key(name: str = "oltp_read_write", **options: int | float | str) -> str:
        return str(parse_workload(name, {**options}).data_key)

    assert key() == key("oltp_insert") == key(point_selects=3, skip_trx="on", range_size=5)
    others = [
        *(key(auto_inc="off"), key(secondary="on"), key(create_secondary="off")),
        *(key(rand_spec_pct=5), key("oltp_insert", auto_inc="off")),
    ]
    assert len({key(), *others}) == 6


@pytest.mark.parametrize(
    ("rate", "options", "said"),
    [
        (0.0, {"profile": "ramp:100"}, "a profile is ramp:FROM-TO/SECONDSs"),
        (0.0, {"profile": "step:1,x/10s"}, '"x" is no rate'),
        (100.0, {"profile": "ramp:100-5000/60s"}, "exclude each other"),
        (0.0, {"rate_kind": "poisson"}, "there is no rate"),
    ],
)
def test_what_is_no_schedule_is_refused_before_a_server_is_there(
    rate: float, options: dict[str, Value], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        parse_workload("oltp_update_non_index", {"rate": rate, **options})


def test_a_short_window_has_a_short_warm_up() -> None:
    bounds = {s: (parse_timing(s).warm_up_s, parse_timing(s).max_warm_up_s) for s in (0.5, 2.0, 10.0)}
    assert bounds == {0.5: (0.5, 1.0), 2.0: (2.0, 4.0), 10.0: (2.0, 6.0)}


@pytest.mark.parametrize("name", ["my/load.lua", "txn:my/load.lua", "sql:my/load.lua"])
def test_a_lua_script_is_named_with_the_ways_to_run_it(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"^my/load\.lua is a Lua script, which flushlab does not run"
    ) as refused:
        parse_workload(name, {})
    assert "txn:FILE" in str(refused.value.hint)
    assert "'command: sysbench my/load.lua --mysql-socket=$FLUSHLAB_SOCKET" in str(refused.value.hint)
    with pytest.raises(UsageError) as refused:
        parse_workload("/usr/share/sysbench/oltp_insert.lua", {})
    assert str(refused.value.hint).startswith("use --workload oltp_insert, ")
    assert isinstance(parse_workload("command: sysbench x.lua", {}), CommandWorkload)
