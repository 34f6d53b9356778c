"""Configurations as people type them: `base`, an option file, or settings; perhaps with a `label: ` before.

Sits in `campaign`. What is wrong with the words is found out here, before a server is looked for; whether a
server takes the settings is for those who know which one.
"""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from flushlab.errors import UsageError
from flushlab.plan.plan import BASE, RESERVED
from flushlab.record import Value
from flushlab.server.sandbox.base_file import content
from flushlab.settings.option_names import load_option_names

Configuration = Mapping[str, Value] | Path | str
"""Settings on top of the base, or an option file, which is whole."""

_LABELLED = re.compile(r"([^:=/\s][^:=/]*):\s+(.+)")
_A_PATH = re.compile(r".*(/|\.(cnf|ini|conf))", re.IGNORECASE)
_SPACED = re.compile(r"""('[^']*'|"[^"]*")|\s*=\s*(?![\w-]+\s*=)""")
"""What is quoted, and an equals sign with the blanks that an option file may have around it."""
_EXAMPLE = "name configurations, for example: base innodb_flush_log_at_trx_commit=2"


class Given(NamedTuple):
    """A configuration: settings on top of an option file, or of the server's defaults."""

    file: Path | None = None
    settings: Mapping[str, Value] = {}


def read(
    words: Sequence[str] | Mapping[str, Configuration], base: Path | str | None, *, alone: bool = False
) -> dict[str, Given]:
    """What is meant by the arguments of `flushlab compare`; the first is what the others are compared with.

    Settings go on top of `base`, or else of the option file that stands first. One configuration alone is
    compared with the base.

    Args:
        words: as typed; or configurations by their names.
        base: option file that the word `base` stands for.
        alone: the base may stand alone, as there are several servers.

    Raises:
        UsageError: a word is nothing that can be compared, or there is nothing to compare it with.
        StorageError: an option file cannot be read.
    """
    own = Path(base) if base else None
    if isinstance(words, Mapping):
        found = {
            name: Given(own, given) if isinstance(given, Mapping) else Given(Path(given))
            for name, given in words.items()
        }
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
    """The words from which `read` makes these configurations, in any folder."""
    first = next(iter(found.values()))
    words = []
    for name, one in found.items():
        if not one.settings:
            plain = BASE if one.file in (None, base) else str(one.file.absolute())
        else:
            assert one.file in (None, base, first.file)
            plain = shlex.join(f"{setting}={value}" for setting, value in one.settings.items())
        words.append(name if plain == name or named_after(name, one.settings) else f"{name}: {plain}")
    return tuple(words)


def named_after(name: str, settings: Mapping[str, Value]) -> bool:
    """Whether a configuration was named after its settings, however they were spelled."""
    try:
        return bool(settings) and _settings(name) == settings
    except UsageError:
        return False


def _typed(words: Sequence[str], base: Path | None) -> dict[str, Given]:
    found = dict[str, Given]()
    under = base
    for number, word in enumerate(" ".join(word.split()) for word in words):
        labelled = None if _mode(Path(word)) == stat.S_IFREG else _LABELLED.fullmatch(word)
        label, text = (labelled[1].strip(), labelled[2]) if labelled else ("", word)
        if text == BASE:
            name, one = text if number == 0 or BASE in found else str(base or "defaults"), Given(base)
        elif _mode(Path(text)) in (stat.S_IFREG, stat.S_IFIFO) or (
            "=" not in text and _A_PATH.fullmatch(text)
        ):
            name, one = f"./{text}" if text in RESERVED else text, Given(Path(text))
            under = one.file if number == 0 and base is None else under
        else:
            name = _SPACED.sub(lambda match: match[1] or "=", text)
            one = Given(under, _settings(name))
        if (label or name) in found or (not label and one in found.values()):
            raise UsageError(
                f"{label or text!r} is given twice",
                hint="give each configuration once, or a label of its own",
            )
        found[label or name] = one
    return found


def _mode(path: Path) -> int:
    """What kind of file it is, as `stat` has it; 0 for one that is not there or not to be seen."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError:
        return 0


def _settings(text: str) -> dict[str, Value]:
    try:
        parts = shlex.split(text)
    except ValueError:
        raise UsageError(f"a quotation mark is open in: {text}", hint="close it") from None
    if not parts:
        raise UsageError("a configuration is empty", hint=f"`{BASE}` stands for the server's defaults")
    found: dict[str, Value] = {}
    for part in parts:
        spelling, equals, value = part.partition("=")
        name = spelling.strip().lstrip("-").replace("-", "_")
        if not equals and len(parts) > 1 and (part == BASE or _mode(Path(part)) == stat.S_IFREG):
            file = "" if part == BASE else ", if that file stands first or is --base"
            rest = shlex.join(other for other in parts if other != part)
            raise UsageError(
                f"{part} stands among settings: {text}",
                hint=f"leave out {part}; settings go on top of it{file}: {rest}",
            )
        if not equals or not name:
            raise UsageError(
                f"{part!r} is neither `{BASE}` nor an option file nor NAME=VALUE",
                hint=_meant(name, among_others=len(parts) > 1),
            )
        if name in found:
            raise UsageError(f"{text!r} sets {name} twice", hint="set it once")
        found[name] = value
    return found


def _meant(name: str, *, among_others: bool) -> str:
    if name in load_option_names().names():
        return f"give it a value: {name}=…"
    return "quote a value that contains spaces, like NAME='a b'" if among_others else _EXAMPLE
