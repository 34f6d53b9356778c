"""TOML as structs: a document is converted by msgspec, and every mistake has its line and column.

Sits in `plan`; apart from `read_text` it is pure. A struct declares the keys of a table with types and
bounds, and `Table.read` makes it of the table. If msgspec refuses, the nodes are walked along the struct for
the first mistake; `flushlab._core` keeps their positions, which `tomllib` forgets. `Meta(title=…)` is what a
key takes, in words, and `Meta(description=…)` the way out. Plans of series, plans of rows and files of
transactions are read so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, inspect

from flushlab import _core
from flushlab.errors import StorageError, UsageError, nearest
from flushlab.spec.option import bounds, is_within
from flushlab.units import format_size

T = TypeVar("T")

Kind = Literal["string", "integer", "float", "boolean", "datetime", "array", "table"]
Scalar = Annotated[bool | int | float | str, Meta(title="a number, a string, true or false")]
"""A value of a setting or of a workload's option."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A value.

    Attributes:
        kind: what it is; an array of tables is an array.
        line, column: where it begins, from 1; columns count characters.
        value: of what is neither array nor table; dates, infinity and NaN as text.
        items: of an array.
        entries: of a table, in the file's order.
    """

    kind: Kind
    line: int
    column: int
    value: bool | int | float | str | None = None
    items: tuple[Node, ...] = ()
    entries: tuple[Entry, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    line: int
    column: int
    node: Node


def read_toml(text: str, *, path: str) -> Node:
    """UsageError, as `PATH:LINE:COL: …`, if it is not TOML."""
    try:
        return msgspec.json.decode(_core.parse_toml(text), type=Node)
    except _core.TomlError as error:
        raise UsageError(
            f"{path}:{error.line}:{error.column}: this is not TOML: {error.message}",
            hint="strings need quotes; tables are written [name], repeated ones [[name]]",
        ) from None


def read_text(path: Path, most_bytes: int) -> str:
    """UsageError: it is too large to be a plan, or no text. StorageError: it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > most_bytes:
        what = f"{path} has more than {format_size(most_bytes)}, which is too large for a plan"
        raise UsageError(what, hint="is it the right file?")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: this is not UTF-8 text", hint="save the plan as UTF-8") from None


def positions(document: Node, prefix: str = "") -> dict[str, tuple[int, int]]:
    """Line and column of every key and of every array item, by path: `base.settings.NAME`, `arm.2.name`."""
    places: dict[str, tuple[int, int]] = {}
    for entry in document.entries:
        places[f"{prefix}{entry.key}"] = entry.line, entry.column
        places |= positions(entry.node, f"{prefix}{entry.key}.")
    for index, item in enumerate(document.items):
        places[f"{prefix}{index}"] = item.line, item.column
        places |= positions(item, f"{prefix}{index}.")
    return places


