"""Makes docs/reference/settings.md from the catalog.

.venv/bin/python scripts/settings_reference.py    # writes the file; tests hold it to be up to date
"""

from __future__ import annotations

from pathlib import Path

from flushlab.settings.catalog import SettingEntry, SettingHere, load_catalog, version_of
from flushlab.settings.option_names import last_before, load_option_names

FILE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"

GROUPS = {
    "commit": "The commit path",
    "redo": "Redo capacity",
    "binlog": "The binary log",
    "flushing": "Flushing, purge and background work",
    "pool": "The buffer pool",
    "doublewrite": "Whole and checked pages",
    "ddl": "DDL and bulk work",
    "cluster": "Galera clusters",
    "service": "The service itself",
}

HEAD = """# Settings of the write path

Made from `python/flushlab/settings/catalog/` by `scripts/settings_reference.py`; do not edit it here.
`flushlab settings NAME` prints one of them, `flushlab settings --server S` what a server has, and
`flushlab settings --check my.cnf --server S` what an option file means. Each table says for which servers
the facts hold, *until* excluded. Fixed settings define the service: `tune` inherits and never changes
them. Settings marked *long windows* are credited only in windows that outlast the redo log; those marked
*binary log only* have no effect without one; those marked *clusters only* act on nodes of a Galera cluster.
"""


def render() -> str:
    """The whole page."""
    catalog = load_catalog()
    parts = [HEAD]
    for group, title in GROUPS.items():
        entries = [entry for entry in catalog.settings() if entry.group == group]
        parts.append(f"## {title}\n")
        parts += [_section(entry) for entry in entries]
    missing = {entry.group for entry in catalog.settings()} - GROUPS.keys()
    assert not missing, f"no title for the groups {missing}"
    return "\n".join(parts)


def _section(entry: SettingEntry) -> str:
    marks = [
        mark
        for holds, mark in (
            (entry.fixed, "fixed"),
            (entry.binlog, "binary log only"),
            (entry.cluster, "clusters only"),
            (entry.layout, "fixed in the data directory"),
            (entry.needs_steady_state, "long windows"),
        )
        if holds
    ]
    lines = [f"### {entry.name}\n", entry.effect + (f" *({', '.join(marks)})*" if marks else "")]
    if entry.durability:
        lines.append(f"\nDurability rules: {', '.join(entry.durability)}.")
    if entry.on_cluster is not None:
        lines.append(f"\nGalera needs `{entry.on_cluster}`.")
    if entry.successor:
        lines.append(f"\nWhere it does not exist, see: {', '.join(f'`{name}`' for name in entry.successor)}.")
    lines += ["\n| server | values | default | change | notes |", "|---|---|---|---|---|"]
    catalog = load_catalog()
    for one in entry.version:
        here = catalog.here(entry.name, one.flavor, version_of(one.since or "0"))
        assert here is not None
        since = f" since {one.since}" if one.since else ""
        until = f" until {one.until}" if one.until else ""
        cells = (
            f"{one.flavor}{since}{until}",
            _values(here),
            _default(here),
            _change(here),
            _notes(here, one.until),
        )
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    if entry.candidate:
        lines.append("\n`tune` may try:\n")
        for candidate in entry.candidate:
            value = (
                f"{candidate.memory_share:.0%} of memory"
                if candidate.value is None
                else f"`{candidate.value}`"
            )
            together = "".join(f", `{name} = {other}`" for name, other in candidate.settings_with.items())
            lines.append(f"- {value}{together}: {candidate.why}")
    lines.append("\nSources: " + ", ".join(f"<{source}>" for source in entry.source) + "\n")
    return "\n".join(lines)


def _values(here: SettingHere) -> str:
    unit = f" {here.unit}" if here.unit else ""
    return here.describe_range() + unit


def _default(here: SettingHere) -> str:
    default = here.render(here.default)
    return f"`{default}`" if default else "none"


def _change(here: SettingHere) -> str:
    if here.partly_dynamic:
        return "partly dynamic"
    return "dynamic" if here.dynamic else "restart"


def _notes(here: SettingHere, until: str) -> str:
    notes = [
        f"default varies: {here.computed}" if here.computed else "",
        f"in steps of {here.multiple}" if here.multiple > 1 else "",
        f"`{here.part}` in `{here.variable}`" if here.part else "",
        f"variable `{here.variable}`" if here.variable != here.name and not here.part else "",
        load_option_names().deprecation(here.name, here.flavor, last_before(until)),
    ]
    return "; ".join(note for note in notes if note)


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(render(), encoding="utf-8")
