from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.spec.option import flag
from flushlab.workload.options import settle
from flushlab.workload.parse import NOT_TAKEN, all_options, build_workload, workload_options
from flushlab.workload.tables import OltpWorkload

NAMES = ("oltp_update_non_index", "upsert", "data", "txn:x.toml", "sql:x.sql", "command: true")


@pytest.mark.parametrize("name", NAMES)
def test_every_default_is_a_value_that_its_option_takes(name: str) -> None:
    for option in workload_options(name).values():
        assert option.check(option.default) == option.default
        assert option.help


def test_what_is_not_asked_for_has_its_default() -> None:
    settled = settle("upsert", workload_options("upsert"), {"rows": 7})
    assert (settled["rows"], settled["threads"], settled["rand_type"]) == (7, 16, "uniform")
    assert workload_options("oltp_update_non_index")["rand_type"].default == "special"


@pytest.mark.parametrize(
    ("name", "options", "message", "hint"),
    [
        ("upsert", {"hit_rate": 1}, "the workload upsert takes no hit_rate", "did you mean hit_ratio?"),
        ("upsert", {"zzz": 1}, "takes no zzz", "it takes threads, tables"),
        ("sql:x.sql", {"threads": 4}, "the workload sql takes no threads", "it takes transport"),
        ("command: true", {"threads": 4}, "the workload command takes no threads", "it takes timeout"),
        ("oltp_update_non_index", {"rows": 4}, "takes no rows", "it takes threads"),
        ("upsert", {"rows": 0}, "rows 0 is out of range", "it takes 1 to 10000"),
        ("upsert", {"hit_ratio": 1.01}, "hit_ratio 1.01 is out of range", "it takes 0 to 1"),
        ("upsert", {"hit_ratio": float("nan")}, "hit_ratio nan is out of range", "it takes 0 to 1"),
        ("upsert", {"threads": 1.5}, "threads is 1.5; it takes a whole number", ""),
        ("upsert", {"threads": True}, "threads is True; it takes a whole number", ""),
        ("upsert", {"threads": "4"}, "threads is '4'; it takes a whole number", ""),
        ("upsert", {"rate": "fast"}, "rate is 'fast'; it takes a number", ""),
        ("upsert", {"key": "foreign"}, "unknown key 'foreign'", "unique, primary"),
        ("upsert", {"ssl_mode": "preferred"}, "unknown ssl_mode 'preferred'", "verify_identity"),
        ("sql:x.sql", {"ssl_mode": "required"}, "ssl_mode required needs TCP", "choose transport tcp"),
        ("upsert", {"transport": "tcp", "ssl_mode": "verify_ca"}, "verify_ca needs ssl_ca", "ca.pem"),
        ("upsert", {"transport": "tcp", "ssl_ca": "/x"}, "disabled verifies no certificate", "verify_ca"),
        (
            "upsert",
            {"transport": "tcp", "ssl_mode": "VERIFY_CA", "ssl_ca": "/no/ca.pem"},
            "ssl_ca /no/ca.pem is not a file",
            "PEM file",
        ),
        ("oltp_insert", {"skip_trx": "maybe"}, "skip_trx is 'maybe'; it takes on or off", "On: no BEGIN"),
        ("oltp_insert", {"skip_trx": 2}, "skip_trx is 2; it takes on or off", ""),
        ("oltp_insert", {"rand_type": "zipf"}, "unknown rand_type 'zipf'", "gaussian, pareto"),
        ("oltp_insert", {"rand_pareto_h": 1}, "rand_pareto_h 1 is out of range", "it takes 0.001 to 0.999"),
        ("oltp_insert", {"percentile": 99}, "option percentile is not supported", "p99.9"),
        ("oltp_insert", {"time": 60}, "option time is not supported", "--duration"),
        ("upsert", {"point_selects": 1}, "takes no point_selects", ""),
        ("upsert", {"commit": 5}, "commit is 5; it takes a string", "autocommit"),
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


@pytest.mark.parametrize("value", ["on", "ON", True])
def test_a_switch_is_on_in_any_spelling(value: str | bool) -> None:
    workload = build_workload("oltp_read_write", {"skip_trx": value, "point_selects": 3})
    assert isinstance(workload, OltpWorkload)
    assert (workload.statements.skip_trx, workload.statements.point_selects) == (True, 3)
    assert workload.statements.range_selects


def test_no_option_of_a_workload_is_refused_as_sysbenchs() -> None:
    assert not all_options().keys() & NOT_TAKEN.keys()
