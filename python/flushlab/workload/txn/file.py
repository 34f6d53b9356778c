"""From the text of `txn:FILE` to transactions for the engine. Pure: the text is given, nothing is opened.

A file is TOML, or SQL whose lines beginning with `--:` hold the TOML. In SQL, the statements before the first
transaction are the setup, and the TOML table of each transaction stands above its statements. A mistake in
either form is a UsageError with path, line, column and a remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from flushlab.plan import draws
from flushlab.plan.draws import Draw, Json, Moment, moment, ordered
from flushlab.plan.toml import Node, Table, read_toml, suggestion
from flushlab.record import TxnSpec, TxnStatement, TxnTransaction
from flushlab.server.sql import is_system
from flushlab.workload.txn.statements import Mistake, Sentence, read_statements

DATABASE = "flushlab_txn"

_DIRECTIVE = re.compile(r"^[ \t]*--:", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w{0,63}")
_SCHEMA = re.compile(r"[^/\\.\0]{1,64}")
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


# -- parameters: a struct for each type, with its keys -------------------------------------------------------


class _Sequence(Draw, frozen=True, kw_only=True):
    start: int = 1
    step: int = 1
    scope: Literal["all", "connection"] = "all"

    def parameter(self, at: Table) -> Json:
        if not self.step:
            raise at.wrong("step", "step is 0: the sequence would not advance", "1 is the default")
        return {"start": self.start, "step": self.step, "shared": self.scope == "all"}


class _Uuid(Draw, frozen=True, kw_only=True):
    version: Literal[4, 7] = 4
    binary: bool = False

    def parameter(self, at: Table) -> Json:
        return {"ascending": self.version == 7, "binary": self.binary}


class _Datetime(Draw, frozen=True, kw_only=True):
    low: Moment
    high: Moment

    def parameter(self, at: Table) -> Json:
        low, high = (moment(at, key, getattr(self, key)) for key in ("low", "high"))
        return ordered(at, int(low.timestamp()), int(high.timestamp()))


class _Date(_Datetime, frozen=True, kw_only=True):
    def parameter(self, at: Table) -> Json:
        low, high = (moment(at, key, getattr(self, key)) for key in ("low", "high"))
        return ordered(at, low.toordinal() - draws.EPOCH, high.toordinal() - draws.EPOCH)


PARAMETERS: Mapping[str, type[Draw]] = {
    "integer": draws.Integer,
    "decimal": draws.Decimal,
    "choice": draws.Choice,
    "sequence": _Sequence,
    "connection": Draw,
    "text": draws.Text,
    "pattern": draws.Pattern,
    "row_text": draws.RowText,
    "uuid": _Uuid,
    "datetime": _Datetime,
    "date": _Date,
    "now": Draw,
}
"""Every type of parameter by its name."""


# -- files ---------------------------------------------------------------------------------------------------


class _Thinking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    think_ms: Annotated[float, Meta(ge=0, le=3_600_000)] = 0.0
    think: Literal["constant", "exponential"] = "constant"

    @property
    def thought(self) -> tuple[int, bool]:
        """Microseconds, and whether they are a mean."""
        return round(self.think_ms * 1000), self.think == "exponential"


class _Statement(_Thinking, frozen=True, kw_only=True):
    sql: str = ""
    name: str = ""
    repeat: Annotated[int, Meta(ge=1, le=10_000)] = 1
    fresh: Annotated[
        tuple[str, ...], Meta(title="a list of names", description='write fresh = ["item"]')
    ] = ()


class _SqlTransaction(_Thinking, frozen=True, kw_only=True):
    weight: Annotated[int, Meta(ge=0, le=1_000_000)] = 1


class _Transaction(_SqlTransaction, frozen=True, kw_only=True):
    autocommit: bool = False
    statements: Annotated[
        tuple[str | _Statement, ...],
        Meta(title="a list of statements", description='write statements = ["UPDATE …"]'),
    ] = ()


class _SqlFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str = ""
    database: str = DATABASE
    ignore_errors: Annotated[
        tuple[Annotated[int, Meta(ge=1000, le=65535)], ...],
        Meta(title="a list of error numbers", description="1062 is a duplicate key"),
    ] = ()
    parameter: dict[str, Any] = {}
    transaction: dict[str, _SqlTransaction] = {}


class _TomlFile(_SqlFile, frozen=True, kw_only=True):
    setup: str = ""
    setup_file: str | None = None
    transaction: dict[str, _Transaction] = {}  # type: ignore[assignment]


class TxnFile(msgspec.Struct, frozen=True, kw_only=True):
    title: str = ""
    database: str = DATABASE
    setup: str = ""
    setup_file: str | None = None
    ignore_errors: tuple[int, ...] = ()
    spec: TxnSpec


def parse_txn(text: str, *, path: str) -> TxnFile:
    return _SqlReader(text, path).read() if path.lower().endswith(".sql") else _TomlReader(text, path).read()


Offsets = Callable[[int], int]


class _Reader:
    form: type[_SqlFile]
    way: str

    def __init__(self, source: str, path: str, document: str) -> None:
        self.source = source
        self.root = Table(path, read_toml(document, path=path), "the file")
        self.file = self.root.read(self.form)
        self.names: list[str] = []
        self.used: set[str] = set()

    def setup(self) -> tuple[str, str | None]:
        raise NotImplementedError

    def transaction(self, name: str, at: Table) -> tuple[bool, list[TxnStatement]]:
        raise NotImplementedError

    def read(self) -> TxnFile:
        root, file = self.root, self.file
        if not _SCHEMA.fullmatch(file.database):
            raise root.wrong(
                "database", f"{file.database!r} is not a valid database name", "for example shop"
            )
        if is_system(file.database):
            what = f"the database {file.database} is the server's own"
            raise root.wrong("database", what, "choose another name")
        parameters = [self._parameter(name, at) for name, at in root.named("parameter").items()]
        if not file.transaction:
            raise root.error(root.node, "the file has no transaction", "add a [transaction.NAME]")
        tables = root.named("transaction")
        transactions = tuple(self._transaction(name, at) for name, at in tables.items())
        if not any(kind.weight for kind in transactions):
            first = root.table("transaction")
            raise first.misplaced(
                next(iter(tables)), "no transaction has a weight above 0", "give one a weight"
            )
        for name in self.names:
            if name not in self.used:
                what = f"no statement uses the parameter :{name}"
                raise root.table("parameter").misplaced(name, what, "use it, or remove it")
        setup, setup_file = self.setup()
        return TxnFile(
            title=file.title,
            database=file.database,
            setup=setup,
            setup_file=setup_file,
            ignore_errors=tuple(dict.fromkeys(file.ignore_errors)),
            spec=TxnSpec(parameters=tuple(parameters), transactions=transactions),
        )

    def _parameter(self, name: str, at: Table) -> Json:
        if not _NAME.fullmatch(name):
            what = f"{name!r} is not a valid parameter name"
            hint = "it has letters, digits and _, like :customer_id"
            raise self.root.table("parameter").misplaced(name, what, hint)
        self.names.append(name)
        kind, draw = at.read_kind("type", PARAMETERS, '{ type = "integer", low = 1, high = 10 }')
        return {"kind": kind, **draw.parameter(at)}

    def _transaction(self, name: str, at: Table) -> TxnTransaction:
        explicit, statements = self.transaction(name, at)
        if not statements:
            what = f"transaction {name} has no statement"
            raise self.root.table("transaction").misplaced(name, what, self.way)
        named: list[TxnStatement] = []
        for statement in statements:
            same = sum(earlier.name.partition(" (")[0] == statement.name for earlier in named)
            called = f"{statement.name} ({same + 1})" if same else statement.name
            named.append(msgspec.structs.replace(statement, name=called))
        keys = self.file.transaction[name]
        think_us, exponential = keys.thought
        return TxnTransaction(
            name=name,
            weight=keys.weight,
            explicit=explicit,
            think_us=think_us,
            exponential=exponential,
            statements=tuple(named),
        )

    def sentences(self, text: str, offset: Offsets) -> list[Sentence]:
        try:
            return list(read_statements(text))
        except Mistake as mistake:
            raise self.root.error(self.at(offset(mistake.offset)), mistake.message, mistake.hint) from None

    def statement(
        self, sentence: Sentence, offset: Offsets, keys: _Statement, fresh: Iterable[Node] = ()
    ) -> TxnStatement:
        where = self.at(offset(sentence.offset))
        if sentence.verb in _NOT_IN_A_TRANSACTION:
            what = f"{sentence.verb} is not supported in a transaction"
            raise self.root.error(where, what, _NOT_IN_A_TRANSACTION[sentence.verb])
        for name, place in sentence.parameters:
            if name not in self.names:
                near = suggestion(f":{name}", [f":{known}" for known in self.names])
                hint = near or f"define it: [parameter.{name}]"
                raise self.root.error(self.at(offset(place)), f"there is no parameter :{name}", hint)
            self.used.add(name)
        own = [name for name, _ in sentence.parameters]
        for item in fresh:
            name = str(item.value).removeprefix(":")
            if name not in own:
                hint = suggestion(name, own) or f"it has {', '.join(own) or 'no parameters'}"
                raise self.root.error(item, f"the statement has no parameter :{name}", hint)
        think_us, exponential = keys.thought
        return TxnStatement(
            name=keys.name or sentence.name,
            sql=sentence.sql,
            place=f"{self.root.path}:{where.line}:{where.column}",
            parameters=tuple(map(self.names.index, own)),
            fresh=tuple(self.names.index(name.removeprefix(":")) for name in keys.fresh),
            repeat=keys.repeat,
            writes=sentence.writes,
            think_us=think_us,
            exponential=exponential,
        )

    def at(self, offset: int) -> Node:
        before = self.source[:offset]
        return Node(kind="string", line=before.count("\n") + 1, column=offset - before.rfind("\n"))


class _TomlReader(_Reader):
    form = _TomlFile
    way = 'write statements = ["UPDATE …"]'
    file: _TomlFile

    def __init__(self, source: str, path: str) -> None:
        super().__init__(source, path, source)
        self.lines = source.splitlines(keepends=True)

    def setup(self) -> tuple[str, str | None]:
        if "setup" in self.root and "setup_file" in self.root:
            what = "setup and setup_file cannot be combined"
            raise self.root.misplaced("setup_file", what, "leave one out")
        return self.file.setup, self.file.setup_file or None

    def transaction(self, name: str, at: Table) -> tuple[bool, list[TxnStatement]]:
        keys = self.file.transaction[name]
        assert isinstance(keys, _Transaction)
        items = zip(at.tables("statements", _Statement), keys.statements, strict=True)
        return not keys.autocommit, [self._statement(table, given) for table, given in items]

    def _statement(self, table: Table, given: str | _Statement) -> TxnStatement:
        node, keys = table.node, _Statement()
        if isinstance(given, _Statement):
            table.need("sql")
            node, keys = table.entries["sql"].node, given
        text = str(node.value)
        offset = self._offsets(node, text)
        sentences = self.sentences(text, offset)
        if len(sentences) != 1:
            where = self.at(offset(sentences[1].offset)) if sentences else node
            what = "several statements in one string" if sentences else "the statement is empty"
            raise self.root.error(where, what, "write each as an item of statements")
        return self.statement(sentences[0], offset, keys, table.items("fresh"))

    def _offsets(self, node: Node, text: str) -> Offsets:
        begin = sum(map(len, self.lines[: node.line - 1])) + node.column - 1
        start = self.source.find(text, begin)
        if start < 0 or self.source[begin:start].strip("\"'\r\n"):
            return lambda _: begin  # it has escapes: its beginning will do
        return lambda offset: start + offset


class _SqlReader(_Reader):
    form = _SqlFile
    way = "write SQL below it"

    def __init__(self, source: str, path: str) -> None:
        self.lines = source.split("\n")
        directives = [bool(_DIRECTIVE.match(line)) for line in self.lines]
        pairs = list(zip(self.lines, directives, strict=True))
        toml = "\n".join(line.replace("--:", "   ", 1) if is_toml else "" for line, is_toml in pairs)
        self.sql = "\n".join(" " * len(line) if is_toml else line for line, is_toml in pairs)
        super().__init__(source, path, toml)
        entries = self.root.table("transaction").entries.values()
        starts = sorted([*(entry.line for entry in entries), len(self.lines) + 1])
        self._first, self._ends = starts[0], dict(pairwise(starts))

    def setup(self) -> tuple[str, str | None]:
        text = self.sql[: self._offset(self._first)]
        return text if text.strip() else "", None

    def transaction(self, name: str, at: Table) -> tuple[bool, list[TxnStatement]]:
        line = self.root.table("transaction").entries[name].line
        begin, end = self._offset(line), self._offset(self._ends[line])

        def offset(place: int) -> int:
            return begin + place

        sentences = self.sentences(self.sql[begin:end], offset)
        explicit = bool(sentences) and _BEGIN.fullmatch(sentences[0].code) is not None
        if explicit:
            if not _COMMIT.fullmatch(sentences[-1].code):
                what = f"transaction {name} has BEGIN but does not end with COMMIT"
                where = self.at(offset(sentences[0].offset))
                raise self.root.error(where, what, "write COMMIT; at its end, or remove BEGIN")
            sentences = sentences[1:-1]
        return explicit, [self.statement(sentence, offset, _Statement()) for sentence in sentences]

    def _offset(self, line: int) -> int:
        return sum(len(text) + 1 for text in self.lines[: line - 1])
