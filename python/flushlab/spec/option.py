"""Option: the declaration of one field of a specification.

Sits in `spec`. A field is declared where it is kept: `name: Annotated[TYPE, Option("help")] = DEFAULT`. Its
type says how it is typed and what it takes: bounds are `msgspec.Meta` of the type, and msgspec checks them.
"""

from __future__ import annotations

import difflib
import functools
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, inspect

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.settings.option_names import setting_of, settings_of

Panel = Literal["What to run", "Which server", "How long and how sure", "Where the data live", "Output"]
"""A section of --help."""
PANELS: tuple[Panel, ...] = get_args(Panel)
RUN, SERVER, SURE, DATA, OUTPUT = PANELS

Number = inspect.IntType | inspect.FloatType
Kind = Literal["text", "path", "whole", "number", "switch", "word", "texts", "wholes", "settings"]


class Option(msgspec.Struct, frozen=True):
    """The declaration of a field, beside its type.

    Attributes:
        help: one sentence or two, as --help prints them.
        flag: the option of the command line, without dashes; empty: the field's name.
        short: the letter of its short form; empty for none.
        key: the parameter of the Python function; empty: the field's name.
        metavar: what stands for the value in --help; empty: its type.
        positional: it is a word of the command, not an option.
        path: the text is a path; it is kept absolute.
        range_hint: said after the bounds where a number is out of them.
        needs: another field, without which this one has no effect.
        hint: the way out where that is missing.
        started: only for servers that flushlab starts.
        always: the command that repeats a campaign says it also where it has its default.
        panel: the section of --help; None: that of the part.
        rare: only --help-all lists the option.
    """

    help: str
    flag: str = ""
    short: str = ""
    key: str = ""
    metavar: str = ""
    positional: bool = False
    path: bool = False
    range_hint: str = ""
    needs: str = ""
    hint: str = ""
    started: bool = False
    always: bool = False
    panel: Panel | None = None
    rare: bool = False


