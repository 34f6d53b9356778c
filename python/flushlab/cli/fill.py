"""`flushlab fill`: rows of a plan into a server, and plans from a schema."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flushlab.cli import options
from flushlab.cli.options import watched
from flushlab.cli.output import Forms, say, write_file
from flushlab.cli.plain import write_stdout
from flushlab.errors import UsageError
from flushlab.spec import Option
from flushlab.spec.kinds import FillSpec
from flushlab.spec.option import flag as spelled
from flushlab.spec.parts import LOGIN, RemoteAccess
from flushlab.units import format_seconds, format_size

if TYPE_CHECKING:
    from flushlab.record.running import FillProgress

SPEC = FillSpec


def fill(
    given: Mapping[str, Any],
    print_plan: Annotated[bool, Option("Print the plan, to start your own from.")] = False,
    from_schema: Annotated[
        str | None,
        Option("Write a plan for the tables of a database to PLAN, or to stdout.", metavar="DATABASE|DSN"),
    ] = None,
    watch: options.Watch = False,
    json: options.Json = None,
    markdown: options.Markdown = None,
) -> None:
    """Fill tables with generated rows, fast, and verify them.

    \b
    Examples:
      flushlab fill users --rows 1000000
      flushlab fill plan.toml --server sandbox:legacy --create
      flushlab fill users --rows 5000 -h db1 -u me -p --database app --create
      flushlab fill mine.toml --from-schema app -h db1 -u me -p

    Rows are verified afterwards. An interrupted load continues with --continue,
    without duplicates or gaps.
    """
    forms = Forms(json, markdown)
    beside = {"--print-plan": print_plan, "--json": json, "--markdown": markdown, "--watch": watch}
    forms.require_writable()
    if from_schema:
        _alone("--from-schema", beside)
        _write_plan(given, from_schema)
    elif print_plan:
        from flushlab.generate.plan import plan_text

        _alone("--print-plan", beside)
        _only(given, ("plan",), "--print-plan")
        write_stdout(plan_text(given.get("plan", "users"))[0].encode())
    else:
        _load(given, watch, forms)


def _load(given: Mapping[str, Any], watch: bool, forms: Forms) -> None:
    from flushlab.bulk.fill import fill as run
    from flushlab.cli.progress import RowsProgress
    from flushlab.report.fill import document

    def show(far: FillProgress) -> None:
        rate, left = f"{far.table} {far.rows_per_s:,.0f} rows/s", f"{format_seconds(far.left_s)} left"
        doing = f"{rate} ({far.bound_by}), {left}"  # 80 columns have no room for more
        more = f"{rate}, {format_size(far.bytes)}, {left}, bound by {far.bound_by}"
        bar.show_rows(far.rows, far.total, doing, more)

    with watched(watch), RowsProgress() as bar:
        done = run(**given, progress=say, show=show)
    forms.deliver(document(done), done)


def _write_plan(given: Mapping[str, Any], schema: str) -> None:
    from flushlab.generate.schema import plan_from_schema

    _only(given, ("plan", "server", *LOGIN), "--from-schema")
    target = Path(given["plan"]) if "plan" in given else None
    if target is not None and target.exists():
        raise UsageError(f"{target} exists", hint="name another file, or remove it")
    remote = RemoteAccess(**{key: value for key, value in given.items() if key in LOGIN})
    text = plan_from_schema(schema, server=given.get("server"), remote=remote).encode()
    if target is None:
        write_stdout(text)
    else:
        write_file(target, text, new=True)
        say(f"wrote {target}; flushlab fill {target} --rows N fills these tables")


def _alone(flag: str, beside: Mapping[str, Any]) -> None:
    for name, value in beside.items():
        if value and name != flag:
            raise UsageError(f"{flag} and {name} cannot be combined", hint="remove one of them")


def _only(given: Mapping[str, Any], taken: tuple[str, ...], flag: str) -> None:
    for name in given:
        if name not in taken:
            raise UsageError(f"{flag} loads nothing, so {spelled(name)} has no meaning", hint="remove one")
