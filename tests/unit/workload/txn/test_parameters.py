from __future__ import annotations

from typing import Any

import pytest

from flushlab.errors import UsageError
from flushlab.workload.txn.file import parse_txn

DAY = 86_400


def read(table: str) -> Any:
    text = f'parameter.p = {{ {table} }}\n[transaction.t]\nstatements = ["DO :p"]\n'
    (parameter,) = parse_txn(text, path="t.toml").spec.parameters
    return parameter


@pytest.mark.parametrize(
    ("table", "due"),
    [
        ('type = "choice", values = ["a", 2]', {"values": ("a", 2), "weights": (1, 1)}),
        ('type = "choice", values = [1, 2], weights = [0, 5]', {"values": (1, 2), "weights": (0, 5)}),
        ('type = "sequence"', {"start": 1, "step": 1, "shared": True}),
        (
            'type = "sequence", start = 5, step = -2, scope = "connection"',
            {"start": 5, "step": -2, "shared": False},
        ),
        ('type = "connection"', {}),
        (
            'type = "text", length = 3, alphabet = "hex"',
            {"low": 3, "high": 3, "alphabet": "0123456789abcdef"},
        ),
        ('type = "text", length = [0, 2], characters = "ab"', {"low": 0, "high": 2, "alphabet": "ab"}),
        (r"type = 'pattern', pattern = '[A-Z]{2}-\d'", {"pattern": r"[A-Z]{2}-\d"}),
        ('type = "row_text"', {"groups": 10}),
        ('type = "uuid"', {"ascending": False, "binary": False}),
        ('type = "uuid", version = 7, binary = true', {"ascending": True, "binary": True}),
        (
            'type = "datetime", low = 1970-01-02, high = "1970-01-03 00:00:10"',
            {"low": DAY, "high": 2 * DAY + 10},
        ),
        ('type = "date", low = 1969-12-31, high = 1970-02-01', {"low": -1, "high": 31}),
        ('type = "now"', {}),
    ],
)
def test_every_type_is_read(table: str, due: dict[str, Any]) -> None:
    assert read(table) == {"kind": table.split()[2].strip("\"',"), **due}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('type = "choice", values = []', "values is empty"),
        ('type = "choice", values = ["a"], weights = [1, 2]', "there are 1 values and 2 weights"),
        ('type = "choice", values = ["a"], weights = [0]', "no value has a weight above 0"),
        ('type = "choice", values = [1.5]', "an item of values is a float"),
        ('type = "sequence", step = 0', "the sequence would not advance"),
        ('type = "sequence", scope = "thread"', "unknown scope 'thread'"),
        ('type = "text", length = [5, 2]', "length is 5 to 2, which is not a range"),
        ('type = "text", length = 2, characters = "é"', "characters takes ASCII characters"),
        ('type = "text"', "needs length"),
        ('type = "pattern", pattern = ""', "the pattern is empty"),
        ('type = "pattern", pattern = "[A-Z"', "the pattern has a [ without ]"),
        ('type = "pattern", pattern = "user{n}"', "{n} is of a row, and there is none here"),
        ('type = "pattern", pattern = "{name}"', "{name} is of a row, and there is none here"),
        ('type = "uuid", version = 5', "unknown version 5"),
        ('type = "date", low = "soon", high = 1970-01-01', "low is soon, which is not a date"),
        ('type = "date", low = 1970-01-02, high = 1970-01-01', "high is below low"),
        ('type = "now", digits = 6', "digits is not a key of the parameter p, of type now"),
        ("low = 1", "the parameter p has no type"),
        ("type = 1", "type is an integer; it takes a string"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(table: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(table)
    assert message in raised.value.message
    assert raised.value.message.startswith("t.toml:1:")
    assert raised.value.hint
