"""Catalog: the facts about each setting, per flavor and version.

Sits in `settings`: pure apart from reading the packaged TOML files `catalog/*.toml` once. The files are
data for people to read and change. `SettingEntry`, `VersionEntry` and `CandidateEntry` below define the
allowed keys. `tests/unit/settings/test_catalog.py` checks the files.

A setting's keys are defaults for its `[[setting.version]]` tables. Each table names its flavor and versions
(`since` included, `until` excluded). At most one table holds for a version.
`tests/contract/test_catalog.py` compares the catalog with the reports of real servers.

`catalog.here(name, flavor, version)` is the view that others work with: parse, render, compare.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal

import msgspec

from flushlab.errors import UnknownSetting, UsageError, ValueOutOfRange, nearest
from flushlab.record import Value
from flushlab.record.machine import Flavor
from flushlab.settings.floor import Floor
from flushlab.units import option_size, parse_size

_SETTING = "[[setting]]"
SettingType = Literal["boolean", "integer", "size", "float", "enumeration", "set", "string"]

PROVIDER_OPTIONS = "wsrep_provider_options"
"""The variable that holds all of Galera's own options: `gcs.fc_limit = 16; …`."""
_TRUE = {"ON", "1", "TRUE", "YES"}
_FALSE = {"OFF", "0", "FALSE", "NO"}


class CandidateEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value worth trying, as the catalog's files have it.

    Attributes:
        memory_share: share of the machine's usable memory, rounded down to `multiple`.
        settings_with: `with` in the files; settings that change together with it, set before it.
        raise_only, lower_only: left out where the base is at or above (below) the value.
        replaces: left out where the base has another value than this.
        floor: proposed only at this floor or below; for what a safer floor has no use of.
    """

    why: str
    value: Value | None = None
    memory_share: float | None = None
    multiple: int = 1
    settings_with: dict[str, Value] = msgspec.field(default={}, name="with")
    raise_only: bool = False
    lower_only: bool = False
    replaces: Value | None = None
    floor: Floor = Floor.STRICT
    flavor: Flavor | None = None
    since: str = ""
    until: str = ""

    def holds(self, flavor: Flavor, version: tuple[int, ...]) -> bool:
        return self.flavor in (None, flavor) and is_within(version, self.since, self.until)


class _Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: SettingType | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    multiple: int | None = None
    unit: str | None = None
    default: Value | None = None
    computed: str | None = None
    values: tuple[str, ...] | None = None
    spellings: dict[str, str] | None = None
    dynamic: bool | None = None
    partly_dynamic: bool | None = None
    variable: str | None = None


class VersionEntry(_Facts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flavor: Flavor
    since: str = ""
    until: str = ""

    def __str__(self) -> str:
        return span_words(self.flavor, self.since, self.until)


class SettingEntry(_Facts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting, as the catalog's files have it.

    Attributes:
        fixed: the setting defines the service: `tune` takes its value from the base.
        layout: it changes what an initialised data directory looks like: part of a snapshot's key.
        needs_steady_state: its effect is credited only in windows that outlast the redo log.
        binlog: it acts on the binary log alone, and on nothing where that is off.
        cluster: it acts on a node of a Galera cluster alone: no other server is offered it.
        on_cluster: the value that Galera requires.
        switch: its option takes a file name; given at all means ON (`log_bin`). A value that is no boolean
            is that name.
        computed: how the server derives the default where it depends on the machine or on other settings;
            `default` is then the usual outcome.
        variable: the name under which SHOW VARIABLES has it, where that is not `name`.
    """

    name: str
    group: str
    effect: str
    source: tuple[str, ...]
    version: tuple[VersionEntry, ...]
    candidate: tuple[CandidateEntry, ...] = ()
    aliases: tuple[str, ...] = ()
    durability: tuple[str, ...] = ()
    fixed: bool = False
    layout: bool = False
    needs_steady_state: bool = False
    binlog: bool = False
    cluster: bool = False
    part: str = ""
    on_cluster: Value | None = None
    switch: bool = False
    successor: tuple[str, ...] = ()


