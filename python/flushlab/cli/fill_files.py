"""What `flushlab fill` does instead of a load: rows into files, and plans from a schema or built in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from flushlab.cli.output import console, deliver, emit_json, say, stdout, write_file, write_stdout
from flushlab.cli.progress import LiveBar
from flushlab.errors import UsageError
from flushlab.generate.export import Exported, Progress, export
from flushlab.generate.plan import plan_text, read_plan
from flushlab.units import format_seconds, format_size

SCHEMA = "flushlab.fill-export/1"
_SAY_EVERY_S = 10.0
_EXPORTS = ("plan", "rows", "seed", "create", "threads")
_PRINT = ("plan",)
_FROM_SCHEMAS = ("plan", "server", "dsn", "defaults_file")


class _ExportBar(LiveBar):
    """Shows how far an export is."""

    def __init__(self) -> None:
        super().__init__()
        self._said = time.monotonic()

    def show_far(self, far: Progress) -> None:
        """It is so far."""
        rate = far.rows / max(far.seconds, 1e-9)
        left = (far.all_rows - far.rows) / max(rate, 1e-9)
        text = f"{rate:,.0f} rows/s, {format_size(far.bytes)}, {format_seconds(left)} left"
        self.show(far.rows, far.all_rows, text)
        if not console.is_terminal and time.monotonic() - self._said >= _SAY_EVERY_S:
            self._said = time.monotonic()
            say(f"{far.rows:,} of {far.all_rows:,} rows: {text}")


def write_files(
    given: Mapping[str, Any], *, export: str | None, from_schema: str | None, json: str | None
) -> None:
    """What the flags ask for instead of a load.

    Args:
        given: options of the load that were given.
        export: file for the rows.
        from_schema: address of the database that a plan is made of; with neither, the plan is printed.
        json: file for the result of an export.
    """
    plan = given.get("plan", "users")
    if from_schema:
        _from_schema(given, from_schema, plan)
    elif export:
        _export(given, plan, Path(export), json)
    else:
        _print_plan(given, plan)


def _print_plan(given: Mapping[str, Any], plan: str) -> None:
    """Prints the text of a plan."""
    _only(given, _PRINT, "--print-plan")
    write_stdout(plan_text(plan)[0].encode())


def _from_schema(given: Mapping[str, Any], schema: str, plan: str) -> None:
    """Writes a plan from a schema to the file that is named, or to stdout."""
    from flushlab.bulk.schema_plan import plan_from_schema

    _only(given, _FROM_SCHEMAS, "--from-schema")
    target = Path(plan) if "plan" in given else None
    if target is not None and target.exists():
        raise UsageError(f"{target} exists", hint="name another file, or remove it")
    places = {key: given[key] for key in ("server", "dsn", "defaults_file") if key in given}
    text = plan_from_schema(schema, **places).encode()
    if target is None:
        write_stdout(text)
    else:
        write_file(target, text, new=True)
        say(f"wrote {target}; flushlab fill {target} --rows N fills these tables")


def _export(given: Mapping[str, Any], plan: str, file: Path, json: str | None) -> None:
    """Writes a plan's rows to files."""
    _only(given, _EXPORTS, "--export")
    read = read_plan(plan, rows=given.get("rows"), seed=given.get("seed"))
    with _ExportBar() as bar:
        done = export(
            read, file, threads=given.get("threads"), create=given.get("create", False), show=bar.show_far
        )
    document = {"schema": SCHEMA, **msgspec.to_builtins(done)}
    deliver(
        *([partial(stdout.print, _summary(done), soft_wrap=True)] if json != "-" else []),
        partial(emit_json, document, json),
    )


def _summary(done: Exported) -> str:
    rate = done.rows / max(done.seconds, 1e-9)
    took = format_seconds(done.python_seconds)
    python = [f"Python functions took {took} of it, over all threads."] if done.python_seconds else []
    lines = [
        f"{', '.join(done.files)}: {done.rows:,} rows, {format_size(done.bytes)}, in"
        f" {format_seconds(done.seconds)} ({rate:,.0f} rows/s)",
        *python,
        "",
        "To load, uncompressed:" if done.files[0].endswith((".gz", ".zst")) else "To load:",
        *(f"  {statement}" for statement in done.statements),
    ]
    return "\n".join(lines)


def _only(given: Mapping[str, Any], taken: tuple[str, ...], flag: str) -> None:
    for name in given:
        if name not in taken:
            raise UsageError(
                f"{flag} loads nothing, so --{name.replace('_', '-')} has no meaning", hint="remove one"
            )
