from __future__ import annotations

import msgspec
import pytest

from flushlab.errors import UsageError
from flushlab.record import RandSpec, TxnSpec
from flushlab.workload.txn.file import parse_txn

RAND = msgspec.structs.asdict(RandSpec())
TOML = """\
title = "orders"
database = "shop"
setup = "CREATE TABLE orders (id INT)"

[parameter.customer]
type = "integer"
low = 1
high = 1000
distribution = "zipf"
exponent = 0.9

[parameter.total]
type = "decimal"
low = 0.5
high = 99.99

[parameter.item]
type = "integer"
low = 1
high = 100

[transaction.new_order]
weight = 3
think_ms = 1.5
think = "exponential"
statements = [
  "INSERT INTO orders VALUES (:customer, :total)",
  { sql = "UPDATE item SET n = n - 1 WHERE id = :item", repeat = 3, fresh = ["item"], think_ms = 2 },
  { sql = \"\"\"
    UPDATE item SET n = 0
    WHERE id = :item AND :customer > 5\"\"\", name = "clear" },
  "UPDATE item SET n = 1",
]

[transaction.look]
autocommit = true
statements = ["SELECT * FROM orders WHERE customer = :customer"]
"""

SQL = """\
--: database = "shop"
--: parameter.customer = { type = "integer", low = 1, high = 1000 }
CREATE TABLE orders (customer INT, total INT);
INSERT INTO orders VALUES (1, 2);

--: [transaction.new_order]
--: weight = 3
BEGIN;
INSERT INTO orders VALUES (:customer, 7);  -- a comment
UPDATE orders SET total = total + 1
 WHERE customer = :customer;
COMMIT;

--: [transaction.look]
SELECT * FROM orders WHERE customer = :customer;
"""


def spec(text: str = TOML, path: str = "shop.toml") -> TxnSpec:
    return parse_txn(text, path=path).spec


def test_a_toml_file_says_database_setup_parameters_and_transactions() -> None:
    file = parse_txn(TOML, path="shop.toml")
    assert (file.title, file.database, file.setup) == ("orders", "shop", "CREATE TABLE orders (id INT)")
    assert file.spec.parameters == (
        {
            "kind": "integer",
            "low": 1,
            "high": 1000,
            "rand_type": "zipfian",
            "rand": {**RAND, "zipfian_exp": 0.9},
        },
        {"kind": "decimal", "low": 50, "high": 9999, "digits": 2, "rand_type": "uniform", "rand": RAND},
        {"kind": "integer", "low": 1, "high": 100, "rand_type": "uniform", "rand": RAND},
    )
    order, look = file.spec.transactions
    assert (order.name, order.weight, order.explicit, order.think_us, order.exponential) == (
        *("new_order", 3, True),
        *(1500, True),
    )
    assert (look.weight, look.explicit, look.think_us) == (1, False, 0)


def test_statements_know_their_parameters_their_names_and_their_places() -> None:
    statements = spec().transactions[0].statements
    assert [one.name for one in statements] == ["INSERT orders", "UPDATE item", "clear", "UPDATE item (2)"]
    assert [one.parameters for one in statements] == [(0, 1), (2,), (2, 0), ()]
    assert [one.place for one in statements] == [
        *("shop.toml:27:4", "shop.toml:28:12"),
        *("shop.toml:30:5", "shop.toml:32:4"),
    ]
    assert (statements[1].repeat, statements[1].fresh, statements[1].think_us) == (3, (2,), 2000)


def test_an_sql_file_has_its_setup_before_its_first_transaction() -> None:
    file = parse_txn(SQL, path="shop.sql")
    assert [line.strip() for line in file.setup.splitlines() if line.strip()] == [
        "CREATE TABLE orders (customer INT, total INT);",
        "INSERT INTO orders VALUES (1, 2);",
    ]
    assert file.setup.splitlines().index("INSERT INTO orders VALUES (1, 2);") == 3, "lines keep their numbers"
    order, look = file.spec.transactions
    assert (order.weight, order.explicit, look.explicit) == (3, True, False)
    assert [one.sql for one in order.statements] == [
        "INSERT INTO orders VALUES (?, 7)",
        "UPDATE orders SET total = total + 1\n WHERE customer = ?",
    ]
    assert [one.place for one in order.statements] == ["shop.sql:9:1", "shop.sql:10:1"]


