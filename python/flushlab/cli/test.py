"""`flushlab test`: a test suite on a fast sandbox, a private server.

Loads only what it needs, when it needs it: the command is to start within a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from flushlab.cli import options
from flushlab.cli.consoles import console
from flushlab.cli.options import watched
from flushlab.cli.output import Forms, deliver, say
from flushlab.errors import StartFailed, StorageError, UsageError
from flushlab.spec import Option
from flushlab.spec.build import build
from flushlab.spec.commands import SuiteSpec

if TYPE_CHECKING:
    from flushlab.advice.containers import Form
    from flushlab.suite.request import SuiteRequest
    from flushlab.suite.session import SuiteResult

CONTEXT = {"allow_interspersed_args": False, "help_option_names": ["--help"]}
"""Options behind the command are the command's."""

PASSWORD = "FLUSHLAB_PASSWORD"


SPEC = SuiteSpec


def test(
    given: Mapping[str, Any],
    watch: options.Watch = False,
    json: Annotated[str | None, Option("Write the result as JSON to a file.")] = None,
    markdown: Annotated[str | None, Option("Write the report as Markdown to a file.")] = None,
    print_compose: Annotated[bool, Option("Print an equivalent Docker Compose file and exit.")] = False,
    print_testcontainers: Annotated[
        bool,
        Option("Print equivalent Java code for Testcontainers and exit."),
    ] = False,
    print_github_action: Annotated[
        bool,
        Option("Print an equivalent GitHub Actions workflow and exit."),
    ] = False,
) -> None:
    """Run a test suite on a fast sandbox, a private server.

    The command finds its server in FLUSHLAB_HOST, FLUSHLAB_PORT, DATABASE_URL
    and more; its exit code is flushlab's. The server and its data are gone
    when it ends.
    FLUSHLAB_PASSWORD, if set, becomes the account's password.

    \b
    Example:
      flushlab test --prepare ./migrate.sh --inputs 'db/migration/**' -- mvn test
    """
    spec = build(SuiteSpec, given)
    asked: dict[Form, bool] = {
        "compose": print_compose,
        "testcontainers": print_testcontainers,
        "github-action": print_github_action,
    }
    forms = [form for form, wanted in asked.items() if wanted]
    if forms:
        if json or markdown or watch:
            flag = "--json" if json else "--markdown" if markdown else "--watch"
            raise UsageError(f"--print-{forms[0]} and {flag} cannot be combined", hint="remove one of them")
        _print_container(forms, spec)
        return
    if not spec.command:
        raise UsageError("no command given", hint="flushlab test [OPTIONS] -- COMMAND ARGS…")
    _require_quoted(spec)
    from flushlab.suite.session import SuiteSession

    outputs = Forms(json, markdown)
    for name, path in (("--json", json), ("--markdown", markdown)):
        if path == "-":
            raise UsageError(f"{name} - would mix with the suite's output", hint="name a file")
    if spec.compare and spec.workers > 1:
        raise UsageError("--compare cannot be combined with --workers", hint="remove --workers")
    if spec.compare and spec.pool is not None:
        raise UsageError("--compare cannot be combined with --pool", hint="remove --pool")
    if spec.compare and spec.throwaway.dataset:
        raise UsageError("--compare cannot be combined with --dataset", hint="load the data in --prepare")
    outputs.require_writable()
    from flushlab.suite.request import parse_templates, read_request

    templates = parse_templates(spec.env)
    request = msgspec.structs.replace(
        read_request(spec.throwaway, say, password=os.environ.get(PASSWORD)),
        words=spec.command,
        templates=templates,
        workers=spec.workers,
        pool=spec.pool,
    )
    try:
        if spec.compare:
            raise SystemExit(_compare(request, spec, outputs))
        with watched(watch):
            result = SuiteSession(request, say).run()
    except StartFailed as error:
        if error.refusal is None or not request.settings:
            raise
        from flushlab.server.sandbox.log import refusal

        raise refusal(error.refusal, request.build) from error
    from flushlab.report import suite as report

    for line in report.summary(result, request):
        console.print(line)
    sys.stderr.flush()
    deliver(*outputs.steps(report.document(result, request), report.as_json(result, request)))
    raise SystemExit(_exit_code(result))


def _require_quoted(spec: SuiteSpec) -> None:
    """The shell has replaced the pattern of --inputs by them."""
    inputs, words = spec.throwaway.inputs, spec.command
    files = words[: words.index("--")] if "--" in words else words[:1]
    if not inputs or not files or not all(Path(one).exists() for one in (inputs[-1], *files)):
        return  # a pattern that is still one was quoted
    given, first = Path(inputs[-1]), Path(files[0])
    alike = "--" in words and (first.parent, first.suffix) == (given.parent, given.suffix)
    if alike or first.is_dir() or not os.access(first, os.X_OK):
        raise UsageError(
            f"{first} is an input, not the command: the shell has replaced the pattern of --inputs",
            hint=f"quote it, for example --inputs '{_pattern(given, first)}'",
        )


def _pattern(one: Path, other: Path) -> str:
    if one.is_dir():
        return f"{one.parent / '**'}"
    if len(one.parts) != len(other.parts) or one.parent == other.parent:
        return f"{one.parent / f'*{one.suffix}'}"
    folders = zip(one.parts[:-1], other.parts[:-1], strict=True)
    name = one.name if one.name == other.name else f"*{one.suffix}"
    return "/".join([*(here if here == there else "*" for here, there in folders), name])


def _exit_code(result: SuiteResult) -> int:
    """The code of a suite whose server flushlab had to stop is not its own."""
    return StorageError.exit_code if result.stopped else result.exit_code


def _print_container(forms: list[Form], spec: SuiteSpec) -> None:
    from flushlab.advice import containers
    from flushlab.settings.admission import parse_settings
    from flushlab.suite.request import check_database, server_of
    from flushlab.suite.templates import read_inputs, signs_in

    if len(forms) > 1:
        names = " and ".join(f"--print-{form}" for form in forms)
        raise UsageError(f"{names} cannot be combined", hint="run the command once for each")
    wanted = spec.throwaway
    files = read_inputs(list(wanted.inputs), Path.cwd())
    server, _ = server_of(wanted, list(signs_in(files, wanted.prepare or "", Path.cwd())), say)
    image = containers.parse_image(server)
    database = check_database(wanted.database or "app")
    own = {"character_set_server": wanted.charset, "collation_server": wanted.collation}
    settings = {**{name: value for name, value in own.items() if value is not None}, **wanted.settings}
    chosen = parse_settings(settings, image.flavor, image.version)
    command = list(spec.command)
    sys.stdout.write(containers.render(forms[0], image, database=database, command=command, chosen=chosen))


def _compare(request: SuiteRequest, spec: SuiteSpec, forms: Forms) -> int:
    from flushlab.datadir import open_volume
    from flushlab.report import suite as report
    from flushlab.report.terminal import render
    from flushlab.suite.command import find_problem
    from flushlab.suite.comparison import compare

    if (problem := find_problem(request.words, os.environ)) is not None:
        say(problem.problem)
        return problem.exit_code
    with open_volume(request.data_root, spec.disk, say) as volume:
        compared = compare(request, spec.blocks, volume, say)
    document = report.comparison(compared, request)
    console.print(render(document))
    deliver(*forms.steps(document, report.compared_as_json(compared, request)))
    failed = (side.exit_code for side in compared.stock if side.exit_code)
    return _exit_code(compared.result) or next(failed, 0)
