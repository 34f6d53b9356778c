"""From the text of `txn:FILE` to transactions for the engine. Pure: the text is given, nothing is opened.

A file is TOML, or SQL whose lines beginning with `--:` hold the TOML. In SQL, the statements before the first
transaction are the setup, and the TOML table of each transaction stands above its statements. A mistake in
either form is a UsageError with path, line, column and a remedy.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import pairwise

import msgspec

from flushlab import _core
from flushlab.plan import draws
from flushlab.plan.draws import integer
from flushlab.plan.toml import Entry, File, Node, Readers, Table, read_kind, read_toml, suggestion
from flushlab.record import (
    ConnectionParameter,
    DateParameter,
    DatetimeParameter,
    DecimalParameter,
    IntegerParameter,
    NowParameter,
    Parameter,
    PatternParameter,
    RandSpec,
    RowTextDraw,
    SequenceParameter,
    TxnSpec,
    TxnStatement,
    TxnTransaction,
    UuidParameter,
)
from flushlab.server.sql import is_system
from flushlab.workload.txn.statements import Mistake, Sentence, read_statements

_MOST_GROUPS = 100
_PATTERN = r"write pattern = '[A-Z]{3}-\d{4}', with classes in brackets and numbers of repetitions in braces"
_DISTRIBUTIONS = {
    "uniform": "uniform",
    "zipf": "zipfian",
    "pareto": "pareto",
    "special": "special",
    "gaussian": "gaussian",
}
"""Those of a fill plan that the engine draws, with sysbench's names, which are the engine's."""
_RAND = ("distribution", *(key for name in _DISTRIBUTIONS for key in draws.DISTRIBUTIONS[name]))


def _integer(table: Table) -> Parameter:
    table.need("low", "high")
    low, high = table.whole("low", 0, *draws.INT64), table.whole("high", 0, *draws.INT64)
    draws.check_order(table, low, high)
    rand_type, rand = _distribution(table)
    return IntegerParameter(low=low, high=high, rand_type=rand_type, rand=rand)


def _decimal(table: Table) -> Parameter:
    table.need("low", "high")
    digits = table.whole("digits", 2, 0, draws.MOST_DIGITS)
    low, high = draws.scaled(table, "low", digits), draws.scaled(table, "high", digits)
    draws.check_order(table, low, high)
    rand_type, rand = _distribution(table)
    return DecimalParameter(low=low, high=high, digits=digits, rand_type=rand_type, rand=rand)


def _sequence(table: Table) -> Parameter:
    start, step = table.whole("start", 1, *draws.INT64), table.whole("step", 1, *draws.INT64)
    if not step:
        raise table.wrong("step", "step is 0: the sequence would not advance", "1 is the default")
    return SequenceParameter(
        start=start, step=step, shared=table.word("scope", ("all", "connection"), "all") == "all"
    )


def _pattern(table: Table) -> Parameter:
    table.need("pattern")
    pattern = table.text("pattern")
    if not pattern:
        raise table.wrong("pattern", "the pattern is empty", _PATTERN)
    try:
        _core.check_pattern(pattern)
    except ValueError as error:
        raise table.wrong("pattern", str(error), _PATTERN) from None
    return PatternParameter(pattern=pattern)


def _uuid(table: Table) -> Parameter:
    return UuidParameter(ascending=draws.ascends(table), binary=table.truth("binary", False))


def _datetime(table: Table) -> Parameter:
    low, high = (int(draws.moment(table, key).timestamp()) for key in ("low", "high"))
    draws.check_order(table, low, high)
    return DatetimeParameter(low=low, high=high)


def _date(table: Table) -> Parameter:
    low, high = (draws.moment(table, key).toordinal() - draws.EPOCH for key in ("low", "high"))
    draws.check_order(table, low, high)
    return DateParameter(low=low, high=high)


KINDS: Readers[Parameter] = {
    "integer": (("low", "high", *_RAND), _integer),
    "decimal": (("low", "high", "digits", *_RAND), _decimal),
    "choice": (("values", "weights"), draws.choice),
    "sequence": (("start", "step", "scope"), _sequence),
    "connection": ((), lambda _: ConnectionParameter()),
    "text": (("length", "alphabet", "characters"), draws.text),
    "pattern": (("pattern",), _pattern),
    "row_text": (("groups",), lambda table: RowTextDraw(groups=table.whole("groups", 10, 1, _MOST_GROUPS))),
    "uuid": (("version", "binary"), _uuid),
    "datetime": (("low", "high"), _datetime),
    "date": (("low", "high"), _date),
    "now": ((), lambda _: NowParameter()),
}
"""Every type of parameter: its keys, and what reads them."""


def read_parameter(file: File, name: str, node: Node) -> Parameter:
    """The parameter that a table describes.

    Raises:
        UsageError: a key that its type does not have, or a value that makes no sense.
    """
    example = '{ type = "integer", low = 1, high = 10 }'
    return read_kind(file, node, f"parameter {name}", "type", KINDS, example)[1]


def _distribution(table: Table) -> tuple[str, RandSpec]:
    """The engine's name of a distribution, and its parameters."""
    drawn = draws.distribution(table, names=_DISTRIBUTIONS)
    rand = RandSpec()
    if drawn.exponent is not None:
        rand = RandSpec(zipfian_exp=drawn.exponent)
    elif drawn.h is not None:
        rand = RandSpec(pareto_h=drawn.h)
    return _DISTRIBUTIONS[drawn.name], rand


