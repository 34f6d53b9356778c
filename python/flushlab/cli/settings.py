"""`flushlab settings`: lists the catalog, or explains one setting. Sits on `settings`; starts no server."""

from __future__ import annotations

from typing import Annotated

import typer

from flushlab.cli.output import emit_json, stdout
from flushlab.settings.catalog import SettingEntry, SettingHere, load_catalog, version_of


def settings(
    name: Annotated[str | None, typer.Argument(help="A setting; without it, all are listed.")] = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write JSON; - is standard output.")
    ] = None,
) -> None:
    """Lists the settings that flushlab knows, or explains one.

    Example: flushlab settings innodb_flush_log_at_trx_commit
    """
    catalog = load_catalog()
    entries = (catalog.setting(name),) if name else catalog.settings()
    if json is not None:
        emit_json(
            {"schema": "flushlab.settings/1", "settings": [_document(entry) for entry in entries]}, json
        )
    elif name:
        stdout.print(_explanation(entries[0]), markup=False)
    else:
        width = max(len(entry.name) for entry in entries)
        lines = [f"{entry.name:<{width}}  {entry.effect}" for entry in entries]
        stdout.print("\n".join(lines), markup=False)


def _versions(entry: SettingEntry) -> list[tuple[str, SettingHere]]:
    catalog = load_catalog()
    found = []
    for one in entry.version:
        here = catalog.here(entry.name, one.flavor, version_of(one.since or "0"))
        if here is not None:
            where = f"{one.flavor}{f' since {one.since}' if one.since else ''}"
            found.append((where + (f" before {one.until}" if one.until else ""), here))
    return found


def _explanation(entry: SettingEntry) -> str:
    lines = [entry.name, f"  {entry.effect}"]
    if entry.contract:
        lines.append("  Part of the service's contract: tune inherits it and never changes it.")
    if entry.needs_steady_state:
        lines.append("  Its effect counts only in windows that outlast the redo log.")
    if entry.durability:
        lines.append(f"  Durability rules: {', '.join(entry.durability)}")
    for where, here in _versions(entry):
        how = "dynamic" if here.dynamic else "needs a restart"
        lines.append(
            f"  {where}: {here.describe_range()}; default {here.render(here.default) or 'none'}; {how}"
        )
        if here.computed:
            lines.append(f"    default depends: {here.computed}")
    if entry.candidate:
        lines.append("  Candidates:")
        lines += [
            f"    {one.value if one.value is not None else f'{one.memory_share:.0%} of memory'}: {one.why}"
            for one in entry.candidate
        ]
    return "\n".join([*lines, "  Sources:", *(f"    {source}" for source in entry.source)])


def _document(entry: SettingEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "group": entry.group,
        "effect": entry.effect,
        "contract": entry.contract,
        "layout": entry.layout,
        "needs_steady_state": entry.needs_steady_state,
        "durability": entry.durability,
        "source": entry.source,
        "versions": [
            {
                "where": where,
                "type": here.type,
                "unit": here.unit,
                "default": here.default,
                "minimum": here.minimum,
                "maximum": here.maximum,
                "values": here.values,
                "dynamic": here.dynamic,
            }
            for where, here in _versions(entry)
        ],
    }
