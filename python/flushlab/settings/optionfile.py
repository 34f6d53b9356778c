"""Option files: the text of a my.cnf as values with their lines, and back. Pure: reads no file.

Follows the servers' own rules (https://dev.mysql.com/doc/refman/8.0/en/option-files.html): groups, `-` for
`_`, prefixes loose_, skip_, disable_ and enable_, quotes and escapes, comments, the last value wins.
Abbreviated names are not taken. `!include` and `!includedir` are values unless a loader is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from flushlab.errors import UnknownSetting, UsageError, ValueOutOfRange
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import Catalog, canonical

Loader = Callable[[str, bool], Iterable[tuple[str, str]]]
"""(path, is a directory) -> (path, text) of each file, in reading order."""

_GROUP = re.compile(r"\[\s*([^\]]+?)\s*\]\s*(?:[#;].*)?")
_INCLUDE = re.compile(r"!(include|includedir)\s+(.+?)\s*")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " "}
_INCLUDES_AT_MOST = 10


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option as a file gives it.

    Attributes:
        name: as variables spell it, without prefixes.
        text: its value; None if it was given without one (a switch).
        path, line: where it stands; lines count from 1.
        loose: a server that does not know it goes on without it.
        negated: given as skip_ or disable_.
    """

    name: str
    text: str | None
    path: str
    line: int
    loose: bool = False
    negated: bool = False

    @property
    def place(self) -> str:
        """`my.cnf:12`."""
        return f"{self.path}:{self.line}"


class Include(msgspec.Struct, frozen=True, kw_only=True):
    """A file or directory that an option file refers to and that was not read."""

    target: str
    directory: bool
    path: str
    line: int


class OptionFile(msgspec.Struct, frozen=True, kw_only=True):
    """The options that one server takes from an option file, in order, repeats included."""

    options: tuple[Option, ...]
    includes: tuple[Include, ...] = ()

    def last(self) -> dict[str, Option]:
        """Each option as the server sees it: the last one wins."""
        return {option.name: option for option in self.options}


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """An option file's settings, typed by the catalog.

    Attributes:
        settings: those that the catalog knows, as records hold them.
        others: the rest, as they are written; a switch without a value is ON.
    """

    settings: Mapping[str, Value]
    others: Mapping[str, str]


def parse(
    text: str,
    identity: ServerIdentity,
    catalog: Catalog,
    *,
    path: str = "my.cnf",
    loader: Loader | None = None,
) -> OptionFile:
    """The options of all groups that this server reads.

    Args:
        text: content of the file.
        identity: decides which groups are read (`mysqld`, `server`, `mysqld-5.7`, `mariadb-10.11`, …).
        catalog: tells which names take the prefixes skip_, disable_ and enable_.
        path: for messages.
        loader: reads included files; without it they are left as values in `includes`.

    Raises:
        UsageError: a line is neither group, option, comment nor include; names file and line.
    """
    options: list[Option] = []
    includes: list[Include] = []
    for one in _read(text, _groups(identity), catalog, path, loader, depth=0):
        if isinstance(one, Option):
            options.append(one)
        else:
            includes.append(one)
    return OptionFile(options=tuple(options), includes=tuple(includes))


def typed(file: OptionFile, identity: ServerIdentity, catalog: Catalog) -> Typed:
    """The file's settings as this server would take them.

    Raises:
        UnknownSetting: the catalog knows the setting, but not on this server (a loose_ one is left out).
        ValueOutOfRange: a value is not allowed; both name file and line.
    """
    settings: dict[str, Value] = {}
    others: dict[str, str] = {}
    for option in file.last().values():
        if option.name not in catalog:
            others[option.name] = option.text if option.text is not None else "ON"
            continue
        try:
            here = catalog.require(option.name, identity.flavor, identity.version)
            settings[here.name] = here.parse(_given(option, is_switch=here.entry.switch))
        except UnknownSetting as error:
            if not option.loose:
                raise UnknownSetting(f"{option.place}: {error.message}", hint=error.hint) from None
        except ValueOutOfRange as error:
            raise ValueOutOfRange(f"{option.place}: {error.message}", hint=error.hint) from None
    return Typed(settings=settings, others=others)


