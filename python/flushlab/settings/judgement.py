"""Judgement: what one server makes of one line of an option file. Pure; sits in `settings`, below `check`.

A name that another version or flavor has is never taken for a misspelled one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flushlab.record import ServerIdentity, Value
from flushlab.settings import reading
from flushlab.settings.admission import PLUGIN, PREFIX
from flushlab.settings.catalog import Catalog, SettingHere, canonical, is_within, load_catalog, version_of
from flushlab.settings.option_names import (
    Ending,
    HelpText,
    OptionNames,
    OptionShape,
    Way,
    load_option_names,
    plugin_ended,
    plugin_named,
    plugin_where,
    product_of,
    shape_of,
)
from flushlab.settings.optionfile import OptionLine, Remark, Severity, groups_of
from flushlab.settings.reading import ReadValue

_EARLY = ("max_connections", "getopt_prefix_matching")


class OptionsHere:
    def __init__(self, identity: ServerIdentity, known: HelpText | None, suffix: str = "") -> None:
        self.identity = identity
        self.catalog: Catalog = load_catalog()
        self.names: OptionNames = load_option_names()
        self.groups = groups_of(identity, suffix)
        self._told = known.names if known else None
        self.key = (identity.flavor, identity.version)

    def here(self, name: str) -> SettingHere | None:
        """The catalog's setting of exactly this name (aliases are names of variables, not of options)."""
        if name not in self.catalog or self.catalog.setting(name).name != name:
            return None
        return self.catalog.here(name, *self.key)

    def shape(self, name: str) -> OptionShape | None:
        listed = shape_of(name, *self.key)
        return listed or (OptionShape(kind="plugin", optional=True) if self.plugin(name) else None)

    def plugin(self, name: str) -> Way | None:
        return None if self.takes(name) else plugin_named(name, *self.key)

    def plugin_elsewhere(self, name: str) -> str:
        return "" if self.takes(name) or self.plugin(name) else plugin_where(name)

    def takes(self, name: str) -> bool | None:
        if self._told is not None:
            return name in self._told
        if self.names.removed(name, *self.key):
            return False
        listed = self.names.knows(name, *self.key)
        if name in self.catalog and self.catalog.setting(name).name == name:
            return self.here(name) is not None and listed is not False
        return listed

    def ignores(self, name: str) -> bool:
        return not self.takes(name) and self.names.ignores(name, *self.key)

    def unheard_of(self, name: str) -> bool:
        return self.takes(name) is None and name not in self.names.names() and not PLUGIN.match(name)

    @property
    def tells_case(self) -> bool:
        """MySQL, and MariaDB 11.4.5; MariaDB 10.11.19 and 11.8.9 take capitals."""
        return self.identity.flavor == "mysql" or is_within(self.identity.version, "11.0", "11.4.6")

    @property
    def told_as(self) -> str:
        return f"{self.identity.flavor} {'.'.join(map(str, self.identity.version))}"

    def ended(self, name: str) -> str:
        end = self.names.removed(name, *self.key) or (
            None if self.takes(name) or self.abbreviated(name) else plugin_ended(name, *self.key)
        )
        if end is not None:
            return ".".join(map(str, end))
        if name not in self.catalog or self.catalog.setting(name).name != name:
            return ""
        ends = [
            one.until
            for one in self.catalog.setting(name).version
            if one.flavor == self.identity.flavor and one.until
        ]
        gone = [end for end in ends if version_of(end) <= self.identity.version]
        return max(gone, key=version_of, default="") if self.here(name) is None else ""

    def next_end(self, name: str) -> str:
        ends = [self.names.removals.get(name, Ending()).since.get(self.identity.flavor)]
        if name in self.catalog:
            own = (one for one in self.catalog.setting(name).version if one.flavor == self.identity.flavor)
            ends.append(max((version_of(one.until or "99") for one in own), default=None))
        later = [end for end in ends if end is not None and self.identity.version < end < (99,)]
        return ".".join(map(str, min(later, default=())))

    def successors(self, name: str) -> tuple[str, ...]:
        found = self.names.successors(name, *self.key)
        return found or (self.catalog.successor(name, *self.key) if name in self.catalog else ())

    def had(self, name: str) -> bool:
        flavor = self.identity.flavor
        listed = any(one.flavor == flavor and name in self.names.of(one) for one in self.names.releases)
        known = self.catalog.setting(name).version if name in self.catalog else ()
        return listed or any(one.flavor == flavor for one in known)

    def had_before(self, name: str) -> bool:
        flavor, version = self.key
        return any(
            one.flavor == flavor and one.version < version and name in self.names.of(one)
            for one in self.names.releases
        )

    def near(self, name: str) -> str | None:
        if near := self.names.near(name, *self.key):
            return near
        found = self.names.starting_with(name, *self.key)
        return found[0] if len(found) == 1 and found[0] != name else None

    def abbreviated(self, name: str) -> tuple[str, ...]:
        """The options that MariaDB takes the beginning of a name for; with several it ends. MySQL takes none.

        It looks for a few before all others; of those only `_EARLY` share their beginnings (10.11.19 and
        11.8.9 start with `m=1` and `g=1`). Plugins come last, each alone (`my_getopt.c`, `sql_plugin.cc`).
        """
        if self.identity.flavor != "mariadb" or not name or self.takes(name):
            return ()
        found = self.names.starting_with(name, *self.key)
        if early := [one for one in _EARLY if one in found]:
            return (early[0],)
        loading = [one for one in found if (shape := self.shape(one)) and shape.kind == "plugin"]
        innodb = [one for one in found if one.startswith("innodb_") and one not in loading]
        own = [one for one in found if one not in (*loading, *innodb)]
        return tuple(own or innodb or loading[:1])


