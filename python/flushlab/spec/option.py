"""Option: the declaration of one field of a specification.

Sits in `spec`. A field is declared where it is kept, as `name: Annotated[TYPE, Option("help")] = DEFAULT`;
its type says how it is typed and what it takes.
"""

from __future__ import annotations

import difflib
import functools
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import msgspec

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.settings.option_names import setting_of, settings_of

Panel = Literal["What to run", "Which server", "How long and how sure", "Where the data live", "Output"]
"""A section of --help."""
PANELS: tuple[Panel, ...] = get_args(Panel)
RUN, SERVER, SURE, DATA, OUTPUT = PANELS

Kind = Literal["text", "path", "whole", "number", "switch", "word", "texts", "wholes", "settings"]


class Option(msgspec.Struct, frozen=True):
    """What is said of a field where it is declared.

    Attributes:
        help: one sentence or two, as --help prints them.
        flag: the option of the command line, without dashes; empty: the field's name.
        short: the letter of its short form; empty for none.
        key: the parameter of the Python function; empty: the field's name.
        metavar: what stands for the value in --help; empty: its type.
        positional: it is a word of the command, not an option.
        path: the text is a path; it is kept absolute.
        least, most: bounds of a number, inclusive.
        above: the number is greater than this.
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
    least: float | None = None
    most: float | None = None
    above: float | None = None
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
    """Owner of a command's own parameters."""

    panel: ClassVar[Panel] = OUTPUT