class Without(msgspec.Struct, frozen=True):
    """Marks a part of a specification of which some fields do not apply.

    Attributes:
        names: of the fields.
        why: for who asks for one of them; empty: nobody will.
    """

    names: tuple[str, ...]
    why: str = ""


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A specification, or a part of one."""

    with_resume: ClassVar[bool] = False
    """Whether fields of this part go with --resume."""
    stored: ClassVar[bool] = True
    """Whether the part is kept with a campaign."""
    panel: ClassVar[Panel] = RUN
    """The section of --help for options that declare none."""


class _Own(Spec, frozen=True):
    panel: ClassVar[Panel] = OUTPUT


class Field(msgspec.Struct, frozen=True):
    """A field of a specification, as everybody who asks for it sees it.

    Attributes:
        part: the part that has it, an attribute of the specification; empty for its own fields.
        owner: the type of that part.
        words: all values of a word.
        number: the bounds of a number, or of each of several.
    """

    name: str
    part: str
    owner: type[msgspec.Struct]
    kind: Kind
    words: tuple[str, ...]
    number: Number | None
    default: Any
    option: Option
    type: Any

    @property
    def key(self) -> str:
        return self.option.key or self.name

    @property
    def flag(self) -> str:
        """The option of the command line, or the word of --help for a positional one."""
        if self.option.positional:
            return self.name.upper()
        return flag(self.option.flag or self.key)

    def read(self, text: str) -> Any:
        """The value that a word of the command line stands for.

        Raises:
            UsageError: none.
        """
        percent, what = self.option.metavar == "PERCENT", _WORDS[self.kind]
        try:
            match self.kind:
                case "whole":
                    return int(text)
                case "wholes":
                    what = "a list of numbers, like 1,16,64"
                    return tuple(map(int, text.split(",")))
                case "number" if percent and text.endswith("%"):
                    return float(text[:-1]) / 100
                case "number":
                    return int(text) if text.isdigit() else float(text)
        except ValueError:
            raise self._wrong(text, "a percentage, like 2%" if percent else what) from None
        return text

    def check(self, value: Any, name: str = "") -> Any:
        """The value as it is kept; `name` is how the place that asks spells the field, else as a flag.

        Raises:
            UsageError: of another type, or out of range.
        """
        if self.kind == "settings":
            return settings_of(value) if isinstance(value, Mapping) else assigned(value, self.flag)
        several = self.kind in ("texts", "wholes")
        values = tuple(value) if several and not isinstance(value, str | Path | int) else (value,)
        plain = [self._plain(item) for item in values]
        if "" in plain and self.kind != "word" and self.default != "":
            raise UsageError(f"{self.flag} is empty", hint="name one, or leave it out")
        try:
            kept = msgspec.convert(plain if several else plain[0], self.type, dec_hook=_make)
        except msgspec.ValidationError:
            raise next(filter(None, (self._refused(item, name) for item in plain))) from None
        if self.option.path:
            return absolute(kept)
        if self.kind == "number" and not issubclass(self.owner, Spec):
            return plain[0]  # a workload's option is told as it was given: 100, not 100.0
        return float(kept) if self.kind == "number" else kept

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        if self.words == SWITCH and isinstance(value, bool):
            return "on" if value else "off"
        word = getattr(value, "value", value)  # of an Enum
        # REQUIRED, as MySQL's manual writes it
        return word.lower() if isinstance(word, str) and word.lower() in self.words else word

    def _refused(self, value: Any, name: str) -> UsageError | None:
        name = name or self.flag
        if self.kind == "word" and (text := str(value)) not in self.words:
            near = difflib.get_close_matches(text.lower(), self.words, n=1)
            hint = f"did you mean {near[0]}?" if near else self.option.help
            return UsageError(f"{name}: {text!r} is not one of {', '.join(self.words)}", hint=hint)
        if not isinstance(value, _TYPES[self.kind]) or (isinstance(value, bool) and self.kind != "switch"):
            return self._wrong(value, _WORDS[self.kind], name)
        if self.number is not None and not is_within(self.number, value):
            more = f"; {self.option.range_hint}" if self.option.range_hint else ""
            hint = f"it takes {bounds(self.number)}{more}"
            return UsageError(f"{name} {spelled(value)} is out of range", hint=hint)
        return None

    def _wrong(self, value: object, what: str, name: str = "") -> UsageError:
        takes = bounds(self.number) if self.number is not None else ""
        hint = f"it takes {takes}" if takes else self.option.help
        return UsageError(f"{name or self.flag} is {value!r}; it takes {what}", hint=hint)


SWITCH = ("on", "off")
"""Words of a switch that has a value, so that a plan can say either."""
_TYPES: Mapping[Kind, Any] = {
    **dict.fromkeys(("text", "path", "texts", "word"), str),
    **dict.fromkeys(("whole", "wholes"), int),
    "number": int | float,
    "switch": bool,
}
_WORDS: Mapping[Kind, str] = {
    **dict.fromkeys(("text", "path", "texts", "word", "settings"), "a string"),
    **dict.fromkeys(("whole", "wholes"), "a whole number"),
    "number": "a number",
    "switch": "True or False",
}


def _make(type_: type, text: Any) -> Any:
    return type_(text)


def is_within(number: Number, value: float) -> bool:
    """Whether a value is within a number's bounds."""
    return (
        (number.gt is None or value > number.gt)
        and (number.ge is None or value >= number.ge)
        and (number.lt is None or value < number.lt)
        and (number.le is None or value <= number.le)
    )


def bounds(number: Number) -> str:
    """What a number takes, in words; empty if any."""
    above, least, below, most = (
        None if end is None else str(end) if isinstance(end, int) else f"{end:.9g}"
        for end in (number.gt, number.ge, number.lt, number.le)
    )
    if above is not None:
        high = f", up to {most}" if most is not None else f", less than {below}" if below is not None else ""
        return f"more than {above}{high}"
    if least is None:
        return ""
    return f"{least} to {most}" if most is not None else f"at least {least}"


