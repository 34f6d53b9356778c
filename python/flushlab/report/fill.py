"""Fill: what `flushlab fill` prints. Sits in `report`."""

from __future__ import annotations

from flushlab.bulk.filled import Filled, FilledTable
from flushlab.units import counted, format_seconds, format_size


def render(done: Filled) -> str:
    """The result in words."""
    kind = "cluster" if done.server.nodes > 1 else "sandbox"
    where = f"{kind}:{done.sandbox} ({done.server.name})" if done.sandbox else done.server.name
    lines = [
        f"{counted(done.rows, 'row')} in {format_seconds(done.seconds)}:"
        f" {done.rows_per_s:,.0f} rows/s into {done.database} on {where}",
        f"  method     {done.method.words}",
        f"  bound by   {done.bound_by} ({done.why})",
        f"  time       {_times(done)}",
        f"  size       {format_size(done.bytes)} sent, with {format_size(done.peak_bytes)} of memory here",
    ]
    lines += [f"  verified   {_verified(table)}" for table in done.tables]
    lines += [
        f"  {step.name:<24} {step.rows_per_s:>10,.0f} rows/s {step.times:>7}  {step.bound_by}"
        for step in done.steps
    ]
    lines += [f"  waited     {format_seconds(seconds)} for {what}" for what, seconds in done.waited.items()]
    if done.resumed_rows:
        lines.append(f"  resumed    {counted(done.resumed_rows, 'row')} were there")
    lines += [f"warning: {warning.text}" for warning in done.warnings]
    if done.sandbox:
        lines.append(f"use it:  {done.client}")
        lines.append(f"stop it: flushlab server stop {done.sandbox}")
    return "\n".join(lines)


def _times(done: Filled) -> str:
    parts = (("rows", done.seconds - done.index_seconds), ("indexes", done.index_seconds))
    counted_in = ", ".join(f"{what} {format_seconds(seconds)}" for what, seconds in parts if seconds)
    return f"{counted_in}; not counted: verification {format_seconds(done.verify_seconds)}"


def _verified(table: FilledTable) -> str:
    read = "none read back" if table.sampled is None else f"{table.sampled:,} read back and compared"
    return f"{table.name}: {counted(table.total, 'row')} counted, {read}"
