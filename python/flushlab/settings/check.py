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

import msgspec

from flushlab.errors import BelowFloor, nearest
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.settings import reading
from flushlab.settings.admission import A_PATH, UNKNOWN, is_admitted, kept_out
from flushlab.settings.candidates import raise_to_floor
from flushlab.settings.catalog import PROVIDER_OPTIONS, canonical
from flushlab.settings.configuration import Configuration
from flushlab.settings.contradictions import contradictions
from flushlab.settings.durability import Guarantees, describe, guarantees, level, meets
from flushlab.settings.fit import CONNECTIONS, SHARED, memory_use, number_of
from flushlab.settings.floor import Floor
from flushlab.settings.judgement import GivenOption, Judgement, OptionsHere
from flushlab.settings.option_names import HelpText, load_option_names
from flushlab.settings.optionfile import (
    INCLUDES_AT_MOST,
    Loader,
    OptionLine,
    Remark,
    Severity,
    instance_of,
    lines,
    parts_of,
    reads_whole_lines,
)
from flushlab.units import format_size

OF_A_SERVER = re.compile(r"(mysqld|server|mariadb|mariadbd|embedded)(-\d+\.\d+)?|client-server|galera")
_A_GROUP = re.compile(
    r"(my|maria|client|server|galera|embedded|isam|aria|sst|xtrabackup|perror|ndb|innodb|safe_)"
)
_REPEATABLE = re.compile(
    r"(binlog|replicate|replicate_wild)_(do|ignore)_(db|table)|replicate_rewrite_db|ignore_db_dir|"
    r"(early_)?plugin_load(_add)?|debug|performance_schema_instrument"
)
_TEMPLATES = {
    "{{ … }}": re.compile(r"\{\{.*\}\}"),
    "{% … %}": re.compile(r"\{%.*%\}"),
    "<% … %>": re.compile(r"<%.*%>"),
    "${…}": re.compile(r"\$\{[^}]*\}"),
    "$(…)": re.compile(r"\$\(\w+\)"),
    "$NAME": re.compile(r"=\s*([\"']?)\$[A-Z_][A-Z0-9_]+\1$"),
    "@NAME@": re.compile(r"=\s*([\"']?)@[A-Z_][A-Z0-9_]+@\1$"),
    "%NAME%": re.compile(r"=\s*([\"']?)%[A-Z_][A-Z0-9_]+%\1$"),
}
"""How templates mark what is to be filled in: Jinja, Helm, mustache, ERB, envsubst, Terraform, autoconf."""
_MARKUP = re.compile(r"---|%YAML|\{|[\w.\"'-]+:(?=\s|$)")
"""The first line of YAML (a ConfigMap, docker-compose, values of Helm) or JSON."""
_NAMED_AT_MOST = 6
_SIMPLE = re.compile(r"\d+[KMG]?")
_ADJUSTED = re.compile(r"option '([^']+)': (?:un)?signed value (\S+) adjusted to (\S+)")
_NEAR_SUFFIX = 0.5
_TEXTS = {"sql_mode"}
"""Settings of the catalog whose values differ from version to version beyond what it knows."""
_OF_THE_PROCESS = {"max_connections", "open_files_limit", "table_open_cache", "table_definition_cache"}
"""The server derives them from limits of the process that asks, not of the one that will run."""


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """An option file as one server takes it.

    Attributes:
        others: the rest, as it is written; a switch without a value is ON.
        written: the argument that each name's last line stands for; empty if it may be a password or a path.
        rejected: the same of names that stop the start.
    """

    settings: Mapping[str, Value]
    others: Mapping[str, str]
    lines: Mapping[str, tuple[str, int]]
    findings: tuple[Remark, ...]
    written: Mapping[str, str] = {}
    rejected: Mapping[str, str] = {}
    binlog_path: str = ""

    @property
    def starts(self) -> bool:
        return not any(finding.fatal for finding in self.findings)

    def guarantees(self, identity: ServerIdentity, storage: Storage) -> Guarantees:
        return guarantees(self.given, identity, storage, Launch())

    @property
    def given(self) -> dict[str, Value]:
        place = {"log_bin_basename": self.binlog_path} if self.binlog_path else {}
        return {**self.others, **self.settings, **place}


