"""Check: what an option file means to one server, and what in it does not mean what it seems to. Pure.

    checked = check(text, identity, path="my.cnf", loader=loader)
    checked.settings     # as the server takes them, mistakes included
    checked.findings     # each with file and line

Findings are values: a file full of mistakes is an answer, not an error. Everything here is known beforehand
(catalog, `option_names`); what only the binary tells (`HelpText`) sharpens it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from flushlab.errors import BelowFloor
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings import reading
from flushlab.settings.admission import PLUGIN, is_admitted
from flushlab.settings.candidates import lift
from flushlab.settings.catalog import Catalog, SettingHere, canonical, load_catalog, version_of
from flushlab.settings.contradictions import contradictions
from flushlab.settings.durability import Guarantees, guarantees
from flushlab.settings.floor import Floor
from flushlab.settings.helptext import HelpText
from flushlab.settings.option_names import OptionNames, load_option_names
from flushlab.settings.optionfile import INCLUDES_AT_MOST, Line, Loader, groups_of, lines

Severity = Literal["error", "warning", "note"]
"""error: the server does not start, or does not do what the line says; warning: it does, and there is a
catch; note: worth knowing."""

_OF_A_SERVER = re.compile(
    r"(mysqld|server|mariadb|mariadbd|embedded)(-\d+\.\d+)?|mysqld\d+|client-server|galera"
)
_REPEATABLE = re.compile(
    r"(binlog|replicate|replicate_wild)_(do|ignore)_(db|table)|replicate_rewrite_db|ignore_db_dir|"
    r"(early_)?plugin_load(_add)?|debug|performance_schema_instrument"
)
_SIMPLE = re.compile(r"\d+[KMG]?")
_ADJUSTED = re.compile(r"option '([^']+)': (?:un)?signed value (\S+) adjusted to (\S+)")
_TEXTS = {"sql_mode"}
"""Settings of the catalog whose values differ from version to version beyond what it knows."""
_OF_THE_PROCESS = {"max_connections", "open_files_limit", "table_open_cache", "table_definition_cache"}
"""What the server derives from limits of the process that asks, not of the one that will run."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing about a line that its author should know.

    Attributes:
        kind: stable: `syntax`, `include`, `wrong-group`, `unknown-name`, `misspelled`, `abbreviated`,
            `not-in-version`, `removed`, `deprecated`, `duplicate`, `wrong-type`, `out-of-range`, `rounded`,
            `not-a-switch`, `prefix`, `plugin`, `refused`, `contradiction`, `below-floor`, `ignored-file`.
        severity: see `Severity`.
        name: the option, as variables spell it; empty where a line has none.
        path, line: where it stands; line 0 if it stands nowhere.
        text: what is wrong, in words.
        hint: the way out.
        fatal: the server does not start.
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
        """`my.cnf:12`."""
        return f"{self.path}:{self.line}" if self.line else self.path


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """An option file as one server takes it.

    Attributes:
        settings: of the catalog, as they will be in force.
        others: the rest, as it is written; a switch without a value is ON.
        lines: where each name was last given.
        findings: by file and line, in reading order.
        binlog_path: file name of the binary log, if one is given.
    """

    settings: Mapping[str, Value]
    others: Mapping[str, str]
    lines: Mapping[str, tuple[str, int]]
    findings: tuple[Finding, ...]
    binlog_path: str = ""

    @property
    def starts(self) -> bool:
        """Whether the server starts with it, as far as this can tell."""
        return not any(finding.fatal for finding in self.findings)

    def guarantees(self, identity: ServerIdentity, storage: Storage) -> Guarantees:
        """What the server keeps under each failure with this file, its defaults for the rest."""
        return guarantees(self.given, identity, storage, Launch())

    @property
    def given(self) -> dict[str, Value]:
        """All that it sets, and where its binary log lies."""
        place = {"log_bin_basename": self.binlog_path} if self.binlog_path else {}
        return {**self.others, **self.settings, **place}


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """One option in a group that the server reads: its name resolved, its value read."""

    name: str
    line: Line
    value: Value | None = None
    text: str | None = None