_NUMBERS = ("integer", "size", "float", "unsigned", "signed", "real")
_ENDS_WITH_0 = (
    *("innodb_buffer_pool_size", "innodb_log_buffer_size", "innodb_page_size", "innodb_purge_threads"),
    *("table_cache", "table_open_cache", "table_open_cache_instances"),
)
"""Numbers that MariaDB 10.11.19 and 11.8.9 do not take as 0 behind `loose_`."""
_FLAGS = {"optimizer_trace"}
"""Texts of `name=on,name=off`, which servers read at once."""
_STOPS, _GOES_ON = "the server does not start", "the server continues without it"


class GivenOption(NamedTuple):
    name: str
    line: OptionLine
    value: Value | None = None
    text: str | None = None


class Judgement:
    def __init__(self, line: OptionLine, server: OptionsHere) -> None:
        self._line, self._server = line, server
        self._is_mysql = server.identity.flavor == "mysql"
        spelled = canonical(line.name)
        self._loose, self._name = spelled.startswith("loose_"), spelled.removeprefix("loose_")
        self.findings: list[Remark] = []
        self.given = self._judge()
        if self.given is not None:
            self._foretell_end(self.given)

    def _say(
        self, kind: str, severity: Severity, text: str, hint: str | None = None, fatal: bool = False
    ) -> None:
        self.findings.append(Remark(kind, severity, self._name, *self._line.at, text, hint, fatal))

    def _judge(self) -> GivenOption | None:
        line, server = self._line, self._server
        if server.tells_case and line.name != (lower := line.name.lower()):
            says = (
                f"contains capital letters, but the option names of {server.told_as} are lowercase: {_STOPS}"
            )
            self._say("misspelled", "error", says, f"write {lower}", True)
        prefix, bare = _without_prefixes(self._name, server)
        self._name = bare if prefix else self._name
        if server.takes(self._name) is False or server.unheard_of(self._name) or server.ignores(self._name):
            full = self._stranger()
            if full is None:
                return None
            self._name = full
        if prefix == "maximum":
            self._limit()
            return None
        name, here, shape = self._name, server.here(self._name), server.shape(self._name)
        text = _turned(prefix, line.text) if prefix else line.text
        given = None
        if here is None:
            given = ("ON" if text == "1" else "OFF") if prefix else "ON" if text is None else text
        as_text = shape is not None and shape.kind in ("word", "text") and name not in _FLAGS
        if here is None and prefix and as_text:
            if prefix == "enable" and not name.startswith("replicate_") and text == "1":
                if self._is_mysql:
                    return None  # it keeps the default; MariaDB takes the empty text
                text = ""
            given = text
        if here is not None and prefix and text == "0":
            read = reading.negated(here)
        elif here is not None:
            read = reading.read(here, None if prefix and here.entry.switch else text)
        elif shape is not None:
            read = reading.read_shape(name, shape, text, *server.key)
            given = str(read.value) if shape.kind in ("boolean", "enumeration") and read.value else given
        else:
            return GivenOption(name, line, text=given)
        later = as_text or (shape is not None and shape.kind == "bare")
        if self._loose and read.fatal and not self._is_mysql and text is not None and not later:
            return self._pass_over(read)
        self._misread(read)
        if here is None:
            return GivenOption(name, line, text=given)
        return GivenOption(name, line, value=read.value)

    def _foretell_end(self, given: GivenOption) -> None:
        server, value = self._server, given.text if given.value is None else str(given.value)
        found = server.names.deprecated(given.name, *server.key, value)
        if found is None:
            return
        flavor, end = server.identity.flavor, server.next_end(given.name)
        since = "" if found.earlier else f" since {flavor} {'.'.join(map(str, found.since[flavor]))}"
        if found.values is not None:
            says = f"has a value that is deprecated{since}"
        else:
            ends = f"{flavor} {end} removed it" if end else "a later version will remove it"
            says = f"is deprecated{since}; {ends}"
        note = found.note or server.names.note(given.name)
        instead = found.successors or (() if found.values else server.successors(given.name))
        hint = note or "nothing replaces it"
        if instead or (note and not found.values):
            hint = _instead(instead, note)
        self._say("deprecated", "warning", says, hint)

    def _limit(self) -> None:
        name, server, hint = self._name, self._server, f"write {self._name}"
        limits, here, shape = server.names.limits(name, *server.key), server.here(name), server.shape(name)
        fatal = self._is_mysql or not self._loose
        ends = _STOPS if fatal else _GOES_ON
        if limits is False:
            self._say("prefix", "error", f"has no maximum: {ends}", hint, fatal)
            return
        read = ReadValue(self._line.text)
        if here is not None:
            read = reading.read(here, self._line.text)
        elif shape is not None:
            read = reading.read_shape(name, shape, self._line.text, *server.key)
        if read.fatal:
            self._say(read.kind, "error", f"{read.text}: {ends}", read.hint, fatal)
            return
        caveat = "; a server that knows no such limit does not start" if limits is None else ""
        self._say("prefix", "warning", f"limits {name} for sessions{caveat}", hint)

    def _pass_over(self, read: ReadValue) -> GivenOption | None:
        """MariaDB starts in spite of a wrong value if `loose_` is in front of the name: numbers become 0,
        sets empty."""
        name, here, shape = self._name, self._server.here(self._name), self._server.shape(self._name)
        kind = here.type if here else shape.kind if shape else ""
        becomes = "0" if kind in _NUMBERS else "''" if kind == "set" else ""
        fatal = name in _ENDS_WITH_0
        does = f"takes it for {becomes}" if becomes else "keeps the default"
        ends = f"because of loose_, the server {does}{' and ends' * fatal}"
        self._say(read.kind, "error", f"{read.text}: {ends}", read.hint, fatal)
        if not becomes:
            return None
        text = becomes.strip("'")
        if here is None:
            return GivenOption(name, self._line, text=text)
        return GivenOption(name, self._line, value=reading.read(here, text).value)

    def _misread(self, read: ReadValue) -> None:
        quote, ends = (self._line.text or "")[:1], f": {_STOPS}" * read.fatal
        if quote in ("'", '"'):
            says = f"begins with a {quote} that nothing closes, so it is part of the value{ends}"
            self._say("syntax", "error" if read.fatal else "warning", says, None, read.fatal)
        elif read.kind:
            severity: Severity = "warning" if read.kind in ("rounded", "prefix") else "error"
            self._say(read.kind, severity, f"{read.text}{ends}", read.hint, read.fatal)

    def _stranger(self) -> str | None:
        name, server = self._name, self._server
        ignored, plugin, end = server.ignores(name), server.plugin(name), server.ended(name)
        if plugin == "built-in":
            return name
        if plugin == "loadable":
            return self._of_plugin("loads a plugin", "beside plugin_load_add, or once it is installed")
        meant = server.abbreviated(name) if not end and not ignored else ()
        if len(meant) > 1:
            says = f"is the beginning of {meant[0]} and {meant[1]}: {_STOPS}"
            self._say("misspelled", "error", says, None, True)
            return None
        if meant:
            self._say("abbreviated", "warning", f"is an abbreviation of {meant[0]}", f"write {meant[0]}")
            return meant[0]
        why = self._why_not(end, ignored)
        if why is None:
            return None
        kind, text, hint = why
        if kind == "plugin":
            return self._of_plugin(text, "if that is installed")
        fatal = not (self._loose or ignored)
        ends = "the server accepts and ignores it" if ignored else _STOPS if fatal else _GOES_ON
        self._say(kind, "error" if fatal else "warning", f"{text}: {ends}", hint, fatal)
        return None

    def _of_plugin(self, text: str, when: str) -> str:
        if self._loose:
            self._say(
                "plugin", "note", f"{text}: it takes effect only {when}; else the server passes over it"
            )
        else:
            way_out = "prefix it with loose_ to let the server start without the plugin"
            self._say("plugin", "note", f"{text}: the server accepts it only {when}", way_out)
        return self._name

    def _why_not(self, end: str, ignored: bool) -> tuple[str, str, str | None] | None:
        name, server, this = self._name, self._server, self._server.told_as
        if end and not ignored:
            hint = "remove the line"
            if not server.plugin_elsewhere(name):
                hint = _instead(server.successors(name), server.names.note(name))
            return "removed", f"was removed in {server.identity.flavor} {end}", hint
        where = server.names.where(name)
        if product := "" if ignored or server.had(name) else product_of(name):
            keep = f"if the file is for {product}, keep the line: the rest of this check holds there, too"
            owners = f"{product} and {where}" if where else product
            return "product", f"is an option of {owners}, not of {this}", keep
        if name in server.catalog:
            entry = server.catalog.setting(name)
            if entry.name != name or server.here(name) is not None:
                instead = (
                    f"write {entry.name}"
                    if entry.name != name
                    else "set it with SET GLOBAL, after every restart"
                )
                return "unknown-name", "is a variable, not an option", instead
            others = server.catalog.successor(name, *server.key)
            has = f"{this} has {', '.join(others)}" if others else None
            text = f"is not an option of {this}, only of {server.catalog.where(name)}"
            return "removed" if end else "not-in-version", text, has
        if not ignored and (versions := server.plugin_elsewhere(name)):
            return "not-in-version", f"is not an option of {this}, but of {versions}", None
        elsewhere = not self._is_mysql and bool(where) and "mariadb" not in where
        if PLUGIN.match(name) and not ignored and not elsewhere:
            return "plugin", "belongs to a plugin or component", None
        if where or ignored or name in server.names.removals:
            kind = "removed" if end or server.had_before(name) else "not-in-version"
            successors = " and ".join(server.successors(name))
            text = f"is not an option of {this}{f', but of {where}' if where else ''}"
            return kind, text, f"this server has {successors}" if successors else None
        near = server.near(name)
        kind, meant = ("misspelled", f"did you mean {near}?") if near else ("unknown-name", None)
        if server.unheard_of(name):
            text = f"is not an option of any server that flushlab knows, but {this} is newer than those"
            self._say(kind, "warning", text, meant)
            return None
        hides = ", and loose_ hides it" if self._loose and near else ""
        return kind, f"is not an option of {this}{hides}", meant


def _without_prefixes(name: str, server: OptionsHere) -> tuple[str, str]:
    prefix, rest = "", name
    known = (server.takes, server.ended, server.plugin, server.plugin_elsewhere, server.ignores)
    while not (any(tells(rest) for tells in known) or server.abbreviated(rest)):
        match = PREFIX.match(rest)
        if match is None:
            return "", name
        prefix, rest = match[1] if match[1] != "loose" else prefix, rest[match.end() :]
    return prefix, rest


def _turned(prefix: str, text: str | None) -> str:
    return "1" if (prefix == "enable") != (text == "0") else "0"


def _instead(successors: Sequence[str], note: str) -> str:
    if not successors:
        return f"remove the line; {note or 'nothing replaces it'}"
    return f"write {' and '.join(successors)}{f': {note}' if note else ''}"