MISTAKES = [
    ("(:customer,", "(:custmer,", "27:31: there is no parameter :custmer", "did you mean :customer?"),
    ("AND :customer", "AND :totals", "31:26: there is no parameter :totals", "did you mean :total?"),
    (
        "weight = 3",
        "wieght = 3",
        "23:1: wieght is not a key of the transaction new_order",
        "did you mean weight?",
    ),
    ("weight = 3", "weight = -1", "23:10: weight is -1, which is out of range", "it takes 0 to"),
    (
        "high = 99.99",
        "high = 99.999",
        "15:8: high is 99.999, which needs more than 2 decimal digits",
        "more digits",
    ),
    ('["item"]', '["itme"]', "28:78: the statement has no parameter :itme", "did you mean item?"),
    ("repeat = 3", "repeat = 0", "28:66: repeat is 0, which is out of range", "it takes 1 to"),
    ("n = 1", "n = 1; SELECT 1", "32:27: several statements in one string", "each as an item"),
    ('"UPDATE item SET n = 1"', '"COMMIT"', "32:4: COMMIT is not supported", "autocommit = true"),
    ("n = 1", "n = ?", "32:24: ? is a parameter without a name", "write :name"),
    ('"zipf"', '"zipfian"', "9:16: unknown distribution 'zipfian'", "did you mean zipf?"),
    ('"zipf"', '"uniform"', "10:1: exponent is not a key of the distribution uniform", "remove it"),
    ("= 0.9", "= 99", "10:12: exponent is 99, which is out of range", "it takes 0 to 30"),
    (
        'type = "decimal"',
        'typ = "decimal"',
        "13:1: typ is not a key of the parameter total",
        "did you mean type?",
    ),
    ('type = "decimal"', 'type = "decmal"', "13:8: there is no type 'decmal'", "did you mean decimal?"),
    (
        "low = 0.5\nhigh",
        "low = 0.5\nstep",
        "15:1: step is not a key of the parameter total",
        "did you mean type?",
    ),
    ("low = 0.5\n", "", "12:1: the parameter total, of type decimal needs low", "write low"),
    ("high = 1000", "high = 0", "8:8: high is below low", "smaller one first"),
    (", :total)", ")", "12:12: no statement uses the parameter :total", "remove it"),
    ('"exponential"', '"exponentially"', "25:9: unknown think 'exponentially'", "exponential?"),
    ('database = "shop"', 'database = "a/b"', "2:12: 'a/b' is not a valid database name", "for example shop"),
    (
        'database = "shop"',
        'database = "MySQL"',
        "2:12: the database MySQL is the server's own",
        "another name",
    ),
    ("[parameter.item]", '[parameter."the item"]', "'the item' is not a valid parameter name", "letters"),
    ('"UPDATE item SET n = 1"', "5", "32:3: an item of statements is an integer", "UPDATE"),
    ('"UPDATE item SET n = 1"', '" -- nothing"', "32:3: the statement is empty", "item of statements"),
]


@pytest.mark.parametrize(("old", "new", "message", "hint"), MISTAKES)
def test_a_mistake_is_named_with_its_place_and_the_way_out(
    old: str, new: str, message: str, hint: str
) -> None:
    assert TOML.count(old) >= 1
    with pytest.raises(UsageError) as raised:
        parse_txn(TOML.replace(old, new, 1), path="shop.toml")
    assert raised.value.message.startswith("shop.toml:")
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("COMMIT;\n", "", "shop.sql:8:1: transaction new_order has BEGIN but does not end with COMMIT"),
        (":customer, 7", ":custmer, 7", "shop.sql:9:28: there is no parameter :custmer"),
        ("--: weight = 3", "--: weight = ", "shop.sql:7:14: this is not TOML"),
        ("--: weight = 3", "--: statements = []", "shop.sql:7:5: statements is not a key of the transaction"),
        ("= :customer;\nCOMMIT", "= ':customer;\nCOMMIT", "shop.sql:11:19: the string that begins here"),
        ("SELECT * FROM orders WHERE customer = :customer;", "", "shop.sql:14:18: transaction look has no"),
    ],
)
def test_a_mistake_in_an_sql_file_is_named_with_its_place(old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_txn(SQL.replace(old, new), path="shop.sql")
    assert raised.value.message.startswith(message)
    assert raised.value.hint


@pytest.mark.parametrize("path", ["a.toml", "a.sql"])
def test_a_file_without_transactions_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match=r"1:1: the file has no transaction"):
        parse_txn("", path=path)


def test_weights_of_nothing_are_refused() -> None:
    text = TOML.replace("weight = 3", "weight = 0").replace("autocommit", "weight = 0\nautocommit")
    with pytest.raises(UsageError, match="no transaction has a weight above 0"):
        parse_txn(text, path="a.toml")


def test_errors_to_ignore_are_named_by_their_numbers() -> None:
    assert parse_txn(f"ignore_errors = [1062, 1264, 1062]\n{TOML}", path="x.toml").ignore_errors == (
        1062,
        1264,
    )
    assert parse_txn(TOML, path="x.toml").ignore_errors == ()
    with pytest.raises(UsageError, match=r"^x\.toml:1:18: an item of ignore_errors is 62, which is out"):
        parse_txn(f"ignore_errors = [62]\n{TOML}", path="x.toml")
