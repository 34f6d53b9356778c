"""Report of `test`: the document of a run, that of a comparison, and their JSON. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from flushlab.record import Performance, Ratio
from flushlab.report.document import (
    Cell,
    Document,
    Line,
    Row,
    Section,
    Table,
    named,
    numbers,
    warnings_section,
)
from flushlab.suite.pool import PoolUse
from flushlab.suite.request import SuiteRequest
from flushlab.suite.servers import Reset
from flushlab.suite.session import SuiteResult
from flushlab.units import counted, format_seconds, format_size

if TYPE_CHECKING:
    from flushlab.suite.comparison import Compared, Side

SCHEMA = "flushlab.test/1"

_WORTH_A_HINT_S = 2.0
_WORTH_TELLING_S = 0.1


def as_json(result: SuiteResult, request: SuiteRequest) -> dict[str, Any]:
    server, again = result.server, result.recreated
    return {
        "schema": SCHEMA,
        "exit_code": result.exit_code,
        "seconds": {name: round(value, 4) for name, value in result.seconds.items()},
        "template": result.template,
        "server": server
        and {"name": server.name, "version": server.version_text, "build_id": server.build_id},
        "settings": dict(result.settings),
        "in_memory": result.in_memory,
        "workers": result.workers,
        "resets": len(result.resets),
        "resets_by": [msgspec.structs.asdict(one) for one in _kinds(result.resets)],
        "pool": msgspec.structs.asdict(result.pool) if result.pool.taken else None,
        "recreated": again and {"objects": again.count, "seconds": round(again.seconds, 3)},
        "scaled": [msgspec.structs.asdict(one) for one in request.scaled],
        "notes": [*request.base_notes, *result.notes],
        "died": result.death or None,
        "io_by_file": [],
        "statements_by_kind": [],
        "ratio": None,
    }


def summary(result: SuiteResult, request: SuiteRequest) -> list[str]:
    """The document as lines for stderr: they stand after the suite's output, which is not flushlab's."""
    return [line if line.startswith("hint: ") else f"flushlab: {line}" for line in _lines(result, request)]


def document(result: SuiteResult, request: SuiteRequest) -> Document:
    lines = tuple(Line(line.strip()) for line in _lines(result, request))
    return Document(
        "test", f"exit code {result.exit_code}", sections=(Section("run", "The run", lines=lines),)
    )


def _lines(result: SuiteResult, request: SuiteRequest) -> Iterator[str]:
    yield from result.notes
    if result.death:
        yield result.death
    if result.server is None:
        return
    names = ("ready", *(["prepare"] if result.seconds["prepare"] else []), "command", "teardown")
    parts = ", ".join(f"{name} {format_seconds(result.seconds[name])}" for name in names)
    where = "in memory" if result.in_memory else "on disk"
    template = "nothing prepared" if result.template == "none" else f"template {result.template}"
    yield f"{result.server.name} {where}, {template}: {parts}"
    yield from _pool(result.pool)
    yield from _resets(result.resets)
    yield from _hints(result, request)


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    how: str
    why: str
    count: int
    median_s: float


def _kinds(resets: Iterable[Reset]) -> list[_Kind]:
    found: dict[tuple[str, str], list[float]] = {}
    for one in resets:
        found.setdefault((one.how, "" if one.how == "undone" else one.why), []).append(one.seconds)
    kinds = [
        _Kind(how=how, why=why, count=len(took), median_s=round(statistics.median(took), 5))
        for (how, why), took in found.items()
    ]
    return sorted(kinds, key=lambda one: -one.count)


_HOW = {"undone": "undone", "replaced": "by a standby server", "restarted": "by a restart"}


def _resets(resets: Sequence[Reset]) -> Iterator[str]:
    lines = [
        f"{kind.count:,} {_HOW[kind.how]}, {1000 * kind.median_s:,.1f} ms at the median"
        + (f", because of {kind.why}" if kind.why else "")
        for kind in _kinds(resets)
    ]
    if len(lines) == 1:
        yield f"{counted(len(resets), 'reset')}: {lines[0]}"
    elif lines:
        yield f"{counted(len(resets), 'reset')}:"
        yield from (f"  {line}" for line in lines)


def _pool(use: PoolUse) -> Iterator[str]:
    if not use.taken:
        return
    parts = [f"tests took {counted(use.taken, 'database')} from {counted(use.started, 'server')}"]
    if use.waited_s >= _WORTH_TELLING_S:
        parts.append(f"waited {format_seconds(use.waited_s)} for them")
    if use.ended:
        parts.append(f"{counted(use.ended, 'lease')} ended before the test gave its database back")
    if use.left:
        parts.append(f"{use.left:,} {'was' if use.left == 1 else 'were'} not given back")
    yield "; ".join(parts)


def _hints(result: SuiteResult, request: SuiteRequest) -> Iterator[str]:
    if (again := result.recreated) is not None:
        way_out = "; keep the template by skipping clean" if request.prepare else ""
        took = format_seconds(again.seconds)
        yield f"the suite dropped and recreated {again.count} objects: {took}{way_out}"
    elif result.created and not request.prepare:
        yield (
            f"hint: the suite created {result.created.count} objects in about"
            f" {format_seconds(result.created.seconds)}; with --prepare 'COMMAND' --inputs 'FILES',"
            " later runs start from a template"
        )
    elif result.template == "hit" and result.saved_seconds >= _WORTH_A_HINT_S:
        yield f"the template saved {format_seconds(result.saved_seconds)} of preparation"


def compared_as_json(compared: Compared, request: SuiteRequest) -> dict[str, Any]:
    last = compared.stock[-1]
    tables = {
        name: [
            {"part": part, **msgspec.structs.asdict(one)}
            for part, told in last.told.items()
            for one in getattr(told, name)
        ]
        for name in ("io_by_file", "statements_by_kind", "stages")
    }
    return {
        **as_json(compared.result, request),
        **tables,
        "ratio": _ratio(compared.ratio),
        "database_ratio": None if compared.database_ratio is None else _ratio(compared.database_ratio),
        "prepared_s": round(compared.prepared_s, 4),
        "blocks": [
            {"stock": _side(stock), "fast": _side(fast)}
            for stock, fast in zip(compared.stock, compared.fast, strict=True)
        ],
    }


def comparison(compared: Compared, request: SuiteRequest) -> Document:
    stock, fast, share = compared.stock, compared.fast, compared.database_ratio
    parts: tuple[tuple[str, Callable[[Side], float]], ...] = (
        ("setup: server", lambda side: side.seconds["ready"]),
        ("setup: migrations", lambda side: side.seconds["prepare"]),
        ("tests", lambda side: side.seconds["command"]),
        ("teardown", lambda side: side.seconds["teardown"]),
        ("total", lambda side: side.total_s),
        ("the database's share", lambda side: side.database_s),
        ("the application's share", lambda side: side.application_s),
    )
    rows = [_seconds(label, stock, fast, of) for label, of in parts]
    slow, quick = stock[-1].fsyncs, fast[-1].fsyncs
    if slow is not None and quick is not None:
        rows.append((Cell("fsyncs"), *numbers(f"{slow:,}", f"{quick:,}", "")))
    of_database = "" if share is None else f"; the database's share {_words(share)}"
    notes = []
    if len(stock) > 1:
        notes.append(
            f"seconds: medians of {len(stock)} blocks; ratios: geometric means of the blocks' ratios"
        )
    if compared.prepared_s:
        notes.append(
            f"migrations take {format_seconds(compared.prepared_s)} on the fast server too:"
            " only the template avoids them"
        )
    ran = tuple(Line(line.strip()) for line in _lines(compared.result, request))
    return Document(
        "test",
        f"{_words(compared.ratio)} as fast{of_database}",
        sections=(
            Section(
                "parts",
                "Stock against fast",
                tables=(Table(("seconds", "stock", "fast", "times"), rows),),
                notes=tuple(notes),
            ),
            *_where(stock[-1]),
            *warnings_section(_warnings(compared)),
            Section("run", "The last fast run", lines=ran),
        ),
    )


def _warnings(compared: Compared) -> Iterator[str]:
    failed = {name: _failed(sides) for name, sides in (("stock", compared.stock), ("fast", compared.fast))}
    if any(failed.values()):
        runs = ", ".join(f"{name} {words or 'exit code 0'}" for name, words in failed.items())
        yield f"the suite failed ({runs}): the seconds may not be of the same work"
    if compared.database_ratio is None:
        yield (
            "the suite resets its server. The stock server cannot be reset, so that the seconds are not of"
            " the same work"
        )


def _failed(sides: Sequence[Side]) -> str:
    codes = sorted({side.exit_code for side in sides} - {0})
    return f"exit code {', '.join(map(str, codes))}" if codes else ""


def _where(side: Side) -> Iterator[Section]:
    for part, told in side.told.items():
        tables = tuple(Table(head, rows[:_MOST]) for head, rows in _counters(told) if rows)
        untold = tuple(f"not available: {name}: {why}" for name, why in told.untold.items())
        if tables or untold:
            what = "migrations" if part == "prepare" else "tests"
            yield Section(f"stock-{part}", f"Stock, {what}", tables=tables, notes=untold)


def _counters(told: Performance) -> Iterator[tuple[Sequence[str], Sequence[Row]]]:
    total = sum(one.seconds or 0.0 for one in told.io_by_file) or 1.0
    files = []
    for one in told.io_by_file:
        fsyncs = "" if one.fsyncs is None else f"{one.fsyncs:,}"
        time = f"{one.seconds or 0:.2f} s ({(one.seconds or 0.0) / total:.0%})"
        files.append(named(one.file, fsyncs, format_size(one.written_bytes or 0), time))
    yield ("file", "fsyncs", "written", "time"), files
    kinds = [
        named(one.kind, f"{one.count:,}", f"{one.seconds or 0:.2f} s") for one in told.statements_by_kind
    ]
    yield ("statement", "count", "time"), kinds
    stages = [named(one.stage, f"{one.count:,}", f"{one.seconds:.2f} s") for one in told.stages]
    yield ("stage", "count", "time"), stages


_MOST = 6
_LEAST_S = 0.001


def _seconds(label: str, stock: Sequence[Side], fast: Sequence[Side], of: Callable[[Side], float]) -> Row:
    slow, quick = (statistics.median(map(of, sides)) for sides in (stock, fast))
    ratios = (
        max(of(one), _LEAST_S) / max(of(other), _LEAST_S) for one, other in zip(stock, fast, strict=True)
    )
    times = f"{statistics.geometric_mean(ratios):.1f}×" if slow and quick > 0.005 else ""
    return Cell(label), *numbers(f"{slow:.2f} s", f"{quick:.2f} s", times)


def _words(ratio: Ratio) -> str:
    if ratio.low == ratio.high:
        return f"{ratio.estimate:.1f}× (one block, no interval)"
    return f"{ratio.estimate:.1f}× [{ratio.low:.1f}, {ratio.high:.1f}]"


def _ratio(ratio: Ratio) -> dict[str, float]:
    return {name: round(getattr(ratio, name), 3) for name in ("estimate", "low", "high")}


def _side(side: Side) -> dict[str, Any]:
    return {
        "exit_code": side.exit_code,
        "seconds": {name: round(value, 4) for name, value in side.seconds.items()},
        "database_s": round(side.database_s, 4),
        "application_s": round(side.application_s, 4),
        "fsyncs": side.fsyncs,
        "settings": dict(side.settings),
    }