def check(
    text: str,
    identity: ServerIdentity,
    *,
    path: str = "my.cnf",
    loader: Loader | None = None,
    known: HelpText | None = None,
    suffix: str = "",
) -> CheckedFile:
    """`loader` reads included files; its OSErrors become remarks."""
    server = OptionsHere(identity, known, suffix)
    findings: list[Remark] = []
    given: list[GivenOption] = []
    headings: dict[str, OptionLine] = {}
    instances: dict[str, OptionLine] = {}
    own: dict[tuple[str, int], OptionLine] = {}
    for line in _gather(text, path, loader, findings, reads_whole_lines(identity)):
        if line.heading:
            headings[line.group] = line
            continue
        if line.group in server.groups:
            own[line.at] = line
        if line.problem and (line.group in server.groups or line.anywhere or line.passed_over):
            name = canonical(line.name)
            says = line.problem if name or line.problem.startswith("!") else f"the line {line.problem}"
            fatal = not line.passed_over
            findings.append(Remark("syntax", "error", name, *line.at, says, line.hint, fatal))
        if line.orphan or (line.group in server.groups and not line.problem):
            judged = Judgement(line, server)
            given += [judged.given] if judged.given else []
            findings += [] if line.orphan else judged.findings
        elif line.problem:
            continue
        elif instance_of(line.group) is not None:
            instances.setdefault(line.group, headings[line.group])
        else:
            findings += _elsewhere(line, server)
    if suffix and not any(one in server.groups and one.endswith(suffix.lower()) for one in headings):
        says, hint = f"the file has no group that ends in {suffix}", _meant_instance(suffix, headings)
        findings.append(Remark("instance", "warning", "", path, 0, says, hint))
    for group, line in instances.items():
        given_as = f"--defaults-group-suffix={instance_of(group)}"
        says = f"[{group}] is for a server with {given_as}; this check passes over it"
        hint = f"check the file as that instance, too: {given_as}"
        findings.append(Remark("instance", "note", "", *line.at, says, hint))
    findings += _duplicates(given)
    last = {one.name: one for one in given}
    settings = {name: one.value for name, one in last.items() if one.value is not None}
    others = {name: one.text for name, one in last.items() if one.text is not None}
    places = {name: one.line.at for name, one in last.items()}
    if identity.nodes > 1 and PROVIDER_OPTIONS in others:
        parts = parts_of(others[PROVIDER_OPTIONS], identity.flavor, identity.version)
        settings |= parts
        places |= dict.fromkeys(parts, places[PROVIDER_OPTIONS])
    loaded = " ".join(
        one.text or "" for one in given if re.fullmatch(r"(early_)?plugin_load(_add)?", one.name)
    )
    findings = [one for one in findings if one.kind != "plugin" or not _loads(one.name, loaded)]
    findings += _pool(settings, others, places, server)
    for told in tuple(contradictions(settings, others, identity)):
        severity: Severity = "error" if told.fatal else "warning"
        place = places[told.name]
        findings.append(Remark("contradiction", severity, told.name, *place, told.why, told.hint, told.fatal))
        if told.becomes is not None:
            settings[told.name] = told.becomes
    return CheckedFile(
        settings=settings,
        others=others,
        lines=places,
        findings=in_reading_order(findings),
        written={name: _harmless(one.line) for name, one in last.items()},
        rejected={
            one.name: _harmless(own[one.path, one.line])
            for one in findings
            if one.fatal and one.name and one.kind != "contradiction" and (one.path, one.line) in own
        },
        binlog_path=last["log_bin"].line.text or "" if settings.get("log_bin") == "ON" else "",
    )


def in_reading_order(findings: Iterable[Remark]) -> tuple[Remark, ...]:
    kept = list(findings)
    order = {path: number for number, path in enumerate(dict.fromkeys(one.path for one in kept))}
    return tuple(sorted(kept, key=lambda one: (order[one.path], one.line)))


def unusable(text: str) -> tuple[str, str] | None:
    if _is_utf16(text):
        return "is UTF-16, which no server reads", "save it as UTF-8 without a byte order mark"
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1)]
    lines = [(number, line) for number, line in lines if line and line[0] not in "#;"]
    for number, line in lines:
        for form, words in _TEMPLATES.items():
            if words.search(line):
                return f"is a template: line {number} has {form}", "give the rendered file"
    if lines and (match := _MARKUP.match(lines[0][1])) is not None:
        hint = "write the options inside it to an option file, under [mysqld], and give that"
        return f"is {'JSON' if match[0] == '{' else 'YAML'}, not an option file", hint
    if not is_option_file(text):
        hint = "give the server's my.cnf; `mysqld --verbose --help` lists the paths that it reads"
        return "is not an option file: it has no group such as [mysqld]", hint
    return None


def _is_utf16(text: str) -> bool:
    """UTF-16 that was read as UTF-8 has a 0 in every other byte of its beginning."""
    even, odd = ({*text[start:64:2]} == {"\0"} for start in (2, 3))
    return even != odd or (text.startswith("\ufffd\ufffd") and "\0" in text)


def is_option_file(text: str) -> bool:
    found = list(lines(text, ""))
    names, groups = load_option_names().names(), {line.group for line in found if line.heading}
    if groups:
        return 2 * sum(_A_GROUP.match(group) is not None for group in groups) >= len(groups)
    return not found or any(line.include or canonical(line.name) in names for line in found)


