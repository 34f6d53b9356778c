"""SQL with `:parameters`: where they stand, what stands between them, where statements end. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_TOKEN = re.compile(
    r"""
    (?P<passive> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*`
               | --(?=\s|\Z)[^\n]* | \#[^\n]* | /\*(?![!+]|M!).*?\*/ )
  | (?P<open> ['"`] | /\*(?![!+]|M!) )
  | (?<![\w:@]):(?P<name>[A-Za-z_]\w*)
  | (?P<mark> \? )
  | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN = {"'": "string", '"': "string", "`": "quoted identifier", "/*": "comment"}
_VERB = re.compile(r"[A-Za-z]+")
_TARGETS = (
    re.compile(
        r"\b(?:INSERT|REPLACE)\b(?:\s+(?:IGNORE|LOW_PRIORITY|DELAYED))*(?:\s+INTO)?\s+([\w.`$]+)", re.I
    ),
    re.compile(r"\bUPDATE\b(?:\s+(?:IGNORE|LOW_PRIORITY))*\s+([\w.`$]+)", re.I),
    re.compile(r"\bFROM\s+([\w.`$]+)", re.I),
)
_READING = frozenset({"SELECT", "SHOW", "SET", "DO", "VALUES", "TABLE", "EXPLAIN", "DESCRIBE", "DESC"})
_WRITING = re.compile(r"\b(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
_NAME_LENGTH = 40


class Mistake(Exception):
    def __init__(self, offset: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.offset, self.message, self.hint = offset, message, hint


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """`sql` has a `?` for each parameter, `code` neither strings nor comments; offsets are in characters."""

    offset: int
    sql: str
    code: str
    parameters: tuple[tuple[str, int], ...]

    @property
    def verb(self) -> str:
        found = _VERB.search(self.code)
        return found[0].upper() if found else ""

    @property
    def writes(self) -> bool:
        if self.verb == "WITH":
            return _WRITING.search(self.code) is not None
        return self.verb not in _READING

    @property
    def name(self) -> str:
        found = next(filter(None, (target.search(self.code) for target in _TARGETS)), None)
        table = found[1].replace("`", "") if found else ""
        return f"{self.verb} {table}".strip()[:_NAME_LENGTH]


def read_statements(text: str) -> Iterator[Sentence]:
    gathered, done = _Gathered(), 0
    for token in _TOKEN.finditer(text):
        if token["open"]:
            what = _OPEN[token["open"]]
            raise Mistake(token.start(), f"the {what} that begins here is not closed", "close it")
        if token["mark"]:
            raise Mistake(
                token.start(), "? is a parameter without a name", "write :name, and [parameter.name]"
            )
        gathered.add(text[done : token.start()], done)
        done = token.end()
        if token["end"]:
            yield from gathered.sentence()
            gathered = _Gathered()
        elif token["name"]:
            gathered.add("?", token.start())
            gathered.parameters.append((token["name"], token.start()))
        elif token[0][0] in "'\"`":
            gathered.add(token[0], token.start(), " " if token[0][0] != "`" else None)
        else:
            gathered.add(" ", token.start())
    gathered.add(text[done:], done)
    yield from gathered.sentence()


class _Gathered:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.code: list[str] = []
        self.parameters: list[tuple[str, int]] = []
        self.begin: int | None = None

    def add(self, sql: str, offset: int, code: str | None = None) -> None:
        self.parts.append(sql)
        self.code.append(sql if code is None else code)
        if self.begin is None and sql.strip():
            self.begin = offset + len(sql) - len(sql.lstrip())

    def sentence(self) -> Iterator[Sentence]:
        if self.begin is not None:
            yield Sentence(
                offset=self.begin,
                sql="".join(self.parts).strip(),
                code="".join(self.code).strip(),
                parameters=tuple(self.parameters),
            )
