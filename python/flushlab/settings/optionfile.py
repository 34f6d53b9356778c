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
from flushlab.settings.reading import read

Loader = Callable[[str, bool], Iterable[tuple[str, str]]]
"""(path, is a directory) -> (path, text) of each file, in reading order."""

_GROUP = re.compile(r"\[\s*([^\]]+?)\s*\]\s*(?:[#;].*)?")
_NAME = re.compile(r"[a-z][a-z0-9_.]*")
_INCLUDE = re.compile(r"!(include|includedir)\s+(.+?)\s*")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " "}
INCLUDES_AT_MOST = 10
"""Files that include each other deeper than this are taken for a circle, as the servers do."""


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


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line that says something: an option as it is written, an include, or what the server cannot read.

    Attributes:
        group: the group that it stands in; empty before the first one.
        name: the option's name as it is written; empty for other lines.
        text: its value; None if it was given without one.
        include: the file or directory that the line refers to.
        problem: why the line is none of these.
        hint: the way out.
    """

    path: str
    line: int
    group: str = ""
    name: str = ""
    text: str | None = None
    include: Include | None = None
    problem: str = ""
    hint: str | None = None

    @property
    def place(self) -> str:
        """`my.cnf:12`."""
        return f"{self.path}:{self.line}"


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
    for one in _read(text, groups_of(identity), catalog, path, loader, depth=0):
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
            given = _given(option, is_switch=here.entry.switch)
            if not option.negated and (misread := read(here, given)).kind == "wrong-type":
                raise ValueOutOfRange(
                    f"{here.name} {misread.text}", hint="`flushlab settings --check` explains what is wrong"
                )
            settings[here.name] = here.parse(given)
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


def groups_of(identity: ServerIdentity) -> set[str]:
    """The groups that this server reads."""
    series = ".".join(map(str, identity.version[:2]))
    names = {"mysqld", "server", f"mysqld-{series}"}
    if identity.flavor == "mariadb":
        names |= {"mariadb", "mariadbd", "client-server", "galera", f"mariadb-{series}", f"mariadbd-{series}"}
    return names


def lines(text: str, path: str) -> Iterator[Line]:
    """The lines of one file, whatever their group, without comments and empty ones; never raises."""
    group: str | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        read = _line(line, group)
        if isinstance(read, str):
            group = read
            continue
        yield msgspec.structs.replace(read, path=path, line=number, group=group or "")


def _line(line: str, group: str | None) -> Line | str:
    """A line without its place, or the name of the group that it begins."""
    if line[0] == "!":
        match = _INCLUDE.fullmatch(line)
        if match is None:
            return _bad(f"{line!r} is neither !include FILE nor !includedir DIRECTORY")
        include = Include(target=match[2], directory=match[1] == "includedir", path="", line=0)
        return Line(path="", line=0, include=include)
    if line[0] == "[":
        match = _GROUP.fullmatch(line)
        return _bad(f"{line!r} is not a group", "write [mysqld]") if match is None else match[1]
    if group is None:
        return _bad(f"{line!r} is outside any group", "put [mysqld] above it")
    raw_name, equals, rest = _cut_comment(line).partition("=")
    name = raw_name.strip()
    if not _NAME.fullmatch(canonical(name)):
        return Line(path="", line=0, name=name, problem=f"{name!r} is not an option name")
    text = _value(rest) if equals else None
    if equals and text is None:
        return Line(path="", line=0, name=name, problem=f"the quote {rest.strip()[0]} is not closed")
    return Line(path="", line=0, name=name, text=text)


def _bad(problem: str, hint: str | None = None) -> Line:
    return Line(path="", line=0, problem=problem, hint=hint)


def _read(
    text: str, groups: set[str], catalog: Catalog, path: str, loader: Loader | None, depth: int
) -> Iterator[Option | Include]:
    for line in lines(text, path):
        if line.problem and (not line.name or line.group in groups):
            raise UsageError(f"{line.place}: {line.problem}", hint=line.hint)
        if line.include is not None:
            include = msgspec.structs.replace(line.include, path=path, line=line.line)
            yield from _include(include, groups, catalog, loader, depth)
        elif line.group in groups:
            yield option_of(line, catalog)


def _include(
    include: Include, groups: set[str], catalog: Catalog, loader: Loader | None, depth: int
) -> Iterator[Option | Include]:
    if loader is None:
        yield include
        return
    if depth >= INCLUDES_AT_MOST:
        raise UsageError(
            f"{include.path}:{include.line}: includes are nested more than {INCLUDES_AT_MOST} deep"
        )
    for path, content in loader(include.target, include.directory):
        yield from _read(content, groups, catalog, path, loader, depth + 1)


def option_of(line: Line, catalog: Catalog) -> Option:
    """The option that a line gives, with its prefixes taken off where the catalog knows the rest."""
    name = canonical(line.name)
    loose = name.startswith("loose_")
    name = name.removeprefix("loose_")
    text, negated = line.text, False
    for prefix, off in (("skip_", True), ("disable_", True), ("enable_", False)):
        bare = name.removeprefix(prefix)
        if bare != name and name not in catalog and bare in catalog:
            negated = off != (text is not None and text.upper() in ("0", "OFF", "FALSE"))
            name, text = bare, None
    return Option(name=name, text=text, path=line.path, line=line.line, loose=loose, negated=negated)


def _value(rest: str) -> str | None:
    """The value behind the equals sign; None if its quote is not closed."""
    text = rest.strip()
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        return None if end < 0 else _unescape(text[1:end])
    return _unescape(text)


def _cut_comment(line: str) -> str:
    """The line without what follows a `#` outside quotes, as the servers cut it."""
    quote, before = "", ""
    for place, letter in enumerate(line):
        if letter in "'\"" and before != "\\" and quote in ("", letter):
            quote = "" if quote else letter
        elif letter == "#" and not quote and before != "\\":
            return line[:place].strip()
        before = letter
    return line.strip()


def _unescape(text: str) -> str:
    return re.sub(r"\\([btnr\\s])", lambda match: _ESCAPES[match[1]], text)


def _quoted(text: str) -> str:
    return f'"{text}"' if re.search(r"[#\s]", text) else text
