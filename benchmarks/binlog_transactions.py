"""Transactions of every kind that a server has, with random values in every type of column.

For `binlog_readers.py`. The values of a server are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from flushlab.server import Sandbox
from flushlab.server.control import StatementFailed

TRANSACTIONS = 25
"""Of each row image and each of `OPTIONS`; and with tagged GTIDs."""

IMAGES = ("FULL", "MINIMAL", "NOBLOB")

OPTIONS = (
    ("SET SESSION binlog_row_value_options = ''", "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'"),
    ("SET SESSION binlog_transaction_compression = OFF", "SET SESSION binlog_transaction_compression = ON"),
    ("SET GLOBAL binlog_row_metadata = 'MINIMAL'", "SET GLOBAL binlog_row_metadata = 'FULL'"),
    ("SET GLOBAL log_bin_compress = OFF", "SET GLOBAL log_bin_compress = ON"),
)
"""Off and on; a server may not have them."""


class Column(NamedTuple):
    """A type, and what makes one of its values as SQL."""

    sql: str
    value: Callable[[Random], str]


def integer(bits: int, *, signed: bool = True) -> Callable[[Random], str]:
    """Integers up to their limits."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda random: str(random.choice((low, 0, high, random.randint(low, high))))


def decimal(precision: int, scale: int) -> Callable[[Random], str]:
    """Numbers with as many digits, or fewer."""

    def value(random: Random) -> str:
        digits = str(random.randrange(10 ** random.randint(1, precision))).rjust(scale + 1, "0")
        point = len(digits) - scale
        return f"{random.choice(('', '-'))}{digits[:point]}.{digits[point:] or '0'}"

    return value


def moment(digits: int, *, first: int = 1000, last: int = 9999) -> Callable[[Random], str]:
    """A date and a time."""

    def value(random: Random) -> str:
        day = f"{random.randint(first, last):04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
        return f"'{day} {random.randrange(24):02}:{random.randrange(60):02}:{seconds(random, digits)}'"

    return value


def time(digits: int) -> Callable[[Random], str]:
    """A time below or above zero."""

    def value(random: Random) -> str:
        hour = f"{random.choice(('', '-'))}{random.randrange(838)}"
        return f"'{hour}:{random.randrange(60):02}:{seconds(random, digits)}'"

    return value


def seconds(random: Random, digits: int) -> str:
    """Seconds with a fraction."""
    return f"{random.randrange(60):02}" + (f".{random.randrange(10**digits):0{digits}}" if digits else "")


def text(length: int, letters: str = "aé€ 'z\\\"\n0") -> Callable[[Random], str]:
    """Text in UTF-8, as hexadecimal digits."""

    def value(random: Random) -> str:
        word = "".join(random.choices(letters, k=size(random, length)))
        return f"CONVERT(X'{word.encode().hex()}' USING utf8mb4)"

    return value


def data(length: int) -> Callable[[Random], str]:
    """Bytes."""
    return lambda random: f"X'{random.randbytes(size(random, length)).hex()}'"


def size(random: Random, most: int) -> int:
    """Mostly small, rarely as much."""
    return round(most * random.random() ** 16)


def document(random: Random) -> str:
    """A JSON document: small and large, numbers of all sizes, text, lists."""
    number = random.choice(("1", "-70000", "5000000000", "18446744073709551615", "1.5e300", "null", "true"))
    many = ", ".join(f'"key{index}": {index}' for index in range(random.choice((0, 3, 300))))
    filler = "x" * size(random, 70_000)
    return f'\'{{"name": "{filler}", "n": {number}, "list": [1, [], {{}}, "é"], "many": {{{many}}}}}\''