class Field(msgspec.Struct, frozen=True):
    """A field of a specification, as everybody who asks for it sees it.

    Attributes:
        name: of the attribute.
        part: the part that has it, an attribute of the specification; empty for its own fields.
        owner: the type of that part.
        kind: of its value.
        words: all values of a word.
        default: of the attribute.
        option: as it was declared.
    """

    name: str
    part: str
    owner: type[Spec]
    kind: Kind
    words: tuple[str, ...]
    default: Any
    option: Option
    type: Any

    @property
    def key(self) -> str:
        """The parameter of the Python function."""
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
        if self.kind in ("whole", "wholes"):
            try:
                found = [int(one) for one in text.split(",")]
            except ValueError:
                what = "a whole number" if self.kind == "whole" else "a list of numbers, like 1,16,64"
                raise self.wrong(text, what) from None
            if self.kind == "whole" and len(found) > 1:
                raise self.wrong(text, "a whole number")
            return found[0] if self.kind == "whole" else tuple(found)
        if self.kind == "number":
            return self._number(text)
        return text

    def _number(self, text: str) -> float:
        percent = text.endswith("%") and self.option.metavar == "PERCENT"
        try:
            number = float(text.removesuffix("%") if percent else text)
        except ValueError:
            what = "a percentage, like 2%" if self.option.metavar == "PERCENT" else "a number"
            raise self.wrong(text, what) from None
        return number / 100 if percent else number

    def check(self, value: Any) -> Any:
        """The value as it is kept.

        Raises:
            UsageError: of another type, or out of range.
        """
        match self.kind:
            case "text" | "path":
                return self._text(value)
            case "switch":
                if not isinstance(value, bool):
                    raise self.wrong(value, "True or False")
                return value
            case "word":
                return self._word(value)
            case "texts":
                return tuple(self._text(one) for one in ([value] if isinstance(value, str | Path) else value))
            case "settings":
                return self._settings(value)
            case "wholes":
                several = (value,) if isinstance(value, int) else tuple(value)
                return tuple(self._whole(one) for one in several)
            case "whole":
                return self._whole(value)
            case "number":
                if not isinstance(value, int | float) or isinstance(value, bool):
                    raise self.wrong(value, "a number")
                return self._in_range(float(value))

    def _text(self, value: Any) -> str:
        if not isinstance(value, str | Path):
            raise self.wrong(value, "a text")
        if not str(value):
            raise UsageError(f"{self.flag} is empty", hint="name one, or leave it out")
        return absolute(value) if self.kind == "path" else str(value)

    def _word(self, value: Any) -> str:
        text = str(getattr(value, "value", value))
        if text not in self.words:
            near = difflib.get_close_matches(text.lower(), self.words, n=1)
            hint = f"did you mean {near[0]}?" if near else None
            raise UsageError(f"{self.flag}: {text!r} is not one of {', '.join(self.words)}", hint=hint)
        return text

    def _whole(self, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(value, "a whole number")
        return int(self._in_range(value))

    def _in_range(self, value: float) -> float:
        option = self.option
        least = -math.inf if option.least is None else option.least
        most = math.inf if option.most is None else option.most
        if least <= value <= most and (option.above is None or value > option.above):
            return value
        low = f"more than {option.above:g}" if option.above is not None else _bound(least)
        up = "at least " if option.above is None else ""
        takes = f"{up}{low}" if most == math.inf else f"{low} to {_bound(most)}"
        if option.above is not None and most != math.inf:
            takes = f"{low}, up to {_bound(most)}"
        more = f"; {option.range_hint}" if option.range_hint else ""
        raise UsageError(f"{self.flag} {spelled(value)} is out of range", hint=f"it takes {takes}{more}")

    def _settings(self, value: Any) -> dict[str, Value]:
        if isinstance(value, Mapping):
            return settings_of(value)
        return assigned(value, self.flag)

    def wrong(self, value: object, what: str) -> UsageError:
        """The error for a value of another type."""
        return UsageError(f"{self.flag}: {value!r} is not {what}", hint=self.option.help)


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
def fields(spec: type[Spec]) -> Mapping[str, Field]:
    """All fields of a specification by their keys, in the order of declaration, each part in its place."""
    found: dict[str, Field] = {}
    for name, (hint, notes, default) in _declared(spec).items():
        part = part_type(hint)
        if part is None:
            if (one := _field(name, "", spec, hint, notes, default)) is not None:
                found[one.key] = one
            continue
        out = {left for note in notes if isinstance(note, Without) for left in note.names}
        for inner, (type_, inner_notes, inner_default) in _declared(part).items():
            if (
                inner not in out
                and (one := _field(inner, name, part, type_, inner_notes, inner_default)) is not None
            ):
                found[one.key] = one
    return found


@functools.cache
def left_out(spec: type[Spec]) -> Mapping[str, str]:
    """Why fields do not apply that people may ask for, by their keys."""
    notes = (note for _, found, _ in _declared(spec).values() for note in found)
    return {name: note.why for note in notes if isinstance(note, Without) and note.why for name in note.names}


def part_type(hint: Any) -> type[Spec] | None:
    """The part that an attribute of this type is; None for a field."""
    return hint if isinstance(hint, type) and issubclass(hint, Spec) else None


def field_of(name: str, hint: Any, default: Any) -> Field | None:
    """A parameter of a command's own function as a field; None where it is not declared as one."""
    bare, notes = _split(hint)
    return _field(name, "", _Own, bare, notes, default)


def _field(
    name: str, part: str, owner: type[Spec], hint: Any, notes: Sequence[Any], default: Any
) -> Field | None:
    option = next((note for note in notes if isinstance(note, Option)), None)
    if option is None:
        return None
    option = msgspec.structs.replace(option, panel=option.panel or owner.panel)
    kind, words = _kind(hint, option)
    return Field(name, part, owner, kind, words, default, option, hint)


def _declared(spec: type[Spec]) -> dict[str, tuple[Any, Sequence[Any], Any]]:
    """Attributes of a type, those of the most derived first: type, notes, default."""
    hints = typing.get_type_hints(spec, include_extras=True)
    defaults = {
        one.name: one.default if one.default is not msgspec.NODEFAULT else _made(one.default_factory)
        for one in msgspec.structs.fields(spec)
    }
    names = [name for owner in spec.__mro__ for name in vars(owner).get("__annotations__", ())]
    order = dict.fromkeys(name for name in names if name in defaults)
    return {name: (*_split(hints[name]), defaults[name]) for name in order}


def _made(factory: Any) -> Any:
    return None if factory is msgspec.NODEFAULT else factory()


def _split(hint: Any) -> tuple[Any, Sequence[Any]]:
    if get_origin(hint) is Annotated:
        bare, *notes = get_args(hint)
        return bare, notes
    return hint, ()


def _kind(hint: Any, option: Option) -> tuple[Kind, tuple[str, ...]]:
    if get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is Literal:
        return "word", tuple(map(str, get_args(hint)))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "word", tuple(str(one.value) for one in hint)
    if get_origin(hint) in (tuple, list):
        return ("wholes" if get_args(hint)[0] is int else "texts"), ()
    if get_origin(hint) is not None:
        return "settings", ()
    if option.path or hint is Path:
        return "path", ()
    kinds: Mapping[Any, Kind] = {bool: "switch", int: "whole", float: "number", str: "text"}
    return kinds[hint], ()


def flag(name: str) -> str:
    """A name as the command line spells it; `continue_` is a Python keyword otherwise."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def absolute(path: Path | str) -> str:
    """A path as it is kept, since a campaign may be resumed from another folder."""
    return str(Path(path).expanduser().absolute())


def spelled(value: object) -> str:
    """A value as the command line spells it."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)


def _bound(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.9g}"