def check(
    text: str,
    identity: ServerIdentity,
    *,
    path: str = "my.cnf",
    loader: Loader | None = None,
    known: HelpText | None = None,
) -> Checked:
    """What an option file means to one server.

    Args:
        text: content of the file.
        identity: the server.
        path: of the file, for places.
        loader: reads included files; may raise OSError, which becomes a finding. Without it none is read.
        known: what the build itself says of its options; without it the packaged lists decide.
    """
    server = _Server(identity, known)
    findings: list[Finding] = []
    given: list[_Given] = []
    for line in _gather(text, path, loader, findings):
        if line.problem:
            findings += _syntax(line, server)
            given += _judge(line, server, []) if line.orphan else []
        elif line.group in server.groups:
            given += _judge(line, server, findings)
        else:
            findings += _elsewhere(line, server)
    findings += _duplicates(given)
    last = {one.name: one for one in given}
    settings = {name: one.value for name, one in last.items() if one.value is not None}
    others = {name: one.text for name, one in last.items() if one.text is not None}
    places = {name: (one.line.path, one.line.line) for name, one in last.items()}
    findings += _pool(settings, others, places, server)
    for told in tuple(contradictions(settings, others, identity)):
        severity: Severity = "error" if told.fatal else "warning"
        place = places[told.name]
        findings.append(
            _finding("contradiction", severity, told.name, place, told.why, told.hint, told.fatal)
        )
        if told.becomes is not None:
            settings[told.name] = told.becomes
    return Checked(
        settings=settings,
        others=others,
        lines=places,
        findings=in_reading_order(findings),
        binlog_path=last["log_bin"].line.text or "" if settings.get("log_bin") == "ON" else "",
    )


def in_reading_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by file and line, files as they first appear."""
    kept = list(findings)
    order = {path: number for number, path in enumerate(dict.fromkeys(one.path for one in kept))}
    return tuple(sorted(kept, key=lambda one: (order[one.path], one.line)))


def below(checked: Checked, identity: ServerIdentity, storage: Storage, floor: Floor) -> tuple[Finding, ...]:
    """What keeps the file below a floor, each with the line to change."""
    try:
        changes, reasons = lift(checked.given, floor, identity=identity, storage=storage, launch=Launch())
    except BelowFloor as error:
        return (_finding("below-floor", "error", "", ("", 0), error.message, error.hint),)
    return tuple(
        _finding(
            "below-floor",
            "error",
            name,
            checked.lines.get(name, ("", 0)),
            f"keeps the file below the floor {floor}",
            reason,
        )
        for name, reason in zip(changes, reasons, strict=True)
    )


def arguments(checked: Checked) -> dict[str, str]:
    """What to ask the build about, by name: texts that the catalog cannot judge, and no secret or path."""
    texts = {name: value for name, value in checked.settings.items() if name in _TEXTS}
    asked = {**checked.others, **texts}
    return {
        name: f"--{name.replace('_', '-')}={text}"
        for name, text in asked.items()
        if name not in _OF_THE_PROCESS and (name in _TEXTS or is_admitted(name))
    }


def refusal(checked: Checked, name: str, reason: str) -> Finding:
    """The build refuses what the file says of a setting."""
    says = f"is refused by the server: {reason}"
    return _finding("refused", "error", name, checked.lines[name], says, None, True)


def adjusted(checked: Checked, known: HelpText, complaints: str) -> tuple[Finding, ...]:
    """What the build made of `arguments`: numbers that it adjusted."""
    told = {canonical(match[1]): match[3] for match in _ADJUSTED.finditer(complaints)}
    found = []
    for name in arguments(checked):
        text = checked.others.get(name, "")
        if not _SIMPLE.fullmatch(text.upper()):
            continue
        now = told.get(name) or known.values.get(name, "")
        if now.isdecimal() and int(now) != _number(text):
            kind = "out-of-range" if name in told else "rounded"
            found.append(
                _finding(
                    kind, "warning", name, checked.lines[name], f"is {text}; the server changes it to {now}"
                )
            )
    return tuple(found)


class _Server:
    """What is known of the server: its groups, its options, its catalog."""

    def __init__(self, identity: ServerIdentity, known: HelpText | None) -> None:
        self.identity = identity
        self.catalog: Catalog = load_catalog()
        self.names: OptionNames = load_option_names()
        self.groups = groups_of(identity)
        self._told = known.names if known else None
        self._key = (identity.flavor, identity.version)

    def here(self, name: str) -> SettingHere | None:
        """The catalog's setting of exactly this name (aliases are names of variables, not of options)."""
        if name not in self.catalog or self.catalog.setting(name).name != name:
            return None
        return self.catalog.here(name, *self._key)

    def takes(self, name: str) -> bool | None:
        """Whether the server takes the option; None if that is not known."""
        if self._told is not None:
            return name in self._told
        listed = self.names.knows(name, *self._key)
        if name in self.catalog and self.catalog.setting(name).name == name:
            return self.here(name) is not None and listed is not False
        return listed

    def ignores(self, name: str) -> bool:
        """Whether the server takes the option and does nothing with it."""
        return not self.takes(name) and self.names.ignores(name, *self._key)

    def unheard_of(self, name: str) -> bool:
        """Whether the server is newer than all that is listed, and no listed one takes the option."""
        return self.takes(name) is None and name not in self.names.names() and not PLUGIN.match(name)

    def near(self, name: str) -> str | None:
        return self.names.near(name, *self._key)

    def abbreviated(self, name: str) -> str | None:
        """The option that MariaDB takes the beginning of a name for; MySQL takes none."""
        return self.names.starting_with(name, *self._key) if self.identity.flavor == "mariadb" else None


