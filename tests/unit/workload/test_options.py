from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.workload import build_workload, workload_options
from flushlab.workload.options import settle
from flushlab.workload.parse import flag

NAMES = ("oltp_update_non_index", "upsert", "sql:x.sql", "command: true")


@pytest.mark.parametrize("name", NAMES)
def test_every_default_is_a_value_that_its_option_takes(name: str) -> None:
    for option in workload_options(name).values():
        assert option.check(option.default) == option.default
        assert option.help


def test_what_is_not_asked_for_has_its_default() -> None:
    settled = settle("upsert", workload_options("upsert").values(), {"rows": 7})
    assert (settled["rows"], settled["threads"], settled["rand_type"]) == (7, 16, "uniform")
    assert workload_options("oltp_update_non_index")["rand_type"].default == "special"


@pytest.mark.parametrize(
    ("name", "options", "message", "hint"),
    [
        ("upsert", {"hit_rate": 1}, "the workload upsert takes no hit_rate", "did you mean hit_ratio?"),
        ("upsert", {"profile": 1}, "takes no profile", "it takes threads, tables"),
        ("sql:x.sql", {"threads": 4}, "the workload sql takes no threads", "it takes transport"),
        ("command: true", {"threads": 4}, "the workload command takes no threads", "it takes no options"),
        ("oltp_update_non_index", {"rows": 4}, "takes no rows", "it takes threads"),
        ("upsert", {"rows": 0}, "rows 0 is out of range", "it takes 1 to 10000"),
        ("upsert", {"hit_ratio": 1.01}, "hit_ratio 1.01 is out of range", "it takes 0 to 1"),
        ("upsert", {"hit_ratio": float("nan")}, "hit_ratio nan is out of range", "it takes 0 to 1"),
        ("upsert", {"threads": 1.5}, "threads is 1.5; it takes a whole number", ""),
        ("upsert", {"threads": True}, "threads is True; it takes a whole number", ""),
        ("upsert", {"threads": "4"}, "threads is '4'; it takes a whole number", ""),
        ("upsert", {"rate": "fast"}, "rate is 'fast'; it takes a number", ""),
        ("upsert", {"key": "foreign"}, "key 'foreign' is not known", "unique or primary"),
        ("upsert", {"commit": 5}, "commit is 5; it takes a text", "autocommit"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_with_the_way_out(
    name: str, options: dict[str, Value], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        build_workload(name, options)
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


def test_a_flag_is_spelled_as_a_flag() -> None:
    with pytest.raises(UsageError, match="--hit-ratio 2 is out of range"):
        build_workload("upsert", {"hit_ratio": 2}, spelling=flag)
