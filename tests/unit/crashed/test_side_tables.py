"""Side tables: the states that DDL goes through, and which of them a crash has left."""

from __future__ import annotations

from pathlib import Path

from flushlab.crashed import ddl_workload
from flushlab.crashed.ddl_workload import Shape, after, left_over, reached, statement

ROUND = 8
"""Steps until the next table is made."""


def test_each_step_leaves_another_state() -> None:
    states = [after(step) for step in range(1, 2 * ROUND) if step != ROUND]
    assert all(states[number] not in states[:number] for number in range(len(states)))


def test_steps_make_a_table_change_it_and_drop_it() -> None:
    first = [statement(step, "db").split(" (")[0] for step in range(1, ROUND + 2)]
    assert first[0] == "CREATE TABLE db.side_0"
    assert first[5:] == [
        "RENAME TABLE db.side_0 TO db.side_0_renamed",
        "TRUNCATE TABLE db.side_0_renamed",
        "DROP TABLE db.side_0_renamed",
        "CREATE TABLE db.side_1",
    ]
    assert after(0) == after(ROUND) == {}
    assert after(ROUND + 1) == {"side_1": Shape(("id", "pad"), ("PRIMARY",), 0)}


def test_the_statement_under_way_may_be_there_but_none_beyond_it() -> None:
    assert reached(after(5), acknowledged=5) == 5
    assert reached(after(6), acknowledged=5) == 6
    assert reached(after(7), acknowledged=5) is None


def test_an_earlier_state_is_statements_lost() -> None:
    assert reached(after(3), acknowledged=6) == 3
    assert reached({}, acknowledged=ROUND + 3) == ROUND


def test_a_table_that_is_half_made_is_no_state() -> None:
    without_index = {"side_0": after(4)["side_0"]._replace(indexes=("PRIMARY",), rows=63)}
    assert reached(without_index, acknowledged=4) is None
    both = {**after(5), **after(6)}
    assert reached(both, acknowledged=5) is None


def test_files_of_no_table_are_left_over(tmp_path: Path) -> None:
    names = (
        "side_3.ibd",
        "side_3.frm",
        "side_2_renamed.ibd",
        "#sql-ib77.ibd",
        "flushlab_acks.ibd",
        "db.opt",
    )
    for name in names:
        (tmp_path / name).touch()
    assert left_over(tmp_path, {"side_3": ddl_workload.after(1)["side_0"]}) == [
        "#sql-ib77.ibd",
        "side_2_renamed.ibd",
    ]
