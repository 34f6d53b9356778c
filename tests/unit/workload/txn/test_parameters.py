from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.record import (
    ChoiceDraw,
    ConnectionParameter,
    DateParameter,
    DatetimeParameter,
    NowParameter,
    Parameter,
    PatternParameter,
    RowTextDraw,
    SequenceParameter,
    TextDraw,
    UuidParameter,
)
from flushlab.workload.txn.file import parse_txn

DAY = 86_400


def read(table: str) -> Parameter:
    text = f'parameter.p = {{ {table} }}\n[transaction.t]\nstatements = ["DO :p"]\n'
    (parameter,) = parse_txn(text, path="t.toml").spec.parameters
    return parameter


@pytest.mark.parametrize(
    ("table", "due"),
    [
        ('type = "choice", values = ["a", 2]', ChoiceDraw(values=("a", 2), weights=(1, 1))),
        (
            'type = "choice", values = [1, 2], weights = [0, 5]',
            ChoiceDraw(values=(1, 2), weights=(0, 5)),
        ),
        ('type = "sequence"', SequenceParameter()),
        (
            'type = "sequence", start = 5, step = -2, scope = "connection"',
            SequenceParameter(start=5, step=-2, shared=False),
        ),
        ('type = "connection"', ConnectionParameter()),
        (
            'type = "text", length = 3, alphabet = "hex"',
            TextDraw(low=3, high=3, alphabet="0123456789abcdef"),
        ),
        ('type = "text", length = [0, 2], characters = "ab"', TextDraw(low=0, high=2, alphabet="ab")),
        (r"type = 'pattern', pattern = '[A-Z]{2}-\d'", PatternParameter(pattern=r"[A-Z]{2}-\d")),
        ('type = "row_text"', RowTextDraw(groups=10)),
        ('type = "uuid"', UuidParameter()),
        ('type = "uuid", version = 7, binary = true', UuidParameter(ascending=True, binary=True)),
        (
            'type = "datetime", low = 1970-01-02, high = "1970-01-03 00:00:10"',
            DatetimeParameter(low=DAY, high=2 * DAY + 10),
        ),
        ('type = "date", low = 1969-12-31, high = 1970-02-01', DateParameter(low=-1, high=31)),
        ('type = "now"', NowParameter()),
    ],
)
def test_every_type_is_read(table: str, due: Parameter) -> None:
    assert read(table) == due


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
        ('type = "uuid", version = 5', "version is 5"),
        ('type = "date", low = "soon", high = 1970-01-01', "low is soon, which is not a date"),
        ('type = "date", low = 1970-01-02, high = 1970-01-01', "high is below low"),
        ('type = "now", digits = 6', "digits is not a key of parameter p, of type now"),
        ("low = 1", "parameter p has no type"),
        ("type = 1", "type is an integer; it takes a string"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(table: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(table)
    assert message in raised.value.message
    assert raised.value.message.startswith("t.toml:1:")
    assert raised.value.hint