DATABASE = "flushlab_txn"

_KEYS = ("title", "database", "setup", "setup_file", "ignore_errors", "parameter", "transaction")
_SQL_KEYS = ("title", "database", "ignore_errors", "parameter", "transaction")
_KIND_KEYS = ("weight", "autocommit", "think_ms", "think", "statements")
_SQL_KIND_KEYS = ("weight", "think_ms", "think")
_STATEMENT_KEYS = ("sql", "name", "repeat", "fresh", "think_ms", "think")
_DIRECTIVE = re.compile(r"^[ \t]*--:", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w{0,63}")
_SCHEMA = re.compile(r"[^/\\.\0]{1,64}")
_ERRORS = (1000, 65535)
_MOST_WEIGHT = 1_000_000
_MOST_REPEAT = 10_000
_LONGEST_THINK_MS = 3_600_000.0
_BEGIN = re.compile(r"BEGIN(\s+WORK)?|START\s+TRANSACTION\b.*", re.IGNORECASE | re.DOTALL)
_COMMIT = re.compile(r"COMMIT(\s+WORK)?", re.IGNORECASE)
_NOT_IN_A_TRANSACTION = {
    "BEGIN": "flushlab adds BEGIN and COMMIT; autocommit = true leaves them out",
    "START": "flushlab adds BEGIN and COMMIT; autocommit = true leaves them out",
    "COMMIT": "flushlab commits at the end; autocommit = true turns that off",
    "ROLLBACK": "a transaction always commits; one that fails is rolled back",
    "CALL": "a procedure may return several results; write its statements instead",
    "LOAD": "load bulk data with --dataset or in the setup",
    "USE": "database = … names the database",
    "DELIMITER": "create procedures in the setup",
}


class TxnFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says.

    Attributes:
        title: in one line.
        database: of the statements.
        setup: an SQL script that makes the tables, or empty.
        setup_file: a file that holds it, relative to this one, or None.
        ignore_errors: numbers of errors that end a transaction but not the load.
        spec: parameters and transactions.
    """

    title: str = ""
    database: str = DATABASE
    setup: str = ""
    setup_file: str | None = None
    ignore_errors: tuple[int, ...] = ()
    spec: TxnSpec


def parse_txn(text: str, *, path: str) -> TxnFile:
    """The transactions that a file holds: SQL if its name ends in `.sql`, else TOML.

    Args:
        text: content of the file.
        path: for messages.

    Raises:
        UsageError: `PATH:LINE:COL: …`, with the nearest key or name in the hint.
    """
    reader = _SqlReader if path.lower().endswith(".sql") else _TomlReader
    return reader(text, path).read()


class _Place(msgspec.Struct, frozen=True):
    """A statement where it was found; `node` is it, or the table that holds it."""

    node: Node
    text: str
    offset: Callable[[int], int]
    table: Table | None = None


class _Reader(ABC):
    """What both forms share."""

    keys: tuple[str, ...]
    kind_keys: tuple[str, ...]

    def __init__(self, source: str, path: str, document: str) -> None:
        self.source, self.path = source, path
        self.file = File(path)
        self.root = Table(self.file, read_toml(document, path=path), "the file", self.keys)
        self.names: list[str] = []
        self.used: set[str] = set()

    @abstractmethod
    def setup(self) -> tuple[str, str | None]:
        """The setup, or the file that holds it."""

    @abstractmethod
    def transaction(self, entry: Entry, table: Table) -> TxnTransaction:
        """A kind of transaction."""

    def read(self) -> TxnFile:
        database = self.root.text("database", DATABASE)
        if not _SCHEMA.fullmatch(database):
            raise self.root.wrong(
                "database", f"{database!r} is not a valid database name", "for example shop"
            )
        if is_system(database):
            what = f"the database {database} is the server's own"
            raise self.root.wrong("database", what, "choose another name")
        parameters = self.parameters()
        self.names = list(parameters)
        transactions = self.transactions()
        for entry in self._entries("parameter"):
            if entry.key not in self.used:
                what = f"no statement uses the parameter :{entry.key}"
                raise self.file.error(entry, what, "use it, or remove it")
        setup, setup_file = self.setup()
        return TxnFile(
            title=self.root.text("title"),
            database=database,
            setup=setup,
            setup_file=setup_file,
            ignore_errors=self.ignore_errors(),
            spec=TxnSpec(parameters=tuple(parameters.values()), transactions=transactions),
        )

    def ignore_errors(self) -> tuple[int, ...]:
        """Numbers of the server's errors."""
        wanted, way_out = "a list of error numbers", "write ignore_errors = [1062]"
        nodes = self.root.items("ignore_errors", ("integer",), wanted, way_out)
        for node in nodes:
            if not _ERRORS[0] <= integer(node) <= _ERRORS[1]:
                what = f"{node.value} is not the number of a server's error"
                raise self.file.error(
                    node, what, f"it is {_ERRORS[0]} to {_ERRORS[1]}; 1062 is a duplicate key"
                )
        return tuple(dict.fromkeys(map(integer, nodes)))

    def _entries(self, key: str) -> tuple[Entry, ...]:
        node = self.root.get(key)
        if node is None:
            return ()
        if node.kind != "table":
            raise self.file.wrong_type(node, key, f"tables: [{key}.NAME]", f"write [{key}.NAME]")
        return node.entries

    def parameters(self) -> dict[str, Parameter]:
        parameters = {}
        for entry in self._entries("parameter"):
            if not _NAME.fullmatch(entry.key):
                what = f"{entry.key!r} is not a valid parameter name"
                raise self.file.error(entry, what, "it has letters, digits and _, like :customer_id")
            parameters[entry.key] = read_parameter(self.file, entry.key, entry.node)
        return parameters

    def transactions(self) -> tuple[TxnTransaction, ...]:
        entries = self._entries("transaction")
        if not entries:
            raise self.file.error(self.root.node, "the file has no transaction", "add a [transaction.NAME]")
        transactions = []
        for entry in entries:
            what = f"transaction {entry.key}"
            if entry.node.kind != "table":
                raise self.file.wrong_type(entry.node, what, "a table", f"write [{what.replace(' ', '.')}]")
            table = Table(self.file, entry.node, what, self.kind_keys)
            transactions.append(self.transaction(entry, table))
        if not any(one.weight for one in transactions):
            raise self.file.error(entries[0], "no transaction has a weight above 0", "give one a weight")
        return tuple(transactions)

    def kind(
        self, entry: Entry, table: Table, explicit: bool, statements: Iterable[TxnStatement]
    ) -> TxnTransaction:
        """A kind of transaction with its statements, whose names are made different."""
        named: list[TxnStatement] = []
        for statement in statements:
            same = sum(one.name.partition(" (")[0] == statement.name for one in named)
            name = f"{statement.name} ({same + 1})" if same else statement.name
            named.append(msgspec.structs.replace(statement, name=name))
        if not named:
            hint = (
                'write statements = ["UPDATE …"]' if "statements" in self.kind_keys else "write SQL below it"
            )
            raise self.file.error(entry, f"transaction {entry.key} has no statement", hint)
        think_us, exponential = self.think(table)
        return TxnTransaction(
            name=entry.key,
            weight=table.whole("weight", 1, 0, _MOST_WEIGHT),
            explicit=explicit,
            think_us=think_us,
            exponential=exponential,
            statements=tuple(named),
        )

    def think(self, table: Table) -> tuple[int, bool]:
        milliseconds = table.number("think_ms", 0.0, 0.0, _LONGEST_THINK_MS)
        word = table.word("think", ("constant", "exponential"), "constant")
        return round(milliseconds * 1000), word == "exponential"

    def statement(self, sentence: Sentence, place: _Place) -> TxnStatement:
        """A statement ready for the engine, with the options of its table."""
        where = self.at(place.offset(sentence.offset))
        if sentence.verb in _NOT_IN_A_TRANSACTION:
            what = f"{sentence.verb} is not supported in a transaction"
            raise self.file.error(where, what, _NOT_IN_A_TRANSACTION[sentence.verb])
        for name, offset in sentence.parameters:
            if name not in self.names:
                near = suggestion(f":{name}", [f":{known}" for known in self.names])
                hint = near or f"define it: [parameter.{name}]"
                raise self.file.error(self.at(place.offset(offset)), f"there is no parameter :{name}", hint)
            self.used.add(name)
        table = place.table
        think_us, exponential = self.think(table) if table is not None else (0, False)
        return TxnStatement(
            name=(table.text("name") if table is not None else "") or sentence.name,
            sql=sentence.sql,
            place=f"{self.path}:{where.line}:{where.column}",
            parameters=tuple(self.names.index(name) for name, _ in sentence.parameters),
            fresh=self.fresh(table, sentence) if table is not None else (),
            repeat=table.whole("repeat", 1, 1, _MOST_REPEAT) if table is not None else 1,
            writes=sentence.writes,
            think_us=think_us,
            exponential=exponential,
        )

    def fresh(self, table: Table, sentence: Sentence) -> tuple[int, ...]:
        names = [name for name, _ in sentence.parameters]
        numbers = []
        for item in table.items("fresh", ("string",), "a list of names", 'write fresh = ["item"]'):
            name = str(item.value).removeprefix(":")
            if name not in names:
                hint = suggestion(name, names) or f"it has {', '.join(names) or 'no parameters'}"
                raise self.file.error(item, f"the statement has no parameter :{name}", hint)
            numbers.append(self.names.index(name))
        return tuple(numbers)

    def sentences(self, place: _Place) -> list[Sentence]:
        try:
            return list(read_statements(place.text))
        except Mistake as mistake:
            where = self.at(place.offset(mistake.offset))
            raise self.file.error(where, mistake.message, mistake.hint) from None

    def at(self, offset: int) -> Node:
        """The place of a character of the source."""
        before = self.source[:offset]
        return Node(kind="string", line=before.count("\n") + 1, column=offset - (before.rfind("\n") + 1) + 1)


class _TomlReader(_Reader):
    """The TOML form."""

    keys = _KEYS
    kind_keys = _KIND_KEYS

    def __init__(self, source: str, path: str) -> None:
        super().__init__(source, path, source)
        self.lines = source.splitlines(keepends=True)

    def setup(self) -> tuple[str, str | None]:
        if "setup" in self.root and "setup_file" in self.root:
            what = "setup and setup_file cannot be combined"
            raise self.file.error(self.root.entries["setup_file"], what, "leave one out")
        return self.root.text("setup"), self.root.text("setup_file") or None

    def transaction(self, entry: Entry, table: Table) -> TxnTransaction:
        hint = 'write statements = ["UPDATE …"]'
        items = table.items("statements", ("string", "table"), "a list of statements", hint)
        statements = [self._statement(item, table, index) for index, item in enumerate(items)]
        return self.kind(entry, table, not table.truth("autocommit", False), statements)

    def _statement(self, item: Node, owner: Table, index: int) -> TxnStatement:
        table, node = None, item
        if item.kind == "table":
            what = f"statement {index + 1} of {owner.what}"
            table = Table(self.file, item, what, _STATEMENT_KEYS)
            table.need("sql")
            table.text("sql")
            node = table.entries["sql"].node
        text = str(node.value)
        place = _Place(node=node, text=text, offset=self._offsets(node, text), table=table)
        found = self.sentences(place)
        if len(found) != 1:
            where = node if not found else self.at(place.offset(found[1].offset))
            what = "several statements in one string" if found else "the statement is empty"
            raise self.file.error(where, what, "write each as an item of statements")
        return self.statement(found[0], place)

    def _offsets(self, node: Node, text: str) -> Callable[[int], int]:
        """From places in a text's value to places in the source, where its characters stand as they are."""
        begin = sum(map(len, self.lines[: node.line - 1])) + node.column - 1
        found = self.source.find(text, begin)
        if found < 0 or self.source[begin:found].strip("\"'\r\n"):
            return lambda _: begin  # it has escapes: its beginning will do
        return lambda offset: found + offset


class _SqlReader(_Reader):
    """The SQL form."""

    keys = _SQL_KEYS
    kind_keys = _SQL_KIND_KEYS

    def __init__(self, source: str, path: str) -> None:
        is_directive = [bool(_DIRECTIVE.match(line)) for line in source.split("\n")]
        lines = source.split("\n")
        toml = (
            line.replace("--:", "   ", 1) if told else ""
            for line, told in zip(lines, is_directive, strict=True)
        )
        blank = (" " * len(line) if told else line for line, told in zip(lines, is_directive, strict=True))
        self.sql = "\n".join(blank)
        super().__init__(source, path, "\n".join(toml))
        starts = sorted(entry.line for entry in self._entries("transaction"))
        starts.append(len(lines) + 1)
        self._ends = dict(pairwise(starts))
        self._first = starts[0]

    def setup(self) -> tuple[str, str | None]:
        text = self.sql[: self._offset(self._first)]
        return ("" if not text.strip() else text), None

    def transaction(self, entry: Entry, table: Table) -> TxnTransaction:
        begin, end = self._offset(entry.line), self._offset(self._ends[entry.line])
        place = _Place(node=entry.node, text=self.sql[begin:end], offset=lambda offset: begin + offset)
        found = self.sentences(place)
        explicit = bool(found) and _BEGIN.fullmatch(found[0].code) is not None
        if explicit:
            if not _COMMIT.fullmatch(found[-1].code):
                where = self.at(begin + found[0].offset)
                what = f"transaction {entry.key} has BEGIN but does not end with COMMIT"
                raise self.file.error(where, what, "write COMMIT; at its end, or remove BEGIN")
            found = found[1:-1]
        return self.kind(entry, table, explicit, [self.statement(one, place) for one in found])

    def _offset(self, line: int) -> int:
        """Of the first character of a line."""
        return sum(len(one) + 1 for one in self.source.split("\n")[: line - 1])