def assigned(assignments: Iterable[str], flag: str = "--set") -> dict[str, Value]:
    """Settings of `NAME=VALUE`, or of an option that stands alone, as texts.

    Raises:
        UsageError: not of that form, or given twice.
    """
    settings: dict[str, Value] = {}
    for assignment in assignments:
        word, equals, text = assignment.partition("=")
        name, value = setting_of(word.strip().lstrip("-"), text.strip() if equals else None)
        if value is None or not name:
            raise UsageError(
                f"{flag} {assignment!r} is not NAME=VALUE", hint=f"for example {flag} sync_binlog=1"
            )
        if name in settings:
            raise UsageError(f"{flag} names {name} twice", hint="give each setting once")
        settings[name] = value
    return settings


@functools.cache
def fields(spec: type[msgspec.Struct]) -> Mapping[str, Field]:
    """All fields of a specification by their keys, in the order of declaration, each part in its place."""
    declared: list[Field | None] = []
    for name, hint, default in _declared(spec):
        if (part := part_type(hint)) is None:
            declared.append(field_of(name, hint, default, owner=spec))
        else:
            out = {left for note in _notes(hint) if isinstance(note, Without) for left in note.names}
            inner = (attribute for attribute in _declared(part) if attribute[0] not in out)
            declared += [field_of(*attribute, part=name, owner=part) for attribute in inner]
    return {field.key: field for field in declared if field is not None}


@functools.cache
def left_out(spec: type[Spec]) -> Mapping[str, str]:
    """Why fields do not apply that people may ask for, by their keys."""
    notes = [note for _, hint, _ in _declared(spec) for note in _notes(hint) if isinstance(note, Without)]
    return {name: note.why for note in notes if note.why for name in note.names}


def part_type(hint: Any) -> type[Spec] | None:
    """The part that an attribute of this type is; None for a field."""
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return bare if isinstance(bare, type) and issubclass(bare, Spec) else None


def field_of(
    name: str, hint: Any, default: Any, *, part: str = "", owner: type[msgspec.Struct] = _Own
) -> Field | None:
    """An attribute, or a command's own parameter, as a field; None where it is not declared as one."""
    notes = _notes(hint)
    option = next((note for note in notes if isinstance(note, Option)), None)
    if option is None:
        return None
    option = msgspec.structs.replace(option, panel=option.panel or getattr(owner, "panel", OUTPUT))
    bounds = [note for note in notes if isinstance(note, Meta)]
    type_ = Annotated[get_args(hint)[0], *bounds] if bounds else get_args(hint)[0]
    return Field(name, part, owner, *_kind(type_, option), default, option, type_)


def _notes(hint: Any) -> Sequence[Any]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _declared(spec: type[msgspec.Struct]) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of attributes, those of the most derived first."""
    hints = typing.get_type_hints(spec, include_extras=True)
    known = {field.name: field for field in msgspec.structs.fields(spec)}
    names = (name for owner in spec.__mro__ for name in vars(owner).get("__annotations__", ()))
    for name in dict.fromkeys(name for name in names if name in known):
        default, factory = known[name].default, known[name].default_factory
        if default is msgspec.NODEFAULT:
            default = None if factory is msgspec.NODEFAULT else factory()
        yield name, hints[name], default


def _kind(type_: Any, option: Option) -> tuple[Kind, tuple[str, ...], Number | None]:
    if get_origin(type_) in (typing.Union, types.UnionType):
        type_ = next(arg for arg in get_args(type_) if arg is not type(None))
    match inspect.type_info(type_):
        case inspect.LiteralType():  # which sorts its values
            return "word", tuple(map(str, get_args(type_))), None
        case inspect.EnumType(cls=words):
            return "word", tuple(str(member.value) for member in words), None
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return ("wholes", (), item) if isinstance(item, inspect.IntType) else ("texts", (), None)
        case inspect.DictType():
            return "settings", (), None
        case inspect.BoolType():
            return "switch", (), None
        case inspect.IntType() as number:
            return "whole", (), number
        case inspect.FloatType() as number:
            return "number", (), number
        case inspect.StrType() if not option.path:
            return "text", (), None
    return "path", (), None


def flag(name: str) -> str:
    """A name as the command line spells it; `continue_` is a Python keyword otherwise."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def absolute(path: Path | str) -> str:
    """A path as it is kept, since a campaign may be resumed from another folder."""
    return str(Path(path).expanduser().absolute())


def spelled(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)
