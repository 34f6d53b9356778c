"""Stranger: what becomes of an option that the server does not take, in words. Pure; sits in `settings`.

A name that another version or flavor has is never taken for a misspelled one.
"""

from __future__ import annotations

from collections.abc import Sequence

from flushlab.settings.admission import PLUGIN
from flushlab.settings.finding import Finding, Severity
from flushlab.settings.optionfile import Line
from flushlab.settings.options_here import OptionsHere
from flushlab.settings.products import product_of


def stranger(name: str, line: Line, loose: bool, server: OptionsHere, findings: list[Finding]) -> str | None:
    """Says why the server does not take a name; returns the one that it takes it for, if there is one."""
    ignored = server.ignores(name)
    fatal = not (loose or ignored)
    ends = "the server does not start" if fatal else "the server continues without it"
    ends = "the server accepts and ignores it" if ignored else ends
    severity: Severity = "error" if fatal else "warning"

    def say(kind: str, text: str, hint: str | None = None) -> None:
        place = (line.path, line.line)
        findings.append(Finding.at(place, kind, severity, name, f"{text}: {ends}", hint, fatal))

    plugin = server.plugin(name)
    if plugin == "built-in":
        return name
    if plugin == "loadable":
        text = "loads a plugin: the server accepts it only beside plugin_load_add, or once it is installed"
        way_out = None if loose else "prefix it with loose_ to let the server start without the plugin"
        findings.append(Finding.at((line.path, line.line), "plugin", "note", name, text, way_out))
        return name
    meant = server.abbreviated(name) if not server.ended(name) and not ignored else ()
    if len(meant) > 1:
        text = f"is the beginning of {meant[0]} and {meant[1]}: the server does not start"
        findings.append(Finding.at((line.path, line.line), "misspelled", "error", name, text, None, True))
        return None
    if meant:
        full = meant[0]
        text = f"is an abbreviation of {full}"
        place = (line.path, line.line)
        findings.append(Finding.at(place, "abbreviated", "warning", name, text, f"write {full}"))
        return full
    this = server.told_as
    end = server.ended(name)
    if end and not ignored:
        say(
            "removed",
            f"was removed in {server.identity.flavor} {end}",
            "remove the line"
            if server.plugin_elsewhere(name)
            else _instead(server.successors(name), server.names.note(name)),
        )
        return None
    product = "" if ignored or server.had(name) else product_of(name)
    if product:
        keep = f"if the file is for {product}, keep the line: the rest of this check holds there, too"
        where = server.names.where(name)
        owners = f"{product} and {where}" if where else product
        say("product", f"is an option of {owners}, not of {this}", keep)
        return None
    if name in server.catalog:
        entry = server.catalog.setting(name)
        if entry.name != name or server.here(name) is not None:
            instead = f"write {entry.name}" if entry.name != name else "set it with SET GLOBAL"
            say("unknown-name", "is a variable, not an option", instead)
            return None
        others = server.catalog.successor(name, server.identity.flavor, server.identity.version)
        has = f"{this} has {', '.join(others)}" if others else None
        kind = "removed" if end else "not-in-version"
        say(kind, f"is not an option of {this}, only of {server.catalog.where(name)}", has)
        return None
    if not ignored and (versions := server.plugin_elsewhere(name)):
        say("not-in-version", f"is not an option of {this}, but of {versions}")
        return None
    where = server.names.where(name)
    elsewhere = server.identity.flavor == "mariadb" and bool(where) and "mariadb" not in where
    if PLUGIN.match(name) and not ignored and not elsewhere:
        text = "belongs to a plugin or component: the server accepts it only if that is installed"
        way_out = None if loose else "prefix it with loose_ to let the server start without the plugin"
        findings.append(Finding.at((line.path, line.line), "plugin", "note", name, text, way_out))
        return name
    if where or ignored or name in server.names.ended():
        but = f", but of {where}" if where else ""
        kind = "removed" if end or server.had_before(name) else "not-in-version"
        say(kind, f"is not an option of {this}{but}", _in_its_place(server.successors(name)))
        return None
    near = server.near(name) or server.beginning(name)
    kind, hint = ("misspelled", f"did you mean {near}?") if near else ("unknown-name", None)
    if server.unheard_of(name):
        text = f"is not an option of any server that flushlab knows, but {this} is newer than those"
        findings.append(Finding.at((line.path, line.line), kind, "warning", name, text, hint))
        return None
    say(kind, f"is not an option of {this}{', and loose_ hides it' if loose and near else ''}", hint)
    return None


def _instead(successors: Sequence[str], note: str) -> str:
    if not successors:
        return f"remove the line; {note or 'nothing replaces it'}"
    return f"write {' and '.join(successors)}{f': {note}' if note else ''}"


def _in_its_place(successors: Sequence[str]) -> str | None:
    return f"this server has {' and '.join(successors)}" if successors else None
