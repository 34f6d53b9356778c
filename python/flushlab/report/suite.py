"""Suite report: a run of `flushlab test` as a document and as a few lines for people, and its comparison."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from flushlab.record import Ratio
from flushlab.suite.request import SuiteRequest
from flushlab.suite.session import SuiteResult

if TYPE_CHECKING:
    from flushlab.suite.comparison import Compared, Side
from flushlab.units import counted, format_seconds, format_size

SCHEMA = "flushlab.test/1"

_WORTH_A_HINT_S = 2.0


def document(result: SuiteResult, request: SuiteRequest) -> dict[str, Any]:
    """The run as `flushlab.test/1`; docs/reference/test-json.md tells what stands in it."""
    return {
        "schema": SCHEMA,
        "exit_code": result.exit_code,
        "seconds": {name: round(value, 4) for name, value in result.seconds.items()},
        "template": result.template,
        "server": {
            "name": result.server.name,
            "version": result.server.version_text,
            "build_id": result.server.build_id,
        }
        if result.server
        else None,
        "settings": dict(result.settings),
        "in_memory": result.in_memory,
        "workers": result.workers,
        "resets": len(result.resets_s),
        "reset_p50_s": round(statistics.median(result.resets_s), 4) if result.resets_s else None,
        "recreated": {"objects": result.recreated.count, "seconds": round(result.recreated.seconds, 3)}
        if result.recreated
        else None,
        "scaled": [msgspec.structs.asdict(one) for one in request.scaled],
        "notes": [*request.base_notes, *result.notes],
        "died": result.death or None,
        "io_by_file": [],
        "statements_by_kind": [],
        "ratio": None,
    }


def summary(result: SuiteResult, request: SuiteRequest) -> list[str]:
    """What stands on stderr behind the suite's output."""
    lines = [f"flushlab: {note}" for note in result.notes]
    if result.death:
        lines += [f"flushlab: {result.death}"]
    if result.server is None:
        return lines
    seconds = result.seconds
    parts = [f"ready {format_seconds(seconds['ready'])}"]
    if seconds["prepare"]:
        parts.append(f"prepare {format_seconds(seconds['prepare'])}")
    parts += [
        f"command {format_seconds(seconds['command'])}",
        f"teardown {format_seconds(seconds['teardown'])}",
    ]
    where = "in memory" if result.in_memory else "on disk"
    template = "nothing prepared" if result.template == "none" else f"template {result.template}"
    lines.append(f"flushlab: {result.server.name} {where}, {template}: {', '.join(parts)}")
    if resets := result.resets_s:
        median_ms = 1000 * statistics.median(resets)
        lines.append(f"flushlab: {counted(len(resets), 'reset')}, {median_ms:,.0f} ms at the median")
    lines += _hints(result, request)
    return lines


def _hints(result: SuiteResult, request: SuiteRequest) -> list[str]:
    again = result.recreated
    if again is not None:
        way_out = "; keep the template by skipping clean" if request.prepare else ""
        said = f"the suite dropped and recreated {again.count} objects: {format_seconds(again.seconds)}"
        return [f"flushlab: {said}{way_out}"]
    if result.created and not request.prepare:
        return [
            f"hint: the suite created {result.created.count} objects in about"
            f" {format_seconds(result.created.seconds)}; with --prepare 'COMMAND' --inputs 'FILES',"
            " a template saves that in later runs"
        ]
    if result.template == "hit" and result.saved_seconds >= _WORTH_A_HINT_S:
        return [f"flushlab: the template saved {format_seconds(result.saved_seconds)} of preparing"]
    return []


def compared_document(compared: Compared, request: SuiteRequest) -> dict[str, Any]:
    """A comparison as `flushlab.test/1`: the last fast run, what stock told, both sides and the ratios."""
    last = compared.stock[-1]
    return {
        **document(compared.result, request),
        "io_by_file": [row for part, told in last.told.items() for row in _rows(part, told.io_by_file)],
        "statements_by_kind": [
            row for part, told in last.told.items() for row in _rows(part, told.statements_by_kind)
        ],
        "stages": [row for part, told in last.told.items() for row in _rows(part, told.stages)],
        "ratio": _ratio(compared.ratio),
        "database_ratio": _ratio(compared.database_ratio),
        "prepared_s": round(compared.prepared_s, 4),
        "blocks": [
            {"stock": _side(stock), "fast": _side(fast)}
            for stock, fast in zip(compared.stock, compared.fast, strict=True)
        ],
    }