class Table:
    def __init__(self, path: str, node: Node, what: str) -> None:
        self.path, self.node, self.what = path, node, what
        self.entries = {entry.key: entry for entry in node.entries}

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def error(self, where: Node | Entry, what: str, hint: str | None) -> UsageError:
        return UsageError(f"{self.path}:{where.line}:{where.column}: {what}", hint=hint)

    def wrong(self, key: str, what: str, hint: str | None) -> UsageError:
        return self.error(self.entries[key].node if key in self else self.node, what, hint)

    def wrong_type(self, node: Node, key: str, wanted: str, hint: str | None = None) -> UsageError:
        article = "an" if node.kind in ("array", "integer") else "a"
        return self.error(
            node, f"{key} is {article} {node.kind}; it takes {wanted}", hint or f"write {wanted}"
        )

    def misplaced(self, key: str, what: str, hint: str | None) -> UsageError:
        return self.error(self.entries[key], what, hint)

    def need(self, *keys: str) -> None:
        for key in keys:
            if key not in self:
                for slip in nearest(key, self.entries, most=1, cutoff=0.7):
                    raise self.misplaced(slip, f"{self.what} has {slip} but no {key}", f"did you mean {key}?")
                raise self.error(self.node, f"{self.what} needs {key}", f"write {key} = … there")

    def items(self, key: str) -> Sequence[Node]:
        return self.entries[key].node.items if key in self else ()

    def table(self, key: str) -> Table:
        """The table of a key; where that is left out, an empty one in the same place."""
        node = self.entries[key].node if key in self else msgspec.structs.replace(self.node, entries=())
        return Table(self.path, node, f"the {key}")

    def tables(self, key: str, type_: type) -> list[Table]:
        word = _word(type_)
        return [
            Table(self.path, node, _numbered(word, at, node)) for at, node in enumerate(self.items(key), 1)
        ]

    def named(self, key: str) -> dict[str, Table]:
        entries = self.entries[key].node.entries if key in self else ()
        return {entry.key: Table(self.path, entry.node, _called(key, entry)) for entry in entries}

    def read(self, type_: type[T], *, leave_out: Collection[str] = ()) -> T:
        """UsageError as `PATH:LINE:COL: …`, with the nearest key or word in the hint."""
        try:
            return msgspec.convert(self._plain(self.node, "", leave_out), type_)
        except msgspec.ValidationError as error:
            info = inspect.type_info(type_)
            assert isinstance(info, inspect.StructType)
            raise self._mistake(info, leave_out) or error from None

    def read_kind(
        self, key: str, kinds: Mapping[str, type[T]], example: str, leave_out: Collection[str] = ()
    ) -> tuple[str, T]:
        if self.node.kind != "table":
            raise self.wrong_type(self.node, self.what, "a table", f"write {example}")
        if key not in self:
            for slip in nearest(key, self.entries, most=1):
                raise self.misplaced(slip, f"{slip} is not a key of {self.what}", f"did you mean {key}?")
            raise self.error(self.node, f"{self.what} has no {key}", f"it takes {', '.join(kinds)}")
        node = self.entries[key].node
        if node.kind != "string":
            raise self.wrong_type(node, key, "a string in quotes")
        kind = str(node.value)
        if kind not in kinds:
            hint = suggestion(kind, kinds) or f"it takes {', '.join(kinds)}"
            raise self.error(node, f"there is no {key} {kind!r}", hint)
        self.what = f"{self.what}, of {key} {kind}"
        return kind, self.read(kinds[kind], leave_out=(key, *leave_out))

    def _plain(self, node: Node, key: str, leave_out: Collection[str] = ()) -> Any:
        if node.kind == "table":
            return {
                entry.key: self._plain(entry.node, entry.key)
                for entry in node.entries
                if entry.key not in leave_out
            }
        if node.kind == "array":
            return [self._plain(item, f"an item of {key}") for item in node.items]
        if node.kind == "float" and isinstance(node.value, str):  # infinity and NaN
            raise self.error(node, f"{key} is {node.value}; it takes a number", "write a number")
        return node if node.kind == "datetime" else node.value

    # What msgspec refused, in words: the first mistake in the file's order.

    def _mistake(self, struct: inspect.StructType, leave_out: Collection[str] = ()) -> UsageError | None:
        fields = {field.encode_name: field for field in struct.fields}
        known = (*leave_out, *fields)
        for key in self.entries:
            if key not in known:
                hint = suggestion(key, known, cutoff=0.5) or f"it takes {', '.join(known)}"
                return self.misplaced(key, f"{key} is not a key of {self.what}", hint)
        self.need(*(name for name, field in fields.items() if field.required))
        read = (entry for key, entry in self.entries.items() if key in fields)
        return _first(self._refused(entry.key, entry.node, fields[entry.key].type) for entry in read)

    def _refused(
        self, key: str, node: Node, type_: inspect.Type, what: str = "", hint: str | None = None
    ) -> UsageError | None:
        title = ""
        if isinstance(type_, inspect.Metadata):
            schema = type_.extra_json_schema or {}
            title = schema.get("title", "")
            hint = schema.get("description", hint)
            type_ = type_.type
        options = type_.types if isinstance(type_, inspect.UnionType) else (type_,)
        options = tuple(option for option in options if not isinstance(option, inspect.NoneType))
        match next((option for option in options if _takes(option, node)), None):
            case None:
                words, way = zip(*(_written(key, option) for option in options), strict=True)
                wanted = title or " or ".join(dict.fromkeys(words))
                return self.wrong_type(node, key, wanted, hint or way[0])
            case inspect.Metadata() as inner:
                return self._refused(key, node, inner, what, hint)
            case inspect.StructType() as struct:
                return Table(self.path, node, what or f"the {key}")._mistake(struct)
            case inspect.DictType(value_type=of, min_length=least):
                if least and not node.entries:
                    return self.error(node, f"{key} is empty", hint)
                return _first(
                    self._refused(entry.key, entry.node, of, _called(key, entry)) for entry in node.entries
                )
            case inspect.VarTupleType(item_type=of, min_length=least):
                if least and not node.items:
                    return self.error(node, f"{key} is empty", hint)
                return _first(
                    self._refused(f"an item of {key}", item, of, _numbered(_word(of), at, item), hint)
                    for at, item in enumerate(node.items, 1)
                )
            case inspect.IntType() | inspect.FloatType() as number:
                assert isinstance(node.value, int | float)
                given = f"{node.value:g}" if isinstance(node.value, float) else node.value
                what = f"{key} is {given}, which is out of range"
                hint = f"it takes {bounds(number)}" + (f"; {hint}" if hint else "")
                return None if is_within(number, node.value) else self.error(node, what, hint)
            case inspect.LiteralType(values=words) | inspect.EnumType(cls=words):
                known = [str(getattr(word, "value", word)) for word in words]
                if str(node.value) in known:
                    return None
                hint = suggestion(str(node.value), known) or f"it takes {' or '.join(filter(None, known))}"
                return self.error(node, f"unknown {key} {node.value!r}", hint)
        return None


