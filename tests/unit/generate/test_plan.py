"""Plans of rows: what is built in, what a file may say, and the mistakes that are found before a load."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.generate.plan import PERSON, FillPlan, builtin_names, parse_plan, read_plan

SHOP = """
[table.line]
rows = 500
primary_key = ["order_id", "nr"]
[table.line.column]
order_id = { type = "INT NOT NULL", generator = "foreign_key", table = "orders", column = "id" }
nr = { type = "TINYINT NOT NULL", generator = "integer", low = 1, high = 10 }

[table.orders]
rows = 100
primary_key = "id"
[table.orders.column]
id = { type = "INT NOT NULL", generator = "sequence" }
note = { type = "VARCHAR(20)", generator = "text", length = [0, 20], null = 0.25 }
"""


def column(text: str, *, rows: int = 100, more: str = "") -> FillPlan:
    return parse_plan(f"[table.t]\nrows = {rows}\n{more}\n[table.t.column]\nc = {text}\n", path="p.toml")


def values(plan: FillPlan) -> str:
    """All rows of the table `t`, as SQL."""
    return _core.sample_rows(plan.json.decode(), "t", list(range(plan.tables[0].rows)))


def test_the_built_in_plans_are_whole() -> None:
    assert builtin_names() == ("sbtest", "users")
    users = read_plan("users").tables[0]
    assert users.rows == 1_000_000
    assert users.columns == ("id", "email", "username", "password", "user_type", "created_at")
    assert "UNIQUE KEY `email` (`email`)" in users.create
    assert "KEY k_1 (k)" in read_plan("sbtest").tables[0].create


def test_rows_are_those_of_the_largest_table_and_the_others_keep_their_ratio() -> None:
    assert [read_plan("users", rows=7).tables[0].rows] == [7]
    scaled = parse_plan(SHOP, path="p.toml", rows=50)
    assert [(table.name, table.rows) for table in scaled.tables] == [("orders", 10), ("line", 50)]


def test_parents_come_first_and_their_keys_are_declared() -> None:
    orders, line = parse_plan(SHOP, path="p.toml").tables
    assert (orders.name, line.name) == ("orders", "line")
    assert "FOREIGN KEY (`order_id`) REFERENCES `orders` (`id`)" in line.create
    assert "PRIMARY KEY (`order_id`, `nr`)" in line.create


def test_the_seed_of_the_plan_is_that_of_its_rows() -> None:
    text = 'seed = 5\n[table.t.column]\nid = { type = "INT", generator = "sequence" }'
    assert parse_plan(text, path="p.toml").json.startswith(b'{"seed":5,')
    assert parse_plan(text, path="p.toml", seed=6).json.startswith(b'{"seed":6,')


@pytest.mark.parametrize(
    ("text", "why", "hint"),
    [
        ('{ type = "INT", generator = "sequance" }', "p.toml:5:33: there is no generator", "sequence"),
        ('{ type = "INT", genrator = "sequence" }', "p.toml:5:21: genrator is not a key", "generator"),
        ('{ type = "INT", generator = "sequence", stp = 2 }', "p.toml:5:45: stp is not a key", "step"),
        ('{ generator = "sequence" }', "needs type", "write type"),
        ('{ type = "INT", generator = "integer", low = 9, high = 1 }', "p.toml:5:60: high is below", ""),
        (
            '{ type = "INT", generator = "integer", low = 0, high = 9, distribution = "zipff" }',
            "p.toml:5:78: unknown distribution",
            "zipf",
        ),
        (
            '{ type = "INT", generator = "integer", low = 0, high = 9, h = 0.1 }',
            "h is not a key of the distribution uniform",
            "remove",
        ),
        ('{ type = "INT", generator = "sequence", null = 2 }', "null is 2, which is out of range", "0 to 1"),
        ('{ type = "CHAR(9)", generator = "pattern", pattern = "[z-a]" }', "goes backwards", ""),
        ('{ type = "INT", generator = "foreign_key", table = "tt", column = "c" }', "no table tt", "t"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_was_meant(text: str, why: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        column(text)
    assert why in raised.value.message
    assert raised.value.message.startswith("p.toml:")
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("definition", "generator", "why"),
    [
        ("TINYINT", 'generator = "sequence"', "TINYINT holds -128 to 127, and the values are 1 to 1000"),
        ("TINYINT UNSIGNED", 'generator = "integer", low = 0, high = 256', "holds 0 to 255"),
        ("VARCHAR(5)", 'generator = "text", length = 6', "VARCHAR(5) holds 5 characters"),
        ("VARCHAR(16)", 'generator = "pattern", pattern = "user{n}@email.com"', "up to 18"),
        ("VARBINARY(8)", 'generator = "uuid", binary = true', "holds 8 bytes, and the values have up to 16"),
        ("DECIMAL(5,2)", 'generator = "decimal", low = 0, high = 1000', "3 digits before the decimal point"),
        ("DECIMAL(5,1)", 'generator = "decimal", low = 0, high = 1', "1 digits after the decimal point"),
        ("ENUM('a','b')", 'generator = "choice", values = ["a", "c"]', "has no member 'c'"),
        ("DATE", 'generator = "datetime"', "holds dates without a time"),
        ("TIMESTAMP", 'generator = "datetime", high = 2040-01-01', "holds 1970-01-01 00:00:01 to 2038"),
        ("DATETIME(3)", 'generator = "datetime", digits = 6', "has 3 digits of a second"),
        ("INT", 'generator = "text", length = 3', "holds whole numbers, not texts"),
        ("INT NOT NULL", 'generator = "sequence", null = 0.1', "is NOT NULL, and some of its values are"),
        ("JSON", 'generator = "text", length = 3', "holds JSON, not texts"),
        ("TEXT", 'generator = "text", length = 65536', "holds 65535 bytes"),
    ],
)
def test_a_type_that_cannot_hold_the_values_is_found(definition: str, generator: str, why: str) -> None:
    with pytest.raises(UsageError, match=r"p\.toml:5:") as raised:
        column(f'{{ type = "{definition}", {generator} }}', rows=1000)
    assert why in raised.value.message


@pytest.mark.parametrize(
    ("definition", "generator"),
    [
        ("TINYINT UNSIGNED", 'generator = "integer", low = 0, high = 255'),
        ("BIGINT UNSIGNED", 'generator = "integer", low = 0, high = 9223372036854775807'),
        ("VARCHAR(18)", 'generator = "pattern", pattern = "user{n}@email.com"'),
        ("SET('a','b')", 'generator = "choice", values = ["a", "a,b", ""]'),
        ("DECIMAL(5,2)", 'generator = "decimal", low = "-999.99", high = 999.99'),
        ("JSON", 'generator = "json", fields = { a = { generator = "sequence" } }'),
        ("YEAR", 'generator = "integer", low = 1901, high = 2155'),
        ("TIME(2)", 'generator = "time", low = "-838:59:59", high = "838:59:59", digits = 2'),
    ],
)
def test_a_type_that_holds_the_values_is_taken(definition: str, generator: str) -> None:
    assert column(f'{{ type = "{definition}", {generator} }}', rows=1000).tables[0].columns == ("c",)


def test_a_unique_column_needs_enough_values() -> None:
    few = '{ type = "INT", generator = "integer", low = 1, high = 99 }'
    with pytest.raises(UsageError, match=r"p\.toml:5:5: .*99 different values for 100 unique rows"):
        column(few, more='unique = ["c"]')
    assert column(few, rows=99, more='unique = ["c"]')
    with pytest.raises(UsageError, match="row_text cannot give unique values"):
        column('{ type = "CHAR(60)", generator = "row_text", groups = 5 }', more='primary_key = "c"')


@pytest.mark.parametrize("locale", ["en_US", "de_DE", "fr_FR", "es_ES", "ja_JP"])
def test_people_of_every_locale_have_names_and_addresses_that_fit_and_an_e_mail_of_their_own(
    locale: str,
) -> None:
    columns = "\n".join(
        f'{what} = {{ type = "VARCHAR(80)", generator = "{what}", locale = "{locale}" }}' for what in PERSON
    )
    plan = parse_plan(
        f'[table.t]\nrows = 500\nunique = ["email"]\n[table.t.column]\n{columns}', path="p.toml"
    )
    rows = ast.literal_eval(f"[{values(plan)}]")
    people = [dict(zip(PERSON, row, strict=True)) for row in rows]
    assert len({one["email"] for one in people}) == 500
    assert all(one["email"].isascii() for one in people)
    assert len({one["name"] for one in people}) > 200
    assert all(one["name"].strip() and any(map(str.isdigit, one["address"])) for one in people)


def test_a_function_in_python_gives_values_and_its_time_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine_of_this_test.py").write_text(
        "def names(rows):\n    return [None if n % 3 == 2 else n if n % 3 else f'it\\'s {n}' for n in rows]\n"
        "def few(rows):\n    return [1]\n"
        "def broken(rows):\n    return [1 / n for n in rows]\n"
    )
    column = 'c = { type = "TEXT", generator = "python", function = "%s" }'
    text = f"[table.t]\nrows = 2500\n[table.t.column]\n{column}"

    def plan(function: str) -> FillPlan:
        return parse_plan(text % f"mine_of_this_test:{function}", path=str(tmp_path / "p.toml"))

    before = _core.python_seconds()
    expected = ("(NULL)" if n % 3 == 2 else f"({n})" if n % 3 else f"('it\\'s {n}')" for n in range(2500))
    assert values(plan("names")) == ",".join(expected)
    assert _core.python_seconds() > before
    with pytest.raises(_core.CoreError, match="few gave 1 values for 1000 rows"):
        values(plan("few"))
    with pytest.raises(_core.CoreError, match="broken: ZeroDivisionError"):
        values(plan("broken"))
    with pytest.raises(UsageError, match=r"p\.toml:4:.*nothing is no function"):
        plan("nothing")


def test_the_columns_of_a_key_must_have_enough_combinations() -> None:
    with pytest.raises(UsageError, match="there are 500 different values for 1500 unique rows"):
        parse_plan(
            SHOP.replace("rows = 500", "rows = 1500").replace("rows = 100", "rows = 50"), path="p.toml"
        )


def test_a_plan_that_there_is_not_is_told_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no plan user") as raised:
        read_plan("user")
    assert raised.value.hint == "did you mean users? give a file, or one of sbtest, users"