def comparison(compared: Compared) -> list[str]:
    """The table: parts of the run, then where stock's time went."""
    stock, fast = compared.stock, compared.fast
    rows = [("", "stock", "fast", "")]
    for name, label in (
        ("ready", "setup: server"),
        ("prepare", "setup: migrations"),
        ("command", "tests"),
        ("teardown", "teardown"),
    ):
        rows.append(_seconds(label, stock, fast, partial(_part, name)))
    rows.append(_seconds("total", stock, fast, lambda side: side.total_s))
    rows.append(_seconds("  the database's share", stock, fast, lambda side: side.database_s))
    rows.append(_seconds("  the application's share", stock, fast, lambda side: side.application_s))
    syncs = [one.fsyncs for one in (stock[-1], fast[-1])]
    if None not in syncs:
        rows.append(("fsyncs", f"{syncs[0]:,}", f"{syncs[1]:,}", ""))
    lines = _aligned(rows)
    lines.append("")
    lines.append(f"{_words(compared.ratio)} as fast; the database's share {_words(compared.database_ratio)}")
    if compared.prepared_s:
        lines.append(
            f"migrations take {format_seconds(compared.prepared_s)} on the fast server too:"
            " only the template saves them"
        )
    return [*lines, *_where(compared.stock[-1])]


def _where(side: Side) -> list[str]:
    """What stock told of itself, part by part, most time first."""
    lines = []
    for part, told in side.told.items():
        what = "migrations" if part == "prepare" else "tests"
        files = [("file", "fsyncs", "written", "time")]
        total = sum(one.seconds or 0.0 for one in told.io_by_file)
        for file in told.io_by_file[:_MOST]:
            share = (file.seconds or 0.0) / total if total else 0.0
            fsyncs = "" if file.fsyncs is None else f"{file.fsyncs:,}"
            written = format_size(file.written_bytes or 0)
            files.append((file.file, fsyncs, written, f"{file.seconds or 0:.2f} s ({share:.0%})"))
        kinds = [("statement", "count", "time", "")]
        for kind in told.statements_by_kind[:_MOST]:
            kinds.append((kind.kind, f"{kind.count:,}", f"{kind.seconds or 0:.2f} s", ""))
        stages = [("stage", "count", "time", "")]
        for stage in told.stages[:_MOST]:
            stages.append((stage.stage, f"{stage.count:,}", f"{stage.seconds:.2f} s", ""))
        for title, rows in (("I/O", files), ("statements", kinds), ("stages", stages)):
            if len(rows) > 1:
                lines += ["", f"stock, {what}: {title}", *_aligned(rows)]
        lines += [f"not available: {name}: {why}" for name, why in told.untold.items()]
    return lines


_MOST = 6


def _part(name: str, side: Side) -> float:
    return side.seconds[name]


def _seconds(
    label: str, stock: Sequence[Side], fast: Sequence[Side], of: Callable[[Side], float]
) -> tuple[str, str, str, str]:
    slow, quick = (statistics.median(of(side) for side in sides) for sides in (stock, fast))
    times = f"{slow / quick:.1f}×" if quick > 0.005 else ""
    return label, f"{slow:.2f} s", f"{quick:.2f} s", times


def _aligned(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _words(ratio: Ratio) -> str:
    if ratio.low == ratio.high:
        return f"{ratio.estimate:.1f}× (one block, no interval)"
    return f"{ratio.estimate:.1f}× [{ratio.low:.1f}, {ratio.high:.1f}]"


def _ratio(ratio: Ratio) -> dict[str, float]:
    return {name: round(getattr(ratio, name), 3) for name in ("estimate", "low", "high")}


def _rows(part: str, told: Sequence[msgspec.Struct]) -> list[dict[str, Any]]:
    return [{"part": part, **msgspec.structs.asdict(one)} for one in told]


def _side(side: Side) -> dict[str, Any]:
    return {
        "exit_code": side.exit_code,
        "seconds": {name: round(value, 4) for name, value in side.seconds.items()},
        "database_s": round(side.database_s, 4),
        "application_s": round(side.application_s, 4),
        "fsyncs": side.fsyncs,
        "settings": dict(side.settings),
    }