def _gather(
    text: str, path: str, loader: Loader | None, findings: list[Finding], depth: int = 0
) -> Iterator[Line]:
    """The lines of a file with those of what it includes in their places."""
    for line in lines(text, path):
        if line.include is None:
            yield line
            continue
        target, directory = line.include.target, line.include.directory
        place = (line.path, line.line)
        if loader is None:
            findings.append(_finding("include", "note", "", place, f"{target} was not read"))
            continue
        if depth >= INCLUDES_AT_MOST:
            says = f"includes are nested more than {INCLUDES_AT_MOST} deep: {target} is not read"
            findings.append(_finding("include", "error", "", place, says))
            continue
        try:
            included = list(loader(target, directory))
        except OSError as error:
            findings.append(_unread(target, directory, place, error))
            continue
        for name, content in included:
            yield from _gather(content, name, loader, findings, depth + 1)


def _unread(target: str, directory: bool, place: tuple[str, int], error: OSError) -> Finding:
    says = f"{target} cannot be read ({error.strerror or error})"
    if directory:
        return _finding("include", "error", "", place, f"{says}: the server does not start", None, True)
    return _finding("include", "warning", "", place, f"{says}: the server continues without it")


def _syntax(line: Line, server: _Server) -> list[Finding]:
    if line.name and line.group not in server.groups and not line.orphan:
        return []
    name = canonical(line.name)
    return [
        _finding(
            "syntax", "error", name, (line.path, line.line), line.problem, line.hint, not line.passed_over
        )
    ]


def _elsewhere(line: Line, server: _Server) -> list[Finding]:
    """A server's setting in a group that no server reads."""
    name = canonical(line.name).removeprefix("loose_")
    bare = re.sub(r"^(skip|disable|enable)_", "", name)
    if _OF_A_SERVER.fullmatch(line.group) or not (name in server.catalog or bare in server.catalog):
        return []
    says = f"is in [{line.group}], which the server does not read"
    return [_finding("wrong-group", "error", name, (line.path, line.line), says, "put it under [mysqld]")]


def _judge(line: Line, server: _Server, findings: list[Finding]) -> list[_Given]:
    """The option that a line gives, if the server takes it; what is wrong goes to the findings."""
    spelled = canonical(line.name)
    loose, name, place = spelled.startswith("loose_"), spelled.removeprefix("loose_"), (line.path, line.line)
    if server.identity.flavor == "mysql" and line.name != line.name.lower():
        says = "contains capital letters, but MySQL's option names are lowercase: the server does not start"
        findings.append(
            _finding("misspelled", "error", name, place, says, f"write {line.name.lower()}", True)
        )
    prefix = ""
    if not server.takes(name):
        match = re.fullmatch(r"(skip|disable|enable)_(.+)", name)
        if match is not None and server.takes(match[2]):
            prefix, name = match[1], match[2]
    if server.takes(name) is False or server.unheard_of(name) or server.ignores(name):
        full = _stranger(name, line, loose, server, findings)
        if full is None:
            return []
        name = full
    here = server.here(name)
    if here is None:
        return [_Given(name=name, line=line, text=_other(prefix, line.text))]
    off = prefix in ("skip", "disable")
    doubly = off and line.text is not None and line.text.upper() in ("0", "OFF", "FALSE")
    read = reading.negated(here) if off and not doubly else reading.read(here, None if prefix else line.text)
    if read.kind:
        severity: Severity = "warning" if read.kind in ("rounded", "prefix") else "error"
        findings.append(_finding(read.kind, severity, name, place, read.text, None, read.fatal))
    if here.deprecated:
        findings.append(_finding("deprecated", "warning", name, place, f"is deprecated {here.deprecated}"))
    return [_Given(name=name, line=line, value=read.value)]


def _other(prefix: str, text: str | None) -> str:
    if prefix in ("skip", "disable"):
        return "OFF"
    return "ON" if text is None else text


