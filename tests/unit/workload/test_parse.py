"""What a result counts, and how many rows that writes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from flushlab.errors import UsageError
from flushlab.record import TxnStatement, Value
from flushlab.spec.option import SWITCH, Field, flag
from flushlab.workload.command import CommandWorkload
from flushlab.workload.options import settle
from flushlab.workload.parse import (
    MOST_BYTES,
    NOT_TAKEN,
    Event,
    all_options,
    build_workload,
    event_of,
    parse_timing,
    parse_workload,
    rows_of,
    source_text,
    sources_of,
    workload_options,
)
from flushlab.workload.tables import OLTP_NAMES, OltpWorkload, UpsertWorkload


def test_an_upsert_takes_its_own_options_and_defaults() -> None:
    shape: dict[str, Any] = {"threads": 2, "rows": 10, "key": "unique", "hit_ratio": 0.25, "commit": "1 s"}
    assert parse_workload("upsert", shape) == UpsertWorkload(
        threads=2, rows=10, key="unique", hit_ratio=0.25, commit="1 s", rand_type="uniform"
    )


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


def test_data_of_the_same_tables_are_shared_whatever_the_threads() -> None:
    one = parse_workload("oltp_update_non_index", {"threads": 1})
    many = parse_workload("oltp_update_non_index", {"threads": 64})
    assert one.data_key == many.data_key
    assert one.data_key != parse_workload("oltp_update_non_index", {"tables": 2}).data_key


def test_the_options_of_flags_and_the_own_ones_make_one_workload() -> None:
    workload = parse_workload("oltp_write_only", {"threads": 2, "delete_inserts": 0, "skip_trx": "on"})
    assert isinstance(workload, OltpWorkload)
    statements = workload.statements
    assert (workload.threads, statements.delete_inserts, statements.skip_trx) == (2, 0, True)
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


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1", 0),
        ("REPLACE INTO t VALUES (?, ?)", 1),
        ("INSERT INTO t (a, b) VALUES (?, ?), (?, NOW()),(1, f(2, (3)))", 3),
        ("INSERT INTO t VALUES (?, '), (') ON DUPLICATE KEY UPDATE a = VALUES(a)", 1),
        ("INSERT INTO t VALUES ROW(1, 2), ROW(3, 4)", 2),
        ("INSERT INTO t SET a = ?", 1),
        ("INSERT INTO t SELECT * FROM u", None),
        ("UPDATE t SET a = ? WHERE id = ?", 1),
    ],
)
def test_a_statement_writes_the_rows_of_its_values_list(sql: str, rows: int | None) -> None:
    assert rows_of(TxnStatement(name="", sql=sql, place="", writes=rows != 0)) == rows


@pytest.mark.parametrize(
    ("name", "options", "event"),
    [
        ("oltp_update_index", {}, Event("transactions/s", 1)),
        ("oltp_read_only", {}, Event("transactions/s", 0)),
        ("oltp_write_only", {}, Event("transactions/s", 4)),
        ("oltp_write_only", {"index_updates": 11}, Event("transactions/s", 14)),
        ("upsert", {"rows": 100}, Event("rows/s", 1)),
        ("command: true", {}, Event("s")),
    ],
)
def test_each_workload_counts_something(name: str, options: dict[str, Any], event: Event) -> None:
    assert event_of(build_workload(name, options)) == event


def test_events_differ_in_unit_or_rows_as_far_as_these_are_known() -> None:
    one, unknown = Event("transactions/s", 1), Event("transactions/s")
    assert one.differs(Event("rows/s", 1)) and one.differs(Event("transactions/s", 2))
    assert one.differs(Event("transactions/s", 0))
    assert not one.differs(Event("transactions/s", 1.05)) and not one.differs(unknown)


TXN = """setup_file = "shop.sql"
parameter.id = { type = "integer", low = 1, high = 10 }
[transaction.pay]
statements = ["UPDATE account SET n = n + 1 WHERE id = :id"]
"""
SETUP = "CREATE TABLE account (id INT PRIMARY KEY, n INT);\nCREATE USER a IDENTIFIED BY 'geheim';\n"


def test_transactions_bring_their_text_and_their_setup(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(TXN)
    (tmp_path / "shop.sql").write_text(SETUP)
    workload = build_workload("txn:shop.toml", {}, folder=tmp_path)
    (tmp_path / "shop.toml").write_text("# another one")
    (tmp_path / "shop.sql").unlink()
    text, setup = sources_of(workload)
    assert (text.kind, text.name, text.text) == ("transactions", "shop.toml", TXN)
    assert text.sha256 == hashlib.sha256(TXN.encode()).hexdigest()
    assert (setup.kind, setup.name, setup.size_bytes) == ("setup", "shop.sql", len(SETUP))
    assert setup.text == SETUP.replace("'geheim'", "***")


def test_a_script_is_a_source(tmp_path: Path) -> None:
    (tmp_path / "load.sql").write_text("SELECT 1;\n")
    assert sources_of(build_workload("upsert", {})) == ()
    (source,) = sources_of(build_workload("sql:load.sql", {}, folder=tmp_path))
    assert (source.kind, source.name, source.text) == ("script", "load.sql", "SELECT 1;\n")


def test_a_command_brings_the_scripts_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "load.sh").write_text("#!/bin/sh\nmysql -pgeheim < rows.sql\n")
    (tmp_path / "load.sh").chmod(0o755)
    (tmp_path / "tool").write_bytes(b"\x7fELF\0")
    (source,) = sources_of(build_workload("command: ./load.sh tool 5", {}, folder=tmp_path))
    assert (source.name, source.text) == ("./load.sh", "#!/bin/sh\nmysql -p*** < rows.sql\n")


def test_files_that_are_no_scripts_are_no_sources(tmp_path: Path) -> None:
    """No word marks the only line of a file as a password."""
    for name in ("pass", "key.pem", "client.cnf", "data.csv"):
        (tmp_path / name).write_text("geheim")
    (tmp_path / "load.sh").write_text("true\n")
    line = "command: sh -c './load.sh --secret-file=pass <pass' pass --key key.pem --from data.csv client.cnf"
    (source,) = sources_of(build_workload(line, {}, folder=tmp_path))
    assert (source.name, source.text) == ("./load.sh", "true\n")


def test_a_private_key_in_a_script_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "load.py").write_text(
        "KEY = '-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----'\n"
    )
    (source,) = sources_of(build_workload("command: python load.py", {}, folder=tmp_path))
    assert source.text == "KEY = '-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----'\n"


def test_the_digest_of_a_text_with_a_password_does_not_let_anybody_try_passwords_out() -> None:
    content = b"[client]\npassword = geheim\n"
    source = source_text("option file", "my.cnf", content)
    assert source.text == "[client]\npassword = ***\n"
    assert source.sha256 == hashlib.sha256(source.text.encode()).hexdigest()
    plain = source_text("script", "x.sql", b"SELECT 1")
    assert plain.sha256 == hashlib.sha256(b"SELECT 1").hexdigest()


@pytest.mark.parametrize("content", [b"x" * (MOST_BYTES + 1), b"\xff\xfe", b"a\0b"])
def test_what_is_long_or_no_text_is_named_by_its_digest(content: bytes) -> None:
    source = source_text("script", "x", content)
    assert (source.text, source.size_bytes) == (None, len(content))
    assert source.sha256 == hashlib.sha256(content).hexdigest()


NAMES = ("oltp_update_non_index", "upsert", "data", "txn:x.toml", "sql:x.sql", "command: true")


@pytest.mark.parametrize("name", NAMES)
def test_every_default_is_a_value_that_its_option_takes(name: str) -> None:
    for option in workload_options(name).values():
        assert option.check(option.default) == option.default
        assert option.option.help


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
        ("upsert", {"key": "foreign"}, "key: 'foreign' is not one of unique, primary", ""),
        (
            "upsert",
            {"ssl_mode": "preferred"},
            "ssl_mode: 'preferred' is not one of disabled, required, verify_ca",
            "",
        ),
        ("sql:x.sql", {"ssl_mode": "required"}, "ssl_mode required needs TCP", "choose transport tcp"),
        ("upsert", {"transport": "tcp", "ssl_mode": "verify_ca"}, "verify_ca needs ssl_ca", "ca.pem"),
        ("upsert", {"transport": "tcp", "ssl_ca": "/x"}, "disabled verifies no certificate", "verify_ca"),
        (
            "upsert",
            {"transport": "tcp", "ssl_mode": "VERIFY_CA", "ssl_ca": "/no/ca.pem"},
            "ssl_ca /no/ca.pem is not a file",
            "PEM file",
        ),
        ("oltp_insert", {"skip_trx": "maybe"}, "skip_trx: 'maybe' is not one of on, off", "On: no BEGIN"),
        ("oltp_insert", {"skip_trx": 2}, "skip_trx: '2' is not one of on, off", ""),
        (
            "oltp_insert",
            {"rand_type": "zipf"},
            "rand_type: 'zipf' is not one of special",
            "did you mean zipfian?",
        ),
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


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "workloads.md"
WORKLOADS = {
    "oltp": "oltp_read_write",
    "upsert": "upsert",
    "data": "data",
    "txn": "txn:x.toml",
    "sql": "sql:x.sql",
    "command": "command: x",
}


def rows() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").partition("## Options")[2].partition("\n## ")[0].splitlines()
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")
    ]
    assert table
    return table


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_option_is_described_with_its_default_and_limits(name: str) -> None:
    described = {row[0].strip("`"): row for row in rows() if f"`{name}`" in row[1].split(", ")}
    options = workload_options(WORKLOADS[name])
    assert described.keys() == options.keys()
    for option in options.values():
        _, _, default, values = described[option.name]
        due = f"{option.default:g}" if isinstance(option.default, float | int) else option.default
        assert default == due
        for limit in limits(option):
            assert limit in values


def test_every_workload_of_sysbench_takes_the_same_options() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in OLTP_NAMES:
        assert workload_options(name) == workload_options("oltp_read_write")
        assert f"`{name}`" in page


def limits(option: Field) -> tuple[str, ...]:
    if option.words == SWITCH:
        return ("off" if option.default == "on" else "on",)
    if option.number is None:
        return option.words
    if option.name == "rate":
        return (f"{option.number.le:.12g}",)
    return (f"{option.number.ge:.12g} to {option.number.le:.12g}",)