def render(
    settings: Mapping[str, Value],
    identity: ServerIdentity,
    catalog: Catalog,
    *,
    header: Sequence[str] = (),
    comments: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """An option file with these settings in the group `mysqld`, which both flavors read.

    Args:
        settings: names and values; those outside the catalog are written as they are.
        identity: the server that will read it.
        catalog: how values are spelled.
        header: comment lines at the top.
        comments: comment lines above a setting.

    Raises:
        UnknownSetting, ValueOutOfRange: a setting that this server would not take.
    """
    lines = [f"# {line}".rstrip() for line in header]
    lines.append("[mysqld]")
    for name, value in settings.items():
        lines += [f"# {line}".rstrip() for line in (comments or {}).get(name, ())]
        if name in catalog:
            lines.append(catalog.require(name, identity.flavor, identity.version).option(value))
        else:
            lines.append(f"{name} = {_quoted(str(value))}")
    return "\n".join(lines) + "\n"


def _given(option: Option, *, is_switch: bool) -> str:
    """What the option means. A switch takes a file name: `log_bin = OFF` writes a log called OFF."""
    if option.negated:
        return "OFF"
    return "ON" if option.text is None or is_switch else option.text


def _groups(identity: ServerIdentity) -> set[str]:
    series = ".".join(map(str, identity.version[:2]))
    names = {"mysqld", "server", f"mysqld-{series}"}
    if identity.flavor == "mariadb":
        names |= {"mariadb", "mariadbd", "client-server", "galera", f"mariadb-{series}", f"mariadbd-{series}"}
    return names


def _read(
    text: str, groups: set[str], catalog: Catalog, path: str, loader: Loader | None, depth: int
) -> Iterator[Option | Include]:
    group: str | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "!":
            yield from _include(line, groups, catalog, path, number, loader, depth)
        elif line[0] == "[":
            match = _GROUP.fullmatch(line)
            if match is None:
                raise UsageError(f"{path}:{number}: {line!r} is not a group", hint="write [mysqld]")
            group = match[1]
        elif group is None:
            raise UsageError(
                f"{path}:{number}: {line!r} stands before any group", hint="put [mysqld] above it"
            )
        elif group in groups:
            yield _option(line, catalog, path, number)


def _include(
    line: str,
    groups: set[str],
    catalog: Catalog,
    path: str,
    number: int,
    loader: Loader | None,
    depth: int,
) -> Iterator[Option | Include]:
    match = _INCLUDE.fullmatch(line)
    if match is None:
        raise UsageError(f"{path}:{number}: {line!r} is neither !include FILE nor !includedir DIRECTORY")
    directory, target = match[1] == "includedir", match[2]
    if loader is None:
        yield Include(target=target, directory=directory, path=path, line=number)
        return
    if depth >= _INCLUDES_AT_MOST:
        raise UsageError(f"{path}:{number}: files include each other more than {_INCLUDES_AT_MOST} deep")
    for included, content in loader(target, directory):
        yield from _read(content, groups, catalog, included, loader, depth + 1)


def _option(line: str, catalog: Catalog, path: str, number: int) -> Option:
    raw_name, equals, rest = line.partition("=")
    if not equals:
        raw_name = _cut_comment(raw_name)
    name = canonical(raw_name)
    if not re.fullmatch(r"[a-z][a-z0-9_.]*", name):
        raise UsageError(f"{path}:{number}: {raw_name.strip()!r} is not an option's name")
    loose = name.startswith("loose_")
    name = name.removeprefix("loose_")
    text = _value(rest, path, number) if equals else None
    negated = False
    for prefix, off in (("skip_", True), ("disable_", True), ("enable_", False)):
        bare = name.removeprefix(prefix)
        if bare != name and name not in catalog and bare in catalog:
            negated = off != (text is not None and text.upper() in ("0", "OFF", "FALSE"))
            name, text = bare, None
    return Option(name=name, text=text, path=path, line=number, loose=loose, negated=negated)


def _value(rest: str, path: str, number: int) -> str:
    text = rest.strip()
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        if end < 0:
            raise UsageError(f"{path}:{number}: the quote {text[0]} is not closed")
        return _unescape(text[1:end])
    return _unescape(_cut_comment(text))


def _cut_comment(text: str) -> str:
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()


def _unescape(text: str) -> str:
    return re.sub(r"\\([btnr\\s])", lambda match: _ESCAPES[match[1]], text)


def _quoted(text: str) -> str:
    return f'"{text}"' if re.search(r"[#\s]", text) else text