_TYPES: Mapping[type[inspect.Type], tuple[str, tuple[Kind, ...]]] = {
    inspect.IntType: ("a whole number", ("integer",)),
    inspect.FloatType: ("a number", ("integer", "float")),
    inspect.StrType: ("a string in quotes", ("string",)),
    inspect.LiteralType: ("a string in quotes", ("string", "integer")),
    inspect.EnumType: ("a string in quotes", ("string",)),
    inspect.BoolType: ("true or false", ("boolean",)),
    inspect.VarTupleType: ("a list", ("array",)),
    inspect.DictType: ("a table", ("table",)),
    inspect.StructType: ("a table", ("table",)),
}
"""What keys of a type take, in words and in TOML; of another type anything."""


def _takes(type_: inspect.Type, node: Node) -> bool:
    return type(type_) not in _TYPES or node.kind in _TYPES[type(type_)][1]


def _first(mistakes: Iterable[UsageError | None]) -> UsageError | None:
    return next(filter(None, mistakes), None)


def _word(type_: object) -> str:
    if isinstance(type_, inspect.UnionType):
        type_ = next((option for option in type_.types if isinstance(option, inspect.StructType)), type_)
    if isinstance(type_, inspect.StructType):
        type_ = type_.cls
    return getattr(type_, "__name__", "").strip("_").lower()


def _numbered(word: str, number: int, node: Node) -> str:
    name = next((entry.node.value for entry in node.entries if entry.key == "name"), None)
    return f"the {word} {name}" if isinstance(name, str) else f"{word} {number}"


def _called(key: str, entry: Entry) -> str:
    return f"the {key.removesuffix('s')} {entry.key}"


def _written(key: str, type_: inspect.Type) -> tuple[str, str | None]:
    match type_:
        case inspect.StructType():
            return "a table", f"write [{key}]"
        case inspect.DictType(value_type=inspect.StructType()):
            return f"tables: [{key}.NAME]", f"write [{key}.NAME]"
        case inspect.VarTupleType(item_type=inspect.StructType()):
            return "a list of tables", f"write each as [[{key}]]"
    return _TYPES[type(type_)][0], None


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    near = nearest(name, known, most=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else None
