"""Report of `fill`: its document. Pure; the JSON is `Filled` itself."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.bulk.filled import Filled, FilledTable
from flushlab.report.document import (
    Cell,
    Code,
    Document,
    Section,
    Table,
    facts_table,
    named,
    warnings_section,
)
from flushlab.units import counted, format_seconds, format_size


def document(done: Filled) -> Document:
    kind = "cluster" if done.server.nodes > 1 else "sandbox"
    where = f"{kind}:{done.sandbox} ({done.server.name})" if done.sandbox else done.server.name
    return Document(
        "fill",
        f"{counted(done.rows, 'row')} in {format_seconds(done.seconds)}:"
        f" {done.rows_per_s:,.0f} rows/s into {done.database} on {where}",
        sections=(
            Section("results", "Results", tables=(facts_table(_facts(done)), *_steps(done))),
            *warnings_section(done.warnings),
        ),
        todo=(_use(done),) if done.sandbox else (),
    )


def _facts(done: Filled) -> Iterator[tuple[str, str]]:
    yield "method", done.method.words
    yield "bound by", f"{done.bound_by} ({done.why})"
    parts = (("rows", done.seconds - done.index_seconds), ("indexes", done.index_seconds))
    took = ", ".join(f"{what} {format_seconds(seconds)}" for what, seconds in parts if seconds)
    yield "time", f"{took}; not counted: verification {format_seconds(done.verify_seconds)}"
    yield "size", f"{format_size(done.bytes)} sent, with {format_size(done.peak_bytes)} of memory here"
    for table in done.tables:
        yield "verified", _verified(table)
    for what, seconds in done.waited.items():
        yield "waited", f"{format_seconds(seconds)} for {what}"
    if done.resumed_rows:
        yield "resumed", f"{counted(done.resumed_rows, 'row')} were there"


def _verified(table: FilledTable) -> str:
    read = "none read back" if table.sampled is None else f"{table.sampled:,} read back and compared"
    return f"{table.name}: {counted(table.total, 'row')} counted, {read}"


def _steps(done: Filled) -> Iterator[Table]:
    if done.steps:
        rows = [
            (*named(step.name, f"{step.rows_per_s:,.0f}", step.times), Cell(step.bound_by))
            for step in done.steps
        ]
        yield Table(("step", "rows/s", "times", "bound by"), rows)


def _use(done: Filled) -> Section:
    stop = f"flushlab server stop {done.sandbox}"
    code = (Code(done.client, "Use it:", "always"), Code(stop, "Stop it:", "always"))
    return Section("use", "The sandbox", code=code)