def arguments(checked: CheckedFile) -> dict[str, str]:
    """The questions to the build, by name: texts that the catalog cannot judge, and no secret or path."""
    texts = {name: value for name, value in checked.settings.items() if name in _TEXTS}
    asked = {**checked.others, **texts}
    return {
        name: f"--{name.replace('_', '-')}={text}"
        for name, text in asked.items()
        if name not in _OF_THE_PROCESS
        and (name in _TEXTS or is_admitted(name))
        and not A_PATH.search(str(text))
    }


def refusal(checked: CheckedFile, name: str, reason: str) -> Remark:
    says = f"is refused by the server: {reason}"
    return Remark("refused", "error", name, *checked.lines[name], says, None, True)


def adjusted(checked: CheckedFile, known: HelpText, complaints: str) -> tuple[Remark, ...]:
    told = {canonical(match[1]): match[3] for match in _ADJUSTED.finditer(complaints)}
    found = []
    for name in arguments(checked):
        text = checked.others.get(name, "")
        if not _SIMPLE.fullmatch(text.upper()):
            continue
        now = told.get(name) or known.values.get(name, "")
        if now.isdecimal() and int(now) != _number(text):
            kind = "out-of-range" if name in told else "rounded"
            says = f"is {text}; the server changes it to {now}"
            found.append(Remark(kind, "warning", name, *checked.lines[name], says))
    return tuple(found)


def _gather(
    text: str, path: str, loader: Loader | None, findings: list[Remark], whole: bool, depth: int = 0
) -> Iterator[OptionLine]:
    for line in lines(text, path, whole=whole):
        if not line.include:
            yield line
            continue
        target, directory = line.include, line.is_directory
        if loader is None:
            findings.append(Remark("include", "note", "", *line.at, f"{target} was not read"))
            continue
        if depth >= INCLUDES_AT_MOST:
            says = f"includes are nested more than {INCLUDES_AT_MOST} deep: {target} is not read"
            findings.append(Remark("include", "error", "", *line.at, says))
            continue
        try:
            included = list(loader(target, directory))
        except OSError as error:
            says = f"{target} cannot be read ({error.strerror or error})"
            ends = ": the server continues without it"
            ends = ": a server that lacks it too does not start" if directory else ends
            hint = "check the file where its server runs" if directory else None
            findings.append(Remark("include", "warning", "", *line.at, f"{says}{ends}", hint))
            continue
        says = f"{target} was read on this machine"
        if directory:
            names = [name.rpartition("/")[2] for name, _ in included]
            more = len(names) - _NAMED_AT_MOST
            listed = ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
            says += f": {listed or 'no *.cnf in it'}"
        told = Remark(
            "include", "note", "", *line.at, says, "check a file for another machine on that machine"
        )
        findings += [] if told in findings else [told]  # a circle of includes reads it again
        if not target.startswith(("/", "~")):
            says = (
                f"{target} is searched beside this file, but by a server in the folder that it is started in"
            )
            findings.append(Remark("include", "warning", "", *line.at, says, "write the whole path"))
        for name, content in included:
            if found := unusable(content):
                findings.append(Remark("include", "error", "", name, 0, found[0], found[1]))
            else:
                yield from _gather(content, name, loader, findings, whole, depth + 1)


def _harmless(line: OptionLine) -> str:
    return line.argument if kept_out(canonical(line.name), line.text or "") in ("", UNKNOWN) else ""


def _elsewhere(line: OptionLine, server: OptionsHere) -> list[Remark]:
    name = canonical(line.name).removeprefix("loose_")
    bare = re.sub(r"^(skip|disable|enable)_", "", name)
    if OF_A_SERVER.fullmatch(line.group) or not (name in server.catalog or bare in server.catalog):
        return []
    says = f"is in [{line.group}], which the server does not read"
    return [Remark("wrong-group", "error", name, *line.at, says, "put it under [mysqld]")]


def _meant_instance(suffix: str, groups: Iterable[str]) -> str:
    suffixes = [found for group in groups if (found := instance_of(group)) is not None]
    near = nearest(suffix.lower(), suffixes, most=1, cutoff=_NEAR_SUFFIX)
    if near:
        return f"did you mean {near[0]}?"
    return f"the file has groups for {', '.join(suffixes)}" if suffixes else f"[mysqld{suffix}] is one"


def _loads(name: str, libraries: str) -> bool:
    stem = name.removeprefix("plugin_").replace("rpl_semi_sync", "semisync")
    return stem in libraries or any(
        stem.startswith(library.removeprefix("mysql_") + "_")
        for library in re.findall(r"(\w+)\.so", libraries)
    )


