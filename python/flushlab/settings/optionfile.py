"""Option files: the lines of a my.cnf, and settings as the text of one. Pure: reads no file.

Follows the servers' own rules (https://dev.mysql.com/doc/refman/8.0/en/option-files.html, and what the five
builds make of odd files, `tests/contract/test_check.py`): groups in any case, quotes and escapes, comments.
What the lines mean to a server says `check`. Problems never repeat a value: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from flushlab.errors import ValueOutOfRange
from flushlab.record import ServerIdentity, Value
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import PROVIDER_OPTIONS, canonical, load_catalog

# Galera holds its many options in one variable, wsrep_provider_options. The server keeps the options that
# SET does not name; an option file names them all in one line. So callers handle single options
# (`SettingHere.part`), and only here they become that line and come from that text.


def read_options(text: str) -> dict[str, str]:
    pairs = (one.partition("=") for one in text.split(";"))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def without_parts(
    settings: Mapping[str, Value], flavor: Flavor, version: tuple[int, ...]
) -> tuple[dict[str, Value], dict[str, str]]:
    catalog, whole, options = load_catalog(), dict[str, Value](), dict[str, str]()
    for name, value in settings.items():
        here = catalog.here(name, flavor, version) if name in catalog else None
        if here is not None and here.part:
            options[here.part] = here.render(value)
        else:
            whole[name] = value
    return whole, options


def parts_of(text: str, flavor: Flavor, version: tuple[int, ...]) -> dict[str, Value]:
    catalog, told, found = load_catalog(), read_options(text), dict[str, Value]()
    for name in catalog.names(flavor, version):
        here = catalog.require(name, flavor, version)
        if here.part in told:
            with suppress(ValueOutOfRange):
                found[name] = here.parse(told[here.part])
    return found


def option_file_line(options: Mapping[str, str]) -> str:
    return f'{PROVIDER_OPTIONS} = "{";".join(map("=".join, options.items()))}"'


Loader = Callable[[str, bool], Iterable[tuple[str, str]]]
"""(path, is a directory) -> (path, text) of each file, in reading order."""

_BLANKS = " \t\n\v\f\r"
_GROUP = re.compile(r"\[([^\]]*)\].*", re.DOTALL)
_INSTANCE = re.compile(
    r"(?:mysqld|server|mariadb|mariadbd|galera)(?!-\d+\.\d+$|[-_](?:safe|multi)$)((?:[@.:#_]|\d)\S*|(?<=d)-\S+)"
)
"""A server's group and a suffix; mariadb-NAME are clients, mysqldump is one."""
_NAME = re.compile(r"[a-z][a-z0-9_.]*")
_INCLUDE = re.compile(rf"![{_BLANKS}]*(include|includedir)[{_BLANKS}](.*)", re.DOTALL)
_PLAIN = re.compile(r"[\w.,:/+@%=-]*")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " ", '"': '"', "'": "'"}
_LINE_BYTES = 4094
"""Bytes of a line that the servers read at once; they treat the rest as another line."""
_MARK = "\ufeff"
_JOINED = "contains a NUL byte: the server takes the next line for the rest of it"
_WHOLE_LINES_SINCE = (8, 0, 27)
"""A MySQL that reads lines of any length (`my_default.cc`, mysql_file_getline); 8.0.15 does not yet."""
INCLUDES_AT_MOST = 10
"""A deeper inclusion counts as a circle, as in the servers."""


class OptionLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line that says something: a group's heading, an option as it is written, an include, or what the
    server cannot read.

    Attributes:
        text: its value; None if it was given without one.
        argument: what the server takes it for, `--NAME=VALUE`.
        orphan: is outside any group; once it stands in one, it means what it says.
        anywhere: stops the server in groups that it does not read, too.
    """

    path: str
    line: int
    group: str = ""
    heading: bool = False
    name: str = ""
    text: str | None = None
    argument: str = ""
    include: str = ""
    is_directory: bool = False
    problem: str = ""
    hint: str | None = None
    orphan: bool = False
    anywhere: bool = False
    passed_over: bool = False

    @property
    def at(self) -> tuple[str, int]:
        return self.path, self.line


def render(
    settings: Mapping[str, Value],
    identity: ServerIdentity,
    *,
    header: Sequence[str] = (),
    comments: Mapping[str, Sequence[str]] | None = None,
) -> str:
    catalog = load_catalog()
    lines = [f"# {line}".rstrip() for line in header]
    lines.append("[mysqld]")
    whole, options = without_parts(settings, identity.flavor, identity.version)
    if options:
        told = (line for name in settings.keys() - whole.keys() for line in (comments or {}).get(name, ()))
        lines += ["# Galera's options share one line: keep those that your option file already has there."]
        lines += [*(f"# {line}".rstrip() for line in told), option_file_line(options)]
    for name, value in whole.items():
        lines += [f"# {line}".rstrip() for line in (comments or {}).get(name, ())]
        if name in catalog:
            lines.append(catalog.require(name, identity.flavor, identity.version).option(value))
        else:
            lines.append(f"{name} = {option_value(str(value))}")
    return "\n".join(lines) + "\n"


def groups_of(identity: ServerIdentity, suffix: str = "") -> set[str]:
    """`suffix`: for each of its groups a server reads a second one that ends in this. systemd starts
    mysqld@INSTANCE with `@INSTANCE`, mysqld_multi starts servers with [mysqldN]
    (https://dev.mysql.com/doc/refman/8.0/en/option-file-options.html, …/using-systemd.html)."""
    series = ".".join(map(str, identity.version[:2]))
    names = {"mysqld", "server", f"mysqld-{series}"}
    if identity.flavor == "mariadb":
        names |= {"mariadb", "mariadbd", "client-server", "galera", f"mariadb-{series}", f"mariadbd-{series}"}
    return names | ({f"{name}{suffix.lower()}" for name in names} if suffix else set())


def instance_of(group: str) -> str | None:
    match = _INSTANCE.fullmatch(group)
    return None if match is None else match[1]


def reads_whole_lines(identity: ServerIdentity) -> bool:
    return identity.flavor == "mysql" and identity.version >= _WHOLE_LINES_SINCE


def lines(text: str, path: str, *, whole: bool = False) -> Iterator[OptionLine]:
    group: str | None = None
    if text.startswith(_MARK):
        says, hint = "begins with a byte order mark", "save the file as UTF-8 without that mark"
        yield OptionLine(path=path, line=1, problem=says, hint=hint, anywhere=True)
    for number, raw, cut, long in _read(text.removeprefix(_MARK), whole):
        line = raw.strip(_BLANKS)
        if cut:
            yield OptionLine(path=path, line=number, group=group or "", problem=cut, passed_over=True)
        if long:
            open_bracket = line[:1] == "[" and b"]" not in raw.encode()[:_LINE_BYTES]
            yield OptionLine(
                path=path,
                line=number,
                group=group or "",
                problem=f"is longer than the {_LINE_BYTES} bytes of a line",
                anywhere=group is None or open_bracket,
            )
        elif line and line[0] not in "#;":
            read = _directive(raw) if line[0] == "!" else _line(line)
            if read.heading:
                group = read.group
            if group is None and not (read.include or read.anywhere or read.passed_over):
                problem, hint, orphan = "is outside any group", "put [mysqld] above it", not read.problem
                yield msgspec.structs.replace(
                    read, path=path, line=number, problem=problem, hint=hint, orphan=orphan, anywhere=True
                )
            else:
                yield msgspec.structs.replace(read, path=path, line=number, group=group or "")


class _Raw(NamedTuple):
    number: int
    text: str
    cut: str = ""
    long: bool = False


def _read(text: str, whole: bool) -> Iterator[_Raw]:
    """The lines of a text, each with its end.

    A NUL byte ends a line that `fgets` reads. Newer MySQL (`mysql_file_getline`) takes a line without its end
    for the beginning of the next one, and no letter at all for the end of the file.
    """
    begun, first = "", 0
    for number, raw in enumerate(re.split(r"(?<=\n)", text), start=1):
        if not whole:
            head, cut, _ = raw.partition("\0")
            says = "contains a NUL byte: the server does not read the rest of it" if cut else ""
            yield _Raw(number, head, says, len(raw.encode()) > _LINE_BYTES + raw.endswith("\n"))
            continue
        for piece in _pieces(raw):
            if piece and not piece.endswith("\n"):
                begun, first = begun + piece, first or number
                continue
            if not piece and not begun and "\0" in raw:
                yield _Raw(number, "", "begins with a NUL byte: the server reads nothing from there on")
                return
            yield _Raw(first or number, begun + piece, _JOINED if begun else "")
            begun, first = "", 0
    if begun:
        yield _Raw(first, begun, _JOINED if first < number or "\0" in raw else "")


def _pieces(raw: str) -> Iterator[str]:
    if "\0" not in raw:
        yield raw
        return
    data = raw.encode()
    for start in range(0, len(data), _LINE_BYTES + 1):
        yield data[start : start + _LINE_BYTES + 1].partition(b"\0")[0].decode(errors="replace")


def _directive(raw: str) -> OptionLine:
    match = _INCLUDE.fullmatch(raw.lstrip(_BLANKS))
    if match is None:
        problem = "is neither !include FILE nor !includedir DIRECTORY: the server passes over it"
        return OptionLine(path="", line=0, problem=problem, passed_over=True)
    target = match[2].strip(_BLANKS)
    if not target:
        return OptionLine(path="", line=0, problem=f"!{match[1]} names nothing to include", anywhere=True)
    return OptionLine(path="", line=0, include=target, is_directory=match[1] == "includedir")


def _line(line: str) -> OptionLine:
    if line[0] == "[":
        match = _GROUP.fullmatch(line)
        if match is None:
            hint = "write [mysqld]"
            return OptionLine(path="", line=0, problem="is a group without its ]", hint=hint, anywhere=True)
        return OptionLine(path="", line=0, group=match[1].rstrip(_BLANKS).lower(), heading=True)
    raw_name, equals, rest = _cut_comment(line).partition("=")
    name, text = _cut_blanks(raw_name), _value(rest) if equals else None
    argument = f"--{name}" if text is None else f"--{name}={text}"
    if name != name.strip() or not _NAME.fullmatch(canonical(name)):
        problem, known = "is neither NAME nor NAME = VALUE", re.split(r"[^\w.-]", name)[0]
        return OptionLine(path="", line=0, name=known, argument=argument, problem=problem)
    return OptionLine(path="", line=0, name=name, text=text, argument=argument)


def _value(rest: str) -> str:
    """The value behind the equals sign: quotes count only around the whole of it."""
    text = _cut_blanks(rest)
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        text = text[1:-1]
    return re.sub(r"\\([btnrs\\'\"])", lambda match: _ESCAPES[match[1]], text)


def _cut_blanks(text: str) -> str:
    """The text without blanks at its ends; Latin-1's no-break space is one, though it be half of a letter."""
    text = text.strip(_BLANKS)
    cut = text.encode().removesuffix(b"\xa0")
    return text if len(cut) == len(text.encode()) else cut.decode(errors="replace")


def _cut_comment(line: str) -> str:
    """The line without what follows a `#` outside quotes; a backslash counts inside of them alone."""
    quote, escaped = "", False
    for place, letter in enumerate(line):
        if letter in "'\"" and not escaped and quote in ("", letter):
            quote = "" if quote else letter
        elif letter == "#" and not quote:
            return line[:place]
        escaped = bool(quote) and letter == "\\" and not escaped
    return line


def option_value(text: str) -> str:
    if text and _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


Severity = Literal["error", "warning", "note"]
"""error: the server does not start, or does not do what the line says; warning: it does, and there is a
catch; note: worth knowing."""


class Remark(msgspec.Struct, frozen=True):
    """One thing about a line that its author should know.

    Attributes:
        kind: stable: `syntax`, `include`, `wrong-group`, `instance`, `product`, `unknown-name`, `misspelled`,
            `formula`, `unknown-value`, `abbreviated`, `not-in-version`, `removed`, `deprecated`,
            `duplicate`, `wrong-type`, `out-of-range`, `rounded`, `not-a-switch`, `prefix`, `plugin`,
            `refused`, `contradiction`, `below-floor`, `at-risk`, `memory`, `ignored-file`, `not-read`.
        name: the option, as variables spell it; empty where a line has none.
        path, line: where it stands; line 0 if it stands nowhere.
    """

    kind: str
    severity: Severity
    name: str
    path: str
    line: int
    text: str
    hint: str | None = None
    fatal: bool = False

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path
