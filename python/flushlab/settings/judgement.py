"""Judgement: what one server makes of one line of an option file. Pure; sits in `settings`, below `check`.

A name that another version or flavor has is never taken for a misspelled one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flushlab.record import Value
from flushlab.settings import reading
from flushlab.settings.admission import PLUGIN
from flushlab.settings.catalog import canonical
from flushlab.settings.gate import PREFIX
from flushlab.settings.optionfile import Finding, Line, Severity
from flushlab.settings.options_here import OptionsHere
from flushlab.settings.plugins import product_of
from flushlab.settings.reading import Reading

_NUMBERS = ("integer", "size", "float", "unsigned", "signed", "real")
_ENDS_WITH_0 = (
    *("innodb_buffer_pool_size", "innodb_log_buffer_size", "innodb_page_size", "innodb_purge_threads"),
    *("table_cache", "table_open_cache", "table_open_cache_instances"),
)
"""Numbers that MariaDB 10.11.19 and 11.8.9 do not take as 0 behind `loose_`."""
_FLAGS = {"optimizer_trace"}
"""Texts of `name=on,name=off`, which servers read at once."""
_STOPS, _GOES_ON = "the server does not start", "the server continues without it"


class Given(NamedTuple):
    """One option in a group that the server reads: its name resolved, its value read."""

    name: str
    line: Line
    value: Value | None = None
    text: str | None = None


class Judgement:
    """One line that gives an option, as one server takes it.

    Args:
        line: of a group that the server reads.
        server: its options.

    Attributes:
        given: the option, if the server takes it.
        findings: what is wrong with the line, or worth knowing.
    """

    def __init__(self, line: Line, server: OptionsHere) -> None:
        self._line, self._server = line, server
        self._is_mysql = server.identity.flavor == "mysql"
        spelled = canonical(line.name)
        self._loose, self._name = spelled.startswith("loose_"), spelled.removeprefix("loose_")
        self.findings: list[Finding] = []
        self.given = self._judge()
        if self.given is not None:
            self._foretell_end(self.given)

    def _say(
        self, kind: str, severity: Severity, text: str, hint: str | None = None, fatal: bool = False
    ) -> None:
        self.findings.append(Finding(kind, severity, self._name, *self._line.at, text, hint, fatal))

    def _judge(self) -> Given | None:
        line, server = self._line, self._server
        if self._is_mysql and line.name != (lower := line.name.lower()):
            says = f"contains capital letters, but MySQL's option names are lowercase: {_STOPS}"
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
            return Given(name, line, text=given)
        later = as_text or (shape is not None and shape.kind == "bare")
        if self._loose and read.fatal and not self._is_mysql and text is not None and not later:
            return self._pass_over(read)
        self._misread(read)
        if here is None:
            return Given(name, line, text=given)
        return Given(name, line, value=read.value)

    def _foretell_end(self, given: Given) -> None:
        """The server takes the option and warns that a later version will not."""
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
        """`maximum_`: the most that a session may choose, of options that have such a limit."""
        name, server, hint = self._name, self._server, f"write {self._name}"
        limits, here, shape = server.names.limits(name, *server.key), server.here(name), server.shape(name)
        fatal = self._is_mysql or not self._loose
        ends = _STOPS if fatal else _GOES_ON
        if limits is False:
            self._say("prefix", "error", f"has no maximum: {ends}", hint, fatal)
            return
        read = Reading(value=self._line.text)
        if here is not None:
            read = reading.read(here, self._line.text)
        elif shape is not None:
            read = reading.read_shape(name, shape, self._line.text, *server.key)
        if read.fatal:
            self._say(read.kind, "error", f"{read.text}: {ends}", read.hint, fatal)
            return
        caveat = "; a server that knows no such limit does not start" if limits is None else ""
        self._say("prefix", "warning", f"limits {name} for sessions{caveat}", hint)

    def _pass_over(self, read: Reading) -> Given | None:
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
            return Given(name, self._line, text=text)
        return Given(name, self._line, value=reading.read(here, text).value)

    def _misread(self, read: Reading) -> None:
        """What is wrong with a value; of a quote that is not closed, that."""
        quote, ends = (self._line.text or "")[:1], f": {_STOPS}" * read.fatal
        if quote in ("'", '"'):
            says = f"begins with a {quote} that nothing closes, so it is part of the value{ends}"
            self._say("syntax", "error" if read.fatal else "warning", says, None, read.fatal)
        elif read.kind:
            severity: Severity = "warning" if read.kind in ("rounded", "prefix") else "error"
            self._say(read.kind, severity, f"{read.text}{ends}", read.hint, read.fatal)

    def _stranger(self) -> str | None:
        """Says why the server does not take the name; returns the one that it takes it for, if any."""
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
        """Kind, text and hint; None if that is said already."""
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
    """The last prefix of an option and the option; no prefix if the server takes the name as it is."""
    prefix, rest = "", name
    known = (server.takes, server.ended, server.plugin, server.plugin_elsewhere, server.ignores)
    while not (any(tells(rest) for tells in known) or server.abbreviated(rest)):
        match = PREFIX.match(rest)
        if match is None:
            return "", name
        prefix, rest = match[1] if match[1] != "loose" else prefix, rest[match.end() :]
    return prefix, rest


def _turned(prefix: str, text: str | None) -> str:
    """The value that a prefix puts in the place of the one given: the opposite of 0, or its own."""
    return "1" if (prefix == "enable") != (text == "0") else "0"


def _instead(successors: Sequence[str], note: str) -> str:
    if not successors:
        return f"remove the line; {note or 'nothing replaces it'}"
    return f"write {' and '.join(successors)}{f': {note}' if note else ''}"