def _duplicates(given: Sequence[GivenOption]) -> Iterator[Remark]:
    """Each place that a later one overrules. Across files that is how options are overridden: a note."""
    places: dict[str, list[GivenOption]] = {}
    for one in given:
        places.setdefault(one.name, []).append(one)
    for name, all_of in places.items():
        if _REPEATABLE.fullmatch(name):
            continue
        wins = all_of[-1].line
        for one in all_of[:-1]:
            same_file = (one.line.path, one.line.group) == (wins.path, wins.group)
            says = f"is set again at {wins.path}:{wins.line}; the last one wins"
            yield Remark("duplicate", "warning" if same_file else "note", name, *one.line.at, says)


def _pool(
    settings: dict[str, Value],
    others: Mapping[str, str],
    places: Mapping[str, tuple[str, int]],
    server: OptionsHere,
) -> Iterable[Remark]:
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
    return [Remark("rounded", "warning", name, *places[name], says)]


def _number(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    return None if match is None else int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def below(
    checked: CheckedFile, path: str, identity: ServerIdentity, storage: Storage, floor: Floor
) -> tuple[Remark, ...]:
    try:
        changes, reasons = raise_to_floor(
            checked.given, floor, identity=identity, storage=storage, launch=Launch()
        )
    except BelowFloor as error:
        return (Remark("below-floor", "error", "", path, 0, error.message, error.hint),)
    given, keeps = Configuration(checked.given, identity), f"keeps the file below the floor {floor}"
    found = []
    for name, reason in zip(changes, reasons, strict=True):
        says = keeps if name in checked.lines else f"is {given.value(name)} by default, which {keeps}"
        place = checked.lines.get(name, (path, 0))
        found.append(Remark("below-floor", "error", name, *place, says, reason))
    return tuple(found)


def at_risk(
    checked: CheckedFile, path: str, identity: ServerIdentity, storage: Storage
) -> tuple[Remark, ...]:
    """Judges a setting with the others at their safe values, so that no line tells of another's risk."""
    given = checked.given
    try:
        changes, _ = raise_to_floor(given, Floor.STRICT, identity=identity, storage=storage, launch=Launch())
    except BelowFloor:
        before = checked.guarantees(identity, storage)
        lost = dict.fromkeys(part for one in _kept(before)[:4] for part in one.split("; "))
        says = f"keeps only the floor {level(before)}: {'; '.join(lost)}"
        return (Remark("at-risk", "warning", "", path, 0, says),)
    found = []
    for name, value in changes.items():
        others = {other: safe for other, safe in changes.items() if other != name}
        alone = guarantees({**given, **others}, identity, storage, Launch())
        safe = guarantees({**given, **changes}, identity, storage, Launch())
        now = Configuration(given, identity).value(name)
        says = f"is {now}{'' if name in checked.lines else ' by default'}: {_cost(alone, safe)}"
        severity: Severity = "note" if meets(alone, Floor.SECOND) else "warning"
        place = checked.lines.get(name, (path, 0))
        found.append(Remark("at-risk", severity, name, *place, says, f"{name} = {value} is safe"))
    return tuple(found)


def _cost(found: Guarantees, safe: Guarantees) -> str:
    text = next(one for one, other in zip(_kept(found), _kept(safe), strict=True) if one != other)
    if text != describe(found)["power_loss"]:
        return text
    killed = found.process_crash != safe.process_crash
    return f"when {'mysqld, ' if killed else ''}the OS or the power fails, {text}"


def _kept(found: Guarantees) -> tuple[str, ...]:
    words = describe(found)
    return tuple(words[key] for key in ("power_loss", "os_crash", "process_crash", "torn_page", "binlog"))


def too_large(
    checked: CheckedFile, path: str, identity: ServerIdentity, memory_bytes: int, *, named: bool = False
) -> Iterator[Remark]:
    use = memory_use(Configuration(checked.given, identity))
    there_is = f"{'--host-memory is' if named else 'this machine has'} {format_size(memory_bytes)}"
    hint = None if named else "if the file is for another machine, name its memory: --host-memory 64G"
    if use.shared_bytes > memory_bytes:
        name = max(SHARED, key=lambda one: number_of(Configuration(checked.given, identity), one))
        says = f"makes the shared buffers {format_size(use.shared_bytes)}; {there_is}"
        yield Remark("memory", "warning", name, *checked.lines.get(name, (path, 0)), says, hint)
    elif use.worst_bytes > memory_bytes:
        each, worst = format_size(use.connection_bytes), format_size(use.worst_bytes)
        says = (
            f"is {use.connections}: with buffers of {each} each and {format_size(use.shared_bytes)} for all,"
            f" the server may take {worst}; {there_is}"
        )
        place = checked.lines.get(CONNECTIONS, (path, 0))
        yield Remark("memory", "warning", CONNECTIONS, *place, says, hint)