class SettingHere(msgspec.Struct, frozen=True, kw_only=True):
    entry: SettingEntry
    flavor: Flavor
    version: tuple[int, ...]
    variable: str
    type: SettingType
    default: Value
    dynamic: bool
    partly_dynamic: bool = False
    minimum: int | float | None = None
    maximum: int | float | None = None
    multiple: int = 1
    unit: str = ""
    computed: str = ""
    values: tuple[str, ...] = ()
    spellings: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def part(self) -> str:
        return self.entry.part

    def parse(self, given: Value | bool | None) -> Value:
        """As records hold it: booleans ON or OFF, sizes in bytes, enumerations by their own spelling.
        ValueOutOfRange if this version does not allow it."""
        text = "" if given is None else str(given).strip()
        match self.type:
            case "boolean":
                return self._boolean(text)
            case "enumeration":
                return self._enumeration(text)
            case "string":
                return text
            case "set":
                return self._members(text)
            case "float":
                try:
                    return self._bounded(float(text))
                except ValueError:
                    raise self._refuse(text, "is not a number") from None
            case "integer" | "size":
                return self._bounded(self._whole(text))

    def same(self, one: Value, other: Value) -> bool:
        try:
            first, second = self.parse(one), self.parse(other)
        except ValueOutOfRange:
            return False
        return first == second or (self.type == "set" and _expanded(str(first), str(second)))

    def rounded(self, value: Value) -> Value:
        parsed = self.parse(value)
        return parsed // self.multiple * self.multiple if isinstance(parsed, int) else parsed

    def render(self, value: Value) -> str:
        parsed = self.parse(value)
        if self.type == "size" and isinstance(parsed, int):
            return option_size(parsed)
        if isinstance(parsed, float) and parsed == int(parsed):
            return str(int(parsed))
        return str(parsed)

    def option(self, value: Value) -> str:
        if self.entry.switch:
            return self.name if self.parse(value) == "ON" else f"skip_{self.name}"
        if self.part:
            return f'{PROVIDER_OPTIONS} = "{self.part}={self.render(value)}"'
        text = self.render(value)
        return f'{self.name} = "{text}"' if set(text) & set(" #;") else f"{self.name} = {text}"

    def sql(self, value: Value) -> str:
        if self.part:
            return f"'{self.part}={self.render(value)}'"
        parsed = self.parse(value)
        if isinstance(parsed, str) and parsed not in ("ON", "OFF"):
            return f"'{parsed}'"
        return str(parsed)

    def unfit(self, value: Value, nodes: int) -> str:
        if nodes == 1:
            name = self.part or self.name
            return f"{name} acts on a cluster only: add --cluster 3" if self.entry.cluster else ""
        wanted = self.entry.on_cluster
        if wanted is None or self.same(value, wanted):
            return ""
        return f"{self.name} was set to {value}, and Galera needs {wanted}"

    def describe_range(self) -> str:
        if self.type == "boolean":
            return "ON or OFF"
        if self.values:
            return ", ".join(self.values)
        if self.minimum is None and self.maximum is None:
            return "any text" if self.type == "string" else "any number"
        if self.maximum is None:
            return f"{self._plain(self.minimum)} and above"
        return f"{self._plain(self.minimum)} to {self._plain(self.maximum)}"

    def _plain(self, value: int | float | None) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    def _refuse(self, text: str, rule: str) -> ValueOutOfRange:
        server = f"{self.flavor} {'.'.join(map(str, self.version))}"
        return ValueOutOfRange(
            f"{self.name} was set to {text!r}, which {rule}; {server} allows {self.describe_range()}",
            hint=f"`flushlab settings {self.name}` explains it",
        )

    def _boolean(self, text: str) -> str:
        if text.upper() in _TRUE:
            return "ON"
        if text.upper() in _FALSE:
            return "OFF"
        if self.entry.switch and text:
            return "ON"  # a file name: the option is given
        raise self._refuse(text, "is not a boolean")

    def _enumeration(self, text: str) -> str:
        if text in self.values and not self.spellings:
            return text
        by_name = {value.upper(): value for value in self.values}
        by_name |= {spelling.upper(): value for spelling, value in self.spellings.items()}
        if text.upper() in by_name:
            return by_name[text.upper()]
        if text.isdecimal() and int(text) < len(self.values):
            return self.values[int(text)]
        for words, value in ((_TRUE, "ON"), (_FALSE, "OFF")):
            if text.upper() in words and value in self.values:
                return value
        raise self._refuse(text, "is not one of its values")

    def _members(self, text: str) -> str:
        found = dict[str, None]()
        for part in text.upper().split(",") if text != "0" else ():
            member = part.strip()
            begin = [value for value in self.values if value.startswith(member)]
            found[begin[0] if member not in self.values and len(begin) == 1 else member] = None
        known = [value for value in self.values if value in found]
        return ",".join((*known, *(member for member in found if member not in known)))

    def _whole(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            pass
        try:
            if (number := float(text)) == int(number):
                return int(number)
        except (ValueError, OverflowError):
            try:
                return parse_size(text)
            except UsageError:
                pass
        raise self._refuse(text, "is not a size" if self.type == "size" else "is not a whole number")

    def _bounded(self, number: int | float) -> int | float:
        if (self.minimum is not None and number < self.minimum) or number != number:
            raise self._refuse(str(number), f"is below {self._plain(self.minimum)}")
        if self.maximum is not None and number > self.maximum:
            raise self._refuse(str(number), f"is above {self._plain(self.maximum)}")
        return number


_COMBINED = {"ANSI", "DB2", "MAXDB", "MSSQL", "MYSQL323", "MYSQL40", "ORACLE", "POSTGRESQL", "TRADITIONAL"}
"""Members of sql_mode that stand for others, which the server shows beside them
(https://dev.mysql.com/doc/refman/5.7/en/sql-mode.html#sql-mode-combo)."""


def _expanded(one: str, other: str) -> bool:
    first, second = set(one.split(",")), set(other.split(","))
    combined = first & _COMBINED
    return bool(combined) and combined == second & _COMBINED and (first <= second or second <= first)


class Catalog:
    """All settings that flushlab knows, by name; where a name is unknown, methods raise UnknownSetting."""

    def __init__(self, entries: Sequence[SettingEntry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._names = {name: entry for entry in entries for name in (entry.name, *entry.aliases)}
        self._here: dict[tuple[str, str, tuple[int, ...]], SettingHere | None] = {}

    def __contains__(self, name: str) -> bool:
        return canonical(name) in self._names

    @property
    def spellings(self) -> Collection[str]:
        return self._names.keys()

    def setting(self, name: str) -> SettingEntry:
        entry = self._names.get(canonical(name))
        if entry is None:
            raise self.unknown(name)
        return entry

    def unknown(self, name: str, nearby: str = "", beside: Collection[str] = ()) -> UnknownSetting:
        near = nearest(canonical(nearby or name), dict.fromkeys((*self._names, *beside)))
        hint = f"did you mean {' or '.join(near)}?" if near else "`flushlab settings` lists them all"
        return UnknownSetting(f"{name} is not a setting that flushlab knows", hint=hint)

    def here(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> SettingHere | None:
        entry = self.setting(name)
        key = (entry.name, flavor, version)
        if key not in self._here:
            holding = (
                _merge(entry, one, version)
                for one in entry.version
                if one.flavor == flavor and is_within(version, one.since, one.until)
            )
            self._here[key] = next(holding, None)
        return self._here[key]

    def require(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> SettingHere:
        here = self.here(name, flavor, version)
        if here is None:
            raise UnknownSetting(
                f"{canonical(name)} is not a setting of {flavor} {'.'.join(map(str, version))}",
                hint=f"it exists in {self.where(name)}",
            )
        return here

    def where(self, name: str) -> str:
        spans: list[VersionEntry] = []
        for one in self.setting(name).version:
            last = spans[-1] if spans else None
            if last is not None and last.flavor == one.flavor and last.until == one.since != "":
                spans[-1] = VersionEntry(flavor=one.flavor, since=last.since, until=one.until)
            else:
                spans.append(one)
        return "; ".join(map(str, spans))

    def successor(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(
            other for other in self.setting(name).successor if self.here(other, flavor, version) is not None
        )

    def names(self, flavor: Flavor | None = None, version: tuple[int, ...] = ()) -> tuple[str, ...]:
        return tuple(
            name for name in self._entries if flavor is None or self.here(name, flavor, version) is not None
        )

    def settings(self) -> tuple[SettingEntry, ...]:
        return tuple(self._entries.values())


@functools.lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def packaged(name: str) -> list[str]:
    lines = (resources.files("flushlab.settings") / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and line.split()[0] != "#"]


@functools.cache
def load_catalog() -> Catalog:
    return Catalog([entry for file in _files() for entry in read_entries(file.read_text(encoding="utf-8"))])


def setting_entry(name: str) -> SettingEntry:
    """The entry of a setting in the packaged catalog, without the time that all others take to read."""
    wanted = f'\nname = "{canonical(name)}"\n'
    for file in _files():
        for text in file.read_text(encoding="utf-8").split(_SETTING)[1:]:
            if text.startswith(wanted):
                return read_entries(_SETTING + text)[0]
    return load_catalog().setting(name)


def _files() -> list[Traversable]:
    directory = resources.files("flushlab.settings") / "catalog"
    files = [file for file in directory.iterdir() if file.name.endswith(".toml")]
    return sorted(files, key=lambda file: file.name)


def read_entries(text: str) -> tuple[SettingEntry, ...]:
    return msgspec.convert(tomllib.loads(text)["setting"], tuple[SettingEntry, ...])


def is_within(version: tuple[int, ...], since: str, until: str) -> bool:
    return (not since or version >= version_of(since)) and (not until or version < version_of(until))


def span_words(flavor: Flavor, since: str, until: str) -> str:
    return flavor + (f" since {since}" if since else "") + (f" before {until}" if until else "")


def _merge(entry: SettingEntry, one: VersionEntry, version: tuple[int, ...]) -> SettingHere:
    facts = {
        key: fact
        for of in (entry, one)
        for key in _Facts.__struct_fields__
        if (fact := getattr(of, key)) is not None
    }
    facts.setdefault("variable", PROVIDER_OPTIONS if entry.part else entry.name)
    return SettingHere(entry=entry, flavor=one.flavor, version=version, **facts)