COLUMNS = (
    *(Column(f"{name}INT", integer(bits)) for name, bits in (("TINY", 8), ("SMALL", 16), ("MEDIUM", 24))),
    *(
        Column(f"{name} UNSIGNED", integer(bits, signed=False))
        for name, bits in (("TINYINT", 8), ("INT", 32))
    ),
    Column("BIGINT", integer(64)),
    Column("BIGINT UNSIGNED", integer(64, signed=False)),
    Column("FLOAT", lambda random: repr(random.uniform(-1e30, 1e30))),
    Column("DOUBLE", lambda random: repr(random.uniform(-1e300, 1e300))),
    *(Column(f"DECIMAL({p},{s})", decimal(p, s)) for p, s in ((10, 2), (65, 30), (9, 9), (18, 0))),
    Column("YEAR", lambda random: str(random.choice((0, random.randint(1901, 2155))))),
    Column("DATE", lambda random: moment(0)(random)[:11] + "'"),
    *(Column(f"TIME({digits})", time(digits)) for digits in (0, 3, 6)),
    *(Column(f"DATETIME({digits})", moment(digits)) for digits in (0, 1, 5, 6)),
    *(Column(f"TIMESTAMP({digits})", moment(digits, first=1971, last=2037)) for digits in (0, 2, 6)),
    Column("CHAR(10)", text(10)),
    Column("CHAR(200)", text(200)),
    Column("VARCHAR(20) CHARACTER SET latin1", text(20, "abé")),
    Column("VARCHAR(300)", text(300)),
    Column("BINARY(8)", data(8)),
    Column("VARBINARY(300)", data(300)),
    *(Column(f"{size}BLOB", data(length)) for size, length in (("TINY", 255), ("", 300), ("LONG", 70_000))),
    *(Column(f"{size}TEXT", text(length)) for size, length in (("TINY", 60), ("MEDIUM", 30_000))),
    Column("ENUM('a','b','c')", lambda random: str(random.randint(1, 3))),
    Column("SET('x','y','z')", lambda random: str(random.randrange(8))),
    *(Column(f"BIT({bits})", integer(bits, signed=False)) for bits in (1, 9, 64)),
    Column("GEOMETRY", lambda random: f"POINT({random.random()}, {random.random()})"),
)

DOCUMENT = Column("JSON", document)


def write(server: Sandbox, name: str) -> int:
    """Has a server of this name write its transactions: how many."""
    random, written = Random(name), 0
    columns = [*COLUMNS, DOCUMENT]
    types = ", ".join(f"c{index} {column.sql} NULL" for index, column in enumerate(columns))
    ask(server, "SET sql_mode = '', time_zone = '+00:00', binlog_format = 'ROW'", "CREATE DATABASE shop")
    ask(server, f"CREATE TABLE shop.item (id INT AUTO_INCREMENT PRIMARY KEY, {types}) CHARSET utf8mb4")
    for image in IMAGES:
        ask(server, f"SET SESSION binlog_row_image = '{image}'")
        for off, on in (("DO 0", "DO 0"), *OPTIONS):
            if takes(server, on):
                written += transact(server, columns, random)
                ask(server, off, "FLUSH BINARY LOGS")
    ask(server, "SET SESSION binlog_format = 'STATEMENT'", "SET @price = 1.5")
    ask(server, "INSERT INTO shop.item (c0) VALUES (1)", "UPDATE shop.item SET c8 = RAND(), c9 = @price")
    # Last, in the last file: only mysql_common reads PREVIOUS_GTIDS with tags.
    if takes(server, "SET SESSION binlog_format = 'ROW', gtid_next = 'AUTOMATIC:tag'"):
        written += transact(server, columns, random)
    return written + 2


def transact(server: Sandbox, columns: list[Column], random: Random) -> int:
    """Runs `TRANSACTIONS`: so many."""
    for number in range(TRANSACTIONS):
        change(server, number, columns, random)
    return TRANSACTIONS


def change(server: Sandbox, number: int, columns: list[Column], random: Random) -> None:
    """Inserts, updates and deletes some rows; every fifth time by XA."""
    xa = f"'x{number}'" if number % 5 == 4 else ""
    rows = (", ".join(maybe(column, random) for column in columns) for _ in range(3))
    changes = (
        f"c{index} = {maybe(columns[index], random)}" for index in random.sample(range(len(columns)), 4)
    )
    json = f"c{columns.index(DOCUMENT)}"
    last = "ORDER BY id DESC LIMIT"
    ask(
        server,
        f"XA START {xa}" if xa else "BEGIN",
        f"INSERT INTO shop.item VALUES {', '.join(f'(NULL, {row})' for row in rows)}",
        "SAVEPOINT here",
        f"UPDATE shop.item SET {', '.join(changes)} {last} 2",
        "ROLLBACK TO here" if number % 3 == 2 else "DO 0",
        f"UPDATE shop.item SET {json} = JSON_SET({json}, '$.n', {number}, '$.list[1]', 'x') {last} 3",
        f"UPDATE shop.item SET {json} = JSON_REMOVE({json}, '$.many') {last} 2",
        "DELETE FROM shop.item ORDER BY id LIMIT 1",
        *((f"XA END {xa}", f"XA PREPARE {xa}", f"XA COMMIT {xa}") if xa else ("COMMIT",)),
    )


def maybe(column: Column, random: Random) -> str:
    """A value of a column, or NULL."""
    return "NULL" if random.random() < 0.2 else column.value(random)


def ask(server: Sandbox, *statements: str) -> None:
    """Runs statements in the session that flushlab has with its sandbox."""
    for statement in statements:
        server.query(statement)


def takes(server: Sandbox, statement: str) -> bool:
    """Whether a server has what a statement sets."""
    try:
        server.query(statement)
    except StatementFailed:
        return False
    return True
