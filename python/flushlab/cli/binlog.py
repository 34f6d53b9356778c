"""`flushlab binlog check`: strictly checks binlog files. The work is `_core.check_binlogs`.

What the servers' own tools let pass (a torn tail, a wrong length, a log_pos of zero) is found here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from flushlab import _core
from flushlab.cli.consoles import stdout
from flushlab.cli.declare import OptionGroup
from flushlab.cli.output import emit_json, require_writable
from flushlab.errors import BinlogDamaged, BinlogMisplaced, BinlogUnchecked, FlushlabError, StorageError
from flushlab.spec import Option
from flushlab.units import counted

app = OptionGroup("binlog", "Check binary log files for damage.")

SCHEMA = "flushlab.binlog-check/1"
MAGIC_SIZE = 4


@app.add("check")
def check(
    files: Annotated[
        list[Path],
        Option(
            "Binlog files, plain or packed by gzip or zstd, in the order in which they were written.",
            positional=True,
            metavar="FILE…",
        ),
    ],
    crashed: Annotated[
        bool,
        Option("Accept a torn tail in the last file if it is in use, as after a crash."),
    ] = False,
    json: Annotated[
        str | None,
        Option("Write the result as JSON to a file; - is stdout.", metavar="FILE"),
    ] = None,
) -> None:
    """Check every event: place, size, checksum, transaction, GTID, logical clock and rows.

    Files are taken as a series: each must continue where the previous one ended.

    \b
    Example:
      flushlab binlog check /var/lib/mysql/binlog.0*
    """
    require_writable(json)
    reports = _read(files)
    if json is not None:
        emit_json({"schema": SCHEMA, "files": reports}, json)
    if json != "-":
        stdout.print("\n".join(line for report in reports for line in _lines(report)), soft_wrap=True)
    _refuse(reports, crashed)


def _read(files: list[Path]) -> list[dict[str, Any]]:
    # MariaDB 11.4 and later keep a GTID index beside each file, so `binlog.0*` names both.
    logs = [file for file in files if file.suffix != ".idx"] or files
    try:
        documents = _core.check_binlogs([str(file) for file in logs])
    except OSError as error:
        if error.errno is None:
            raise StorageError(
                f"{error.filename} cannot be unpacked: {error.strerror}",
                hint="the packed copy is cut or damaged; copy the file again",
            ) from error
        raise StorageError(
            f"{error.filename or 'a file'} cannot be read: {error.strerror or error}",
            hint="name readable binlog files, not their index",
        ) from error
    reports: list[dict[str, Any]] = msgspec.json.decode(documents)
    return reports


def _lines(report: dict[str, Any]) -> list[str]:
    rows = report["rows"]
    is_relay_log = _is_relay_log(report)
    state = "relay log" if is_relay_log else "in use" if report["in_use"] else "closed"
    about = f" ({report['flavor']} {report['server_version']}, {state})" if report["flavor"] else ""
    size = f"{report['bytes']:,} bytes" + (f" unpacked from {report['packing']}" if report["packing"] else "")
    lines = [
        f"{report['name']}: {report['verdict']}{about}",
        f"  {size}, {report['events']:,} events"
        + (
            ""
            if is_relay_log
            else f", {counted(report['transactions'], 'transaction')}; rows: {rows['written']:,} inserted,"
            f" {rows['updated']:,} updated, {rows['deleted']:,} deleted"
        ),
    ]
    if report["gtids"]:
        end = "its end" if report["whole_until"] == report["bytes"] else report["whole_until"]
        lines.append(f"  GTIDs up to {end}: {report['gtids']}")
    lines += [f"  {limit['message']}" for limit in report["limits"]]
    if report["opaque_events"]:
        lines.append(f"  {report['opaque_events']:,} events are of a kind, or a size, that is not read")
    tail = report["tail"]
    if tail:
        lines.append(f"  whole up to {tail['offset']}: {TAILS[tail['kind']]}; {tail['bytes']:,} bytes follow")
        if report["in_use"]:
            lines.append("  the file is in use: its writer crashed or is still writing")
    lines += [f"  at {one['offset']}: {one['message']} ({one['rule']})" for one in report["problems"]]
    if report["problem_count"] > len(report["problems"]):
        lines.append(f"  and {report['problem_count'] - len(report['problems']):,} more problems")
    return lines


def _is_relay_log(report: dict[str, Any]) -> bool:
    return any(limit["kind"] == "relay-log" for limit in report["limits"])


TAILS = {
    "event": "the file ends inside an event",
    "transaction": "the file ends inside a transaction",
    "zeros": "only zero bytes follow",
}
"""Kinds of tails that are not whole, in words."""

WAYS_OUT = {
    "encrypted": "the server decrypts it: mysqlbinlog --read-from-remote-server --raw writes a copy to check",
    "format": "read it with mysqlbinlog of the version that wrote it",
    "first event": "a crash while the server made the file leaves that, and so does a failed copy;"
    " compare its size with that of the server's file",
    "no binlog": "name binlog files, not their index; unpack copies that neither gzip nor zstd packed",
}
"""Hints for files that cannot be followed, by the limit that ends the check or by what is there."""


def _refuse(reports: list[dict[str, Any]], crashed: bool) -> None:
    accepted = [one for one in reports[-1:] if crashed and one["in_use"]]
    for verdict, error in REFUSALS.items():
        found = [one for one in reports if one["verdict"] == verdict]
        if found and not (verdict == "torn" and found == accepted):
            refusal = error(found[0])
            if len(found) > 1:
                refusal.message += f" (and {len(found) - 1} more files)"
            raise refusal


def _damaged(report: dict[str, Any]) -> FlushlabError:
    problem = _problems(report)[0]
    hint = "nothing of it can be read; take it from a replica or a backup"
    if report["whole_until"] > MAGIC_SIZE:
        hint = f"the file is whole up to {report['whole_until']}; take the rest from a replica or a backup"
    return BinlogDamaged(
        f"{report['name']} is damaged at {problem['offset']}: {problem['message']}", hint=hint
    )


def _problems(report: dict[str, Any], *, of_series: bool = False) -> list[dict[str, Any]]:
    return [one for one in report["problems"] if (one["rule"] == "series") is of_series]


def _unknown(report: dict[str, Any]) -> FlushlabError:
    if problems := _problems(report):
        problem = problems[0]
        return BinlogUnchecked(
            f"{report['name']} cannot be checked: at {problem['offset']}, {problem['message']},"
            f" but {report['flavor']} {report['server_version']} is not a supported version",
            hint=WAYS_OUT["format"],
        )
    limit = next(one for one in report["limits"] if one["kind"] in WAYS_OUT)
    way = limit["kind"]
    if report["tail"] and not report["flavor"]:
        way = "first event"
    elif way == "format" and not report["events"]:
        way = "no binlog"
    reason = limit["message"] if report["bytes"] else "it is empty"
    return BinlogUnchecked(f"{report['name']} cannot be checked: {reason}", hint=WAYS_OUT[way])


def _cut(report: dict[str, Any]) -> FlushlabError:
    tail = report["tail"]
    return BinlogDamaged(
        f"{report['name']} is cut at {tail['offset']}: {TAILS[tail['kind']]}, but it is not in use",
        hint="the end is lost, or the file is a partial copy, as mysqlbinlog --raw makes of a file in use."
        " Copy the file again from the server, a replica or a backup",
    )


def _torn(report: dict[str, Any]) -> FlushlabError:
    if _is_relay_log(report):
        return BinlogDamaged(
            f"{report['name']} is torn at {report['tail']['offset']}: {TAILS[report['tail']['kind']]}",
            hint="without an IN_USE flag, a relay log does not show whether a replica is still writing it."
            " With relay_log_recovery=ON, a restarting replica fetches its relay logs again",
        )
    return BinlogDamaged(
        f"{report['name']} is torn at {report['tail']['offset']}: the writer died or is still writing",
        hint="MySQL cuts it off when it restarts, MariaDB begins a new file; --crashed accepts the last file",
    )


def _misplaced(report: dict[str, Any]) -> FlushlabError:
    problem = _problems(report, of_series=True)[0]
    return BinlogMisplaced(
        f"{report['name']} does not continue the file before it: {problem['message']}",
        hint="name all files of one log in their order, or check each by itself",
    )


REFUSALS: dict[str, Callable[[dict[str, Any]], FlushlabError]] = {
    "damaged": _damaged,
    "unknown": _unknown,
    "cut": _cut,
    "misplaced": _misplaced,
    "torn": _torn,
}
"""Errors by verdict, the worst first."""
