"""`flushlab binlog check`: strictly checks binlog files. The work is `_core.check_binlogs`.

What the servers' own tools let pass (a torn tail, a wrong length, a log_pos of zero) is found here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from flushlab import _core
from flushlab.cli.output import emit_json, require_writable, stdout
from flushlab.errors import BinlogDamaged, StorageError

app = typer.Typer(no_args_is_help=True, help="Check binlog files.")

SCHEMA = "flushlab.binlog-check/1"


@app.callback()
def _group() -> None:
    """Check binlog files."""


@app.command("check", short_help="Check that binlog files are whole, event by event.")
def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Binlog files, in the order in which they were written."),
    ],
    crashed: Annotated[
        bool,
        typer.Option(
            "--crashed", help="Accept a torn tail in the last file if it is in use, as after a crash."
        ),
    ] = False,
    gaps: Annotated[bool, typer.Option("--gaps", help="Accept gaps in GTIDs, as on a replica.")] = False,
    json: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the result as JSON to a file; - is stdout."),
    ] = None,
) -> None:
    """Check every event: place, size, checksum, transaction, GTID, logical clock and rows.

    Files are taken as a series: each must continue where the previous one ended.

    \b
    Example:
      flushlab binlog check /var/lib/mysql/binlog.0*
    """
    require_writable(json)
    reports = _read(files, gaps)
    if json is not None:
        emit_json({"schema": SCHEMA, "files": reports}, json)
    if json != "-":
        stdout.print("\n".join(line for report in reports for line in _lines(report)), soft_wrap=True)
    _refuse(reports, crashed)


def _read(files: list[Path], gaps: bool) -> list[dict[str, Any]]:
    try:
        documents = _core.check_binlogs([str(file) for file in files], gaps)
    except OSError as error:
        raise StorageError(
            f"{error.filename or 'a file'} cannot be read: {error.strerror or error}",
            hint="name readable binlog files, not their index",
        ) from error
    reports: list[dict[str, Any]] = msgspec.json.decode(documents)
    return reports


def _lines(report: dict[str, Any]) -> list[str]:
    rows = report["rows"]
    state = "in use" if report["in_use"] else "closed"
    about = f"{report['flavor']} {report['server_version']}, {state}" if report["flavor"] else "no binlog"
    lines = [
        f"{report['name']}: {report['verdict']} ({about})",
        f"  {report['bytes']:,} bytes, {report['events']:,} events, {report['transactions']:,} transactions;"
        f" rows: {rows['written']:,} inserted, {rows['updated']:,} updated, {rows['deleted']:,} deleted",
    ]
    if report["gtids"]:
        lines.append(f"  GTIDs up to its end: {report['gtids']}")
    if report["opaque_events"]:
        lines.append(f"  {report['opaque_events']:,} events are compressed, tagged or unknown: not read")
    tail = report["tail"]
    if tail:
        lines.append(
            f"  torn at {tail['offset']}: {TAILS[tail['kind']]}; {tail['bytes']:,} bytes are cut off"
        )
        if report["in_use"]:
            lines.append("  the file is in use: its writer crashed or is still writing")
    lines += [f"  at {one['offset']}: {one['message']} ({one['rule']})" for one in report["problems"]]
    if report["problem_count"] > len(report["problems"]):
        lines.append(f"  and {report['problem_count'] - len(report['problems']):,} more problems")
    return lines


TAILS = {
    "event": "the file ends inside an event",
    "transaction": "the file ends inside a transaction",
    "zeros": "only zero bytes follow",
}
"""Kinds of torn tails in words."""


def _refuse(reports: list[dict[str, Any]], crashed: bool) -> None:
    damaged = [report for report in reports if report["verdict"] == "damaged"]
    if damaged:
        first = damaged[0]
        problem = first["problems"][0]
        raise BinlogDamaged(
            f"{first['name']} is damaged at {problem['offset']}: {problem['message']}"
            + (f" (and {len(damaged) - 1} more files)" if len(damaged) > 1 else ""),
            hint=f"the file is whole up to {first['whole_until']}; take the rest from a replica or a backup"
            if first["whole_until"]
            else "nothing of it can be read; take it from a replica or a backup",
        )
    torn = [report for report in reports if report["verdict"] == "torn"]
    if torn and not (crashed and torn == reports[-1:]):
        first = torn[0]
        raise BinlogDamaged(
            f"{first['name']} is torn at {first['tail']['offset']}: the writer died or is still writing",
            hint="a restarting server cuts it off there; --crashed accepts this in the last file",
        )
