"""`flushlab settings`: the catalog, one setting, one server's settings, or a check of an option file, of
variables in a file or of a running server.

Sits on `settings`; only `--server` without `--check`, and `--start`, start a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from flushlab.cli import options
from flushlab.cli.output import emit_json, require_writable, say
from flushlab.cli.plain import print_text
from flushlab.errors import NEGATIVE, UsageError
from flushlab.settings.catalog import (
    Catalog,
    SettingEntry,
    SettingHere,
    load_catalog,
    setting_entry,
    version_of,
)
from flushlab.settings.option_names import last_before, load_option_names
from flushlab.spec.build import build, names_given
from flushlab.spec.commands import SettingsSpec
from flushlab.spec.option import fields
from flushlab.spec.parts import DEFAULT_SERVER

if TYPE_CHECKING:
    from flushlab.server.settings_check import Judged

SPEC = SettingsSpec


def settings(given: Mapping[str, Any], json: options.Json = None) -> None:
    """List settings, explain one, or check an option file or a server.

    \b
    Examples:
      flushlab settings --check my.cnf --server mysql@8.0 --floor second
      flushlab settings -h db1 -u me -p
    """
    require_writable(json)
    spec = build(SettingsSpec, given)
    if named := spec.remote.named_by:
        beside = ["name", "check", "server", "basedir", "static", "start"]
        if spec.remote.dsn is not None:
            beside.append("defaults_group_suffix")
        known, typed = fields(SettingsSpec), names_given(spec)
        for other in (one for one in beside if one in typed):
            raise UsageError(
                f"{spec.name if other == 'name' else known[other].flag} cannot be combined with {named}, a"
                " running server",
                hint="remove one of them",
            )
        _check_server(spec, json)
        return
    if spec.check is not None:
        if spec.name is not None:
            raise UsageError(
                f"--check cannot be combined with the setting {spec.name}", hint="remove one of them"
            )
        if spec.start and spec.static:
            raise UsageError("--start asks the build, --static does not", hint="remove one of them")
        from flushlab.server.settings_check import judge_file

        judged = judge_file(Path(spec.check), spec, progress=say)
        _show_check(judged, str(Path(spec.check)), json, fail_on_error=spec.fail_on_error)
        return
    if spec.static or spec.fail_on_error or spec.start or spec.host_memory or spec.defaults_group_suffix:
        raise UsageError(
            "--static, --fail-on-error, --start, --host-memory and --defaults-group-suffix need --check",
            hint="add --check FILE; all but --static and --start also go with a server of your own: -h HOST",
        )
    if spec.server or spec.basedir or spec.floor:
        _show_server(spec, json)
        return
    name = spec.name
    entries = (setting_entry(name),) if name else load_catalog().settings()
    if json is not None:
        emit_json(
            {"schema": "flushlab.settings/1", "settings": [_document(entry) for entry in entries]}, json
        )
    elif name:
        print_text(_explanation(entries[0]))
    else:
        width = max(len(entry.name) for entry in entries)
        lines = [f"{entry.name:<{width}}  {entry.effect}" for entry in entries]
        print_text("\n".join(lines))


def _check_server(spec: SettingsSpec, json: str | None) -> None:
    from flushlab.server.remote.login import addresses_of
    from flushlab.server.settings_check import judge_server

    first, *others = addresses_of(
        structs.replace(spec.remote, defaults_group_suffix=spec.defaults_group_suffix)
    )
    if others:
        raise UsageError(f"{spec.remote.named_by} names several servers", hint="check one node at a time")
    judged = judge_server(first, spec)
    _show_check(judged, first.name, json, fail_on_error=spec.fail_on_error)


def _show_check(judged: Judged, subject: str, json: str | None, *, fail_on_error: bool) -> None:
    from flushlab.cli import settings_server

    if json is not None:
        emit_json(settings_server.document(judged, subject), json)
    if json != "-":
        settings_server.show(judged, subject)
    if fail_on_error and judged.errors:
        raise SystemExit(NEGATIVE)


def _show_server(spec: SettingsSpec, json: str | None) -> None:
    from flushlab.cli import settings_server

    found = settings_server.survey(
        spec.server or DEFAULT_SERVER, basedir=spec.basedir, floor=spec.floor, only=spec.name
    )
    if json is not None:
        emit_json(settings_server.document_here(found), json)
    if json != "-":
        settings_server.show_here(found)


def _versions(entry: SettingEntry) -> list[tuple[str, SettingHere, str]]:
    catalog, names = Catalog([entry]), load_option_names()
    found = []
    for one in entry.version:
        here = catalog.here(entry.name, one.flavor, version_of(one.since or "0"))
        if here is not None:
            where = f"{one.flavor}{f' since {one.since}' if one.since else ''}"
            where += f" before {one.until}" if one.until else ""
            found.append((where, here, names.deprecation(entry.name, one.flavor, last_before(one.until))))
    return found


def _explanation(entry: SettingEntry) -> str:
    lines = [entry.name, f"  {entry.effect}"]
    if entry.fixed:
        lines.append("  A fixed setting: tune takes its value from the base and never changes it.")
    if entry.binlog:
        lines.append("  It has no effect without a binary log.")
    if entry.layout:
        lines.append("  It is fixed in the data directory: another value needs a new one.")
    if entry.needs_steady_state:
        lines.append("  Its effect shows only in windows that outlast the redo log.")
    if entry.durability:
        lines.append(f"  Durability rules: {', '.join(entry.durability)}")
    for where, here, deprecation in _versions(entry):
        how = "dynamic" if here.dynamic else "needs a restart"
        if here.partly_dynamic:
            how = "some changes need a restart"
        unit = f" {here.unit}" if here.unit else ""
        default = here.render(here.default) or "none"
        lines.append(f"  {where}: {here.describe_range()}{unit}; default {default}; {how}")
        notes = [
            (here.computed, f"default varies: {here.computed}"),
            (here.multiple > 1, f"rounded down to a multiple of {here.multiple}"),
            (here.variable != entry.name, f"shown as the variable {here.variable}"),
            (deprecation, deprecation),
        ]
        lines += [f"    {text}" for holds, text in notes if holds]
    if entry.successor:
        lines.append(f"  Where it does not exist, see: {', '.join(entry.successor)}")
    if entry.candidate:
        lines.append("  Candidates:")
        lines += [
            f"    {one.value if one.value is not None else f'{one.memory_share:.0%} of memory'}: {one.why}"
            for one in entry.candidate
        ]
    return "\n".join([*lines, "  Sources:", *(f"    {source}" for source in entry.source)])


def _document(entry: SettingEntry) -> dict[str, object]:
    names = ("name", "group", "effect", "fixed", "layout", "needs_steady_state", "durability", "successor")
    of_version = ("type", "unit", "default", "minimum", "maximum", "values", "dynamic")
    return {
        **{name: getattr(entry, name) for name in (*names, "source")},
        "versions": [
            {
                "where": where,
                **{name: getattr(here, name) for name in of_version},
                "deprecated": deprecation.removeprefix("deprecated "),
            }
            for where, here, deprecation in _versions(entry)
        ],
    }