def _stranger(name: str, line: Line, loose: bool, server: _Server, findings: list[Finding]) -> str | None:
    """Says why the server does not take a name; returns the one that it takes it for, if there is one."""
    identity, place = server.identity, (line.path, line.line)
    this = f"{identity.flavor} {'.'.join(map(str, identity.version))}"
    ignored = server.ignores(name)
    fatal = not (loose or ignored)
    ends = "the server does not start" if fatal else "the server continues without it"
    ends = "the server accepts and ignores it" if ignored else ends
    severity: Severity = "error" if fatal else "warning"
    if name in server.catalog:
        entry = server.catalog.setting(name)
        if entry.name != name or server.here(name) is not None:
            says = f"is a variable, not an option: {ends}"
            instead = f"write {entry.name}" if entry.name != name else "set it with SET GLOBAL"
            findings.append(_finding("unknown-name", severity, name, place, says, instead, fatal))
            return None
        kind = "removed" if _had(name, server) else "not-in-version"
        others = server.catalog.successor(name, identity.flavor, identity.version)
        has = f"{this} has {', '.join(others)}" if others else None
        says = f"is not an option of {this}, only of {server.catalog.where(name)}: {ends}"
        findings.append(_finding(kind, severity, name, place, says, has, fatal))
        return None
    if PLUGIN.match(name) and not ignored:
        says = "belongs to a plugin or component: the server accepts it only if that is installed"
        way_out = None if loose else "prefix it with loose_ to let the server start without the plugin"
        findings.append(_finding("plugin", "note", name, place, says, way_out))
        return name
    where = server.names.where(name)
    if where or ignored:
        kind = "removed" if _listed_before(name, server) else "not-in-version"
        but = f", but of {where}" if where else ""
        says = f"is not an option of {this}{but}: {ends}"
        findings.append(_finding(kind, severity, name, place, says, None, fatal))
        return None
    full = server.abbreviated(name)
    if full is not None:
        says = f"is an abbreviation of {full}"
        findings.append(_finding("abbreviated", "warning", name, place, says, f"write {full}"))
        return full
    near = server.near(name)
    kind, hint = ("misspelled", f"did you mean {near}?") if near else ("unknown-name", None)
    if server.unheard_of(name):
        says = f"is not an option of any server that flushlab knows, but {this} is newer than those"
        findings.append(_finding(kind, "warning", name, place, says, hint))
        return None
    says = f"is not an option of {this}: {ends}"
    if loose and near:
        says = f"is not an option of {this}, and loose_ hides it: {ends}"
    findings.append(_finding(kind, severity, name, place, says, hint, fatal))
    return None


def _had(name: str, server: _Server) -> bool:
    """Whether an earlier version of this flavor had the setting."""
    identity = server.identity
    return any(
        one.flavor == identity.flavor and one.until and identity.version >= version_of(one.until)
        for one in server.catalog.setting(name).version
    )


def _listed_before(name: str, server: _Server) -> bool:
    identity = server.identity
    return any(
        one.flavor == identity.flavor and one.version < identity.version and name in server.names.of(one)
        for one in server.names.releases
    )


def _duplicates(given: Sequence[_Given]) -> Iterator[Finding]:
    """Each place that a later one overrules. Across files that is how options are overridden: a note."""
    places: dict[str, list[_Given]] = {}
    for one in given:
        places.setdefault(one.name, []).append(one)
    for name, all_of in places.items():
        if _REPEATABLE.fullmatch(name):
            continue
        wins = all_of[-1].line
        for one in all_of[:-1]:
            same_file = (one.line.path, one.line.group) == (wins.path, wins.group)
            says = f"is set again at {wins.place}; the last one wins"
            yield _finding(
                "duplicate", "warning" if same_file else "note", name, (one.line.path, one.line.line), says
            )


def _pool(
    settings: dict[str, Value],
    others: Mapping[str, str],
    places: Mapping[str, tuple[str, int]],
    server: _Server,
) -> Iterable[Finding]:
    """MySQL's buffer pool, which grows to whole chunks when the server starts."""
    name = "innodb_buffer_pool_size"
    here, size = server.here(name), settings.get(name)
    if here is None or not isinstance(size, int):
        return []
    instances = settings.get("innodb_buffer_pool_instances")
    chunk = _number(others.get("innodb_buffer_pool_chunk_size", ""))
    becomes = reading.pool_bytes(here, size, chunk, instances if isinstance(instances, int) else None)
    if becomes == size:
        return []
    settings[name] = becomes
    says = f"is {size} bytes; the server changes it to {becomes}, a whole number of chunks"
    return [_finding("rounded", "warning", name, places[name], says)]


def _number(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    return None if match is None else int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def _finding(
    kind: str,
    severity: Severity,
    name: str,
    place: tuple[str, int],
    text: str,
    hint: str | None = None,
    fatal: bool = False,
) -> Finding:
    return Finding(
        kind=kind,
        severity=severity,
        name=name,
        path=place[0],
        line=place[1],
        text=text,
        hint=hint,
        fatal=fatal,
    )
