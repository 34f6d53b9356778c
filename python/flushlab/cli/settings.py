"""`flushlab settings`: the catalog, one setting, one server's settings, or a check of an option file, of
variables in a file or of a running server.

Sits on `settings`; only `--server` without `--check`, and `--start`, start a server.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flushlab.cli import options
from flushlab.cli.output import emit_json, require_writable, say, stdout
from flushlab.errors import UsageError
from flushlab.settings.catalog import SettingEntry, SettingHere, load_catalog, version_of
from flushlab.settings.floor import Floor
from flushlab.spec import Option
from flushlab.spec.parts import RemoteAccess

if TYPE_CHECKING:
    from flushlab.campaign.option_check import Judged

STRICT_EXIT_CODE = 4


def settings(
    name: Annotated[str | None, Option("A setting to explain; default: list all.", positional=True)] = None,
    server: Annotated[
        str | None,
        Option("Show this server's values (a build or sandbox:NAME), or check against it."),
    ] = None,
    floor: Annotated[Floor | None, Option("Floor for values to try, or for the checked file.")] = None,
    check: Annotated[
        Path | None,
        Option("Check an option file or SHOW VARIABLES' output.", metavar="FILE"),
    ] = None,
    dsn: options.Dsn = None,
    defaults_file: options.DefaultsFile = None,
    static: Annotated[
        bool, Option("Check against the catalog only; do not run the server's binary.")
    ] = False,
    strict: Annotated[bool, Option(f"Exit with {STRICT_EXIT_CODE} if the check finds an error.")] = False,
    start: Annotated[
        bool,
        Option("Also start the real server with the file, on empty data."),
    ] = False,
    memory: Annotated[
        str | None,
        Option("Memory of the machine that the checked file is for, such as 64G."),
    ] = None,
    defaults_group_suffix: Annotated[
        str | None,
        Option(
            "Check the file as this instance reads it: @NAME for mysqld@NAME, N for [mysqldN].",
            metavar="SUFFIX",
        ),
    ] = None,
    basedir: options.BaseDir = None,
    json: Annotated[
        str | None,
        Option("Write the result as JSON to a file; - is stdout.", metavar="FILE"),
    ] = None,
) -> None:
    """List settings, explain one, or check an option file or a server.

    \b
    Examples:
      flushlab settings --check my.cnf --server mysql@8.0 --floor second
      flushlab settings --defaults-file ~/.my.cnf
    """
    require_writable(json)
    if dsn is not None or defaults_file is not None:
        named = "--dsn" if dsn is not None else "--defaults-file"
        beside = (
            (name or "", name),
            ("--check", check),
            ("--server", server),
            ("--basedir", basedir),
            ("--static", static),
            ("--start", start),
            ("--defaults-group-suffix", defaults_group_suffix),
        )
        for other in (flag for flag, given in beside if given):
            raise UsageError(
                f"{other} cannot be combined with {named}: a running server is checked as it is",
                hint="remove one of them",
            )
        _check_server(dsn, defaults_file, floor, json, strict=strict, memory=memory)
        return
    if check is not None:
        if name is not None:
            raise UsageError(f"--check cannot be combined with the setting {name}", hint="remove one of them")
        if start and static:
            raise UsageError("--start asks the build, --static does not", hint="remove one of them")
        from flushlab.campaign.option_check import CheckRequest
        from flushlab.campaign.server_check import judge_file

        request = CheckRequest(
            server=server,
            basedir=basedir,
            floor=floor,
            static=static,
            memory=memory,
            start=start,
            suffix=defaults_group_suffix or "",
        )
        _tell(judge_file(check, request, progress=say), str(check), json, strict=strict)
        return
    if static or strict or start or memory or defaults_group_suffix:
        raise UsageError(
            "--static, --strict, --start, --memory and --defaults-group-suffix need --check",
            hint="add --check FILE",
        )
    if server is not None or basedir is not None or floor is not None:
        _here(name, server or "mariadb", basedir, floor, json)
        return
    catalog = load_catalog()
    entries = (catalog.setting(name),) if name else catalog.settings()
    if json is not None:
        emit_json(
            {"schema": "flushlab.settings/1", "settings": [_document(entry) for entry in entries]}, json
        )
    elif name:
        stdout.print(_explanation(entries[0]))
    else:
        width = max(len(entry.name) for entry in entries)
        lines = [f"{entry.name:<{width}}  {entry.effect}" for entry in entries]
        stdout.print("\n".join(lines))


def _check_server(
    dsn: str | None,
    defaults_file: Path | None,
    floor: Floor | None,
    json: str | None,
    *,
    strict: bool,
    memory: str | None,
) -> None:
    from flushlab.campaign.pool.remote import addresses_of
    from flushlab.campaign.server_check import judge_server

    access = RemoteAccess(dsn=dsn, defaults_file=str(defaults_file) if defaults_file else None)
    first, *others = addresses_of(access)
    if others:
        raise UsageError("--dsn names several servers", hint="check one node at a time")
    judged = judge_server(first, floor=floor, memory=memory)
    _tell(judged, first.name, json, strict=strict)


def _tell(judged: Judged, subject: str, json: str | None, *, strict: bool) -> None:
    from flushlab.cli import option_check

    if json is not None:
        emit_json(option_check.document(judged, subject), json)
    if json != "-":
        option_check.show(judged, subject)
    if strict and judged.errors:
        raise SystemExit(STRICT_EXIT_CODE)


def _here(name: str | None, server: str, basedir: Path | None, floor: Floor | None, json: str | None) -> None:
    from flushlab.cli import settings_here

    found = settings_here.survey(server, basedir=basedir, floor=floor, only=name)
    if json is not None:
        emit_json(settings_here.document(found), json)
    if json != "-":
        settings_here.show(found)


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
    if entry.binlog:
        lines.append("  It has no effect without a binary log.")
    if entry.layout:
        lines.append("  It is fixed in the data directory: another value needs a new one.")
    if entry.needs_steady_state:
        lines.append("  Its effect shows only in windows that outlast the redo log.")
    if entry.durability:
        lines.append(f"  Durability rules: {', '.join(entry.durability)}")
    for where, here in _versions(entry):
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
            (here.deprecated, f"deprecated {here.deprecated}"),
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
    return {
        "name": entry.name,
        "group": entry.group,
        "effect": entry.effect,
        "contract": entry.contract,
        "layout": entry.layout,
        "needs_steady_state": entry.needs_steady_state,
        "durability": entry.durability,
        "successor": entry.successor,
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
                "deprecated": here.deprecated,
            }
            for where, here in _versions(entry)
        ],
    }
