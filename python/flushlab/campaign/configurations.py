"""Configurations as people type them: `base`, an option file, or settings, perhaps with a `label: ` before.
Behind may stand a workload of their own (`--workload txn:new.toml --threads 8`) or a place (`--disk gp3`).

Sits in `campaign`. What is wrong with the words is found out here, before a server is looked for; whether a
server takes the settings is for those who know which one.
"""

from __future__ import annotations

import re
import shlex
import stat
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from flushlab.errors import UsageError
from flushlab.plan.plan import RESERVED
from flushlab.record import BASE, Value
from flushlab.server.sandbox.base_file import content
from flushlab.settings.option_names import load_option_names, setting_of, settings_of
from flushlab.spec.build import build
from flushlab.spec.build import words as words_of
from flushlab.spec.kinds import CompareSpec
from flushlab.spec.option import SWITCH, fields, flag
from flushlab.spec.option import spelled as spell
from flushlab.spec.parts import SAME_WORKLOAD, StorageSpec, WorkloadSpec
from flushlab.workload.parse import ON_DATA, all_options, settled, settled_name, workload_names

_LABELLED = re.compile(r"([^-:=\s](?:[^:=-]|:(?!\s)|(?<!\s)-|-(?!-))*):\s+(.+)")
"""A colon and a blank end a label, in which no option stands."""
_A_PATH = re.compile(r".*(/|\.(cnf|ini|conf))", re.IGNORECASE)
_SPACED = re.compile(r"""('[^']*'|"[^"]*")|\s*=\s*(?![\w-]+\s*=)""")
"""What is quoted, and an equals sign with the blanks that an option file may have around it."""
_FOR_EXAMPLE = "--workload txn:new.toml"
_EXAMPLE = "name configurations, for example: base innodb_flush_log_at_trx_commit=2"


class Given(NamedTuple):
    """`file`: None: the server's defaults; `workload`: what changes: options, and the name unless it is
    empty."""

    file: Path | None = None
    settings: Mapping[str, Value] = {}
    workload: WorkloadSpec = SAME_WORKLOAD
    storage: StorageSpec = StorageSpec()

    @property
    def is_plain(self) -> bool:
        return self.workload == SAME_WORKLOAD and self.storage == StorageSpec()


Configuration = Mapping[str, Value] | Path | str | WorkloadSpec | Given


def read(
    words: Sequence[str] | Mapping[str, Configuration], base: Path | str | None, *, alone: bool = False
) -> dict[str, Given]:
    """Settings go on top of `base`, or else of the option file that stands first; one alone is compared
    with the base."""
    own = Path(base) if base else None
    if isinstance(words, Mapping):
        found = {name: _given(given, own) for name, given in words.items()}
    else:
        found = _typed(words, own)
        if (len(found) == 1 and BASE not in found) or (alone and not found):
            found = {BASE: Given(own), **found}
    if len(found) < (1 if alone else 2):
        raise UsageError("there is nothing to compare", hint=_EXAMPLE)
    for name in list(found)[1:]:
        if not name or name in RESERVED:
            raise UsageError(f"a configuration cannot be called {name!r}", hint="give it another name")
    for file in dict.fromkeys(one.file for one in found.values() if one.file):
        if _mode(file) == stat.S_IFIFO:
            raise UsageError(
                f"the option file {file} is a pipe, which can be read only once",
                hint="name an option file such as my.cnf",
            )
        content(file)
    return found


def spelled(found: Mapping[str, Given], base: Path | None) -> tuple[str, ...]:
    first = next(iter(found.values()))
    words = []
    for name, one in found.items():
        if not one.settings:
            plain = BASE if one.file in (None, base) else str(one.file.absolute())
        else:
            assert one.file in (None, base, first.file)
            plain = shlex.join(f"{setting}={value}" for setting, value in one.settings.items())
        named = {"workload": one.workload.name} if one.workload.name else {}
        own = {**named, **one.workload.options}
        options = [f"{flag(option)} {shlex.quote(spell(value))}" for option, value in own.items()]
        options += words_of(one.storage)
        plain = " ".join((plain, *options))
        if plain == name or (options and _called(plain) == name) or named_after(name, one):
            words.append(plain if options else name)
            continue
        labelled = _LABELLED.fullmatch(f"{name}: {plain}")
        words.append(labelled[0] if labelled is not None and labelled[1] == name else plain)
    return tuple(words)


def named_after(name: str, one: Given) -> bool:
    try:
        rest, own = _split(name)
        own = own._replace(file=one.file, settings=_settings(rest) if rest else {})
    except UsageError:
        return False
    return own == one != Given(one.file)


def require_settings(found: Mapping[str, Given], command: str) -> None:
    for name, one in found.items():
        if not one.is_plain:
            raise UsageError(
                f"{command} takes configurations of settings only, but {name!r} has options",
                hint="give its options beside the configurations, where they count for all of them",
            )


def _given(given: Configuration, own: Path | None) -> Given:
    if isinstance(given, WorkloadSpec):
        given = Given(workload=given)
    if isinstance(given, Given):
        workload = settled(given.workload) if given.workload.name else given.workload
        return given._replace(file=given.file or own, workload=workload)
    return Given(own, settings_of(given)) if isinstance(given, Mapping) else Given(Path(given))


def _typed(words: Sequence[str], base: Path | None) -> dict[str, Given]:
    found = dict[str, Given]()
    under = base
    for number, word in enumerate(" ".join(word.split()) for word in words):
        labelled = None if _mode(Path(word)) == stat.S_IFREG else _LABELLED.fullmatch(word)
        label, text = (labelled[1].strip(), labelled[2]) if labelled else ("", word)
        typed = text
        text, own = _split(text)
        if text == BASE:
            name, one = text if number == 0 or BASE in found else str(base or "defaults"), Given(base)
        elif _mode(Path(text)) in (stat.S_IFREG, stat.S_IFIFO) or (
            "=" not in text and _A_PATH.fullmatch(text)
        ):
            name, one = f"./{text}" if text in RESERVED else text, Given(Path(text))
            under = one.file if number == 0 and base is None else under
        else:
            kind, colon, _ = text.partition(":")
            if f"{kind}{colon}" in ON_DATA or text in workload_names():
                raise UsageError(
                    f"{text!r} is a workload, not a configuration",
                    hint=f"write --workload {shlex.quote(text)}",
                )
            name = _called(typed)
            one = Given(under, _settings(_called(text)) if text or typed == text else {})
        if not own.is_plain:
            one, name = own._replace(file=one.file, settings=one.settings), _called(typed)
        if (label or name) in found or (not label and one in found.values()):
            raise UsageError(
                f"{label or typed!r} is given twice",
                hint="give each configuration once, or a label of its own",
            )
        found[label or name] = one
    return found


def _called(text: str) -> str:
    if "--workload" in text:
        *before, option, workload = _words(text)
        if option == "--workload" and before in ([], [BASE]):
            return workload
    return _SPACED.sub(lambda match: match[1] or "=", text)


def _split(text: str) -> tuple[str, Given]:
    if not re.search(r"(?<!\S)--\w", text):
        return text, Given()
    rest = list[str]()
    name, options, places = "", dict[str, Value](), dict[str, str]()
    words = deque(_words(text))
    taken, declared, known = fields(StorageSpec), all_options(), fields(CompareSpec)
    while words:
        word = words.popleft()
        spelling, equals, value = word.partition("=")
        key = spelling.removeprefix("--").replace("-", "_")
        own = key in taken or key in declared or key == "workload"
        if not word.startswith("--") or not (own or key in known):
            rest.append(word)
            continue
        if not own:
            raise UsageError(
                f"{spelling} is the same for all configurations", hint="give it beside the configurations"
            )
        is_switch = key in declared and declared[key].words == SWITCH
        if not equals and is_switch and (not words or words[0].lower() not in SWITCH):
            value = "on"
        elif not equals:
            value = words.popleft() if words else ""
        if not value:
            raise UsageError(f"{spelling} requires an argument", hint=f"for example: new: {_FOR_EXAMPLE}")
        if key == "workload":
            name = settled_name(value)
        elif key in declared:
            options[key] = declared[key].check(declared[key].read(value))
        else:
            places[key] = taken[key].check(taken[key].read(value))
    found = Given(workload=WorkloadSpec(name=name, options=options), storage=build(StorageSpec, places))
    return text if found.is_plain else shlex.join(rest), found


def _mode(path: Path) -> int:
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError:
        return 0


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError(f"a quotation mark is open in: {text}", hint="close it") from None


def _settings(text: str) -> dict[str, Value]:
    parts = _words(text)
    if not parts:
        raise UsageError("a configuration is empty", hint=f"`{BASE}` stands for the server's defaults")
    found: dict[str, Value] = {}
    for part in parts:
        spelling, equals, given = part.partition("=")
        name, value = setting_of(spelling.strip().lstrip("-"), given if equals else None)
        if not equals and len(parts) > 1 and (part == BASE or _mode(Path(part)) == stat.S_IFREG):
            file = "" if part == BASE else ", if that file stands first or is --base"
            rest = shlex.join(other for other in parts if other != part)
            raise UsageError(
                f"{part} stands among settings: {text}",
                hint=f"leave out {part}; settings go on top of it{file}: {rest}",
            )
        if value is None or not name:
            hint = "quote a value that contains spaces, like NAME='a b'" if len(parts) > 1 else _EXAMPLE
            if name in load_option_names().names():
                hint = f"give it a value: {name}=…"
            raise UsageError(f"{part!r} is neither `{BASE}` nor an option file nor NAME=VALUE", hint=hint)
        if name in found:
            raise UsageError(f"{text!r} sets {name} twice", hint="set it once")
        found[name] = value
    return found
