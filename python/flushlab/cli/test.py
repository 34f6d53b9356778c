"""`flushlab test`: a test suite on a fast throwaway server.

Loads only what it needs, when it needs it: the command is to start within a second.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flushlab.cli import options
from flushlab.cli.output import console, emit_json, require_writable, say
from flushlab.cli.watching import watched
from flushlab.errors import StartFailed, StorageError, UsageError
from flushlab.spec import Option
from flushlab.spec.option import assigned

if TYPE_CHECKING:
    from flushlab.advice.containers import Form
    from flushlab.suite.session import Request, Result

CONTEXT = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}
"""Options behind the command are the command's."""

PASSWORD = "FLUSHLAB_PASSWORD"


def test(
    command: Annotated[
        list[str] | None,
        Option("The command that runs the suite.", positional=True, metavar="-- COMMAND"),
    ] = None,
    server: Annotated[
        str,
        Option("A build (mariadb, mysql@5.7), or a tarball (path or URL, optionally with #sha256=…)."),
    ] = "mariadb",
    prepare: Annotated[
        str | None,
        Option("A shell command that fills the database; the result is kept as a template."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        Option("Files that --prepare reads, as a quoted pattern; repeatable."),
    ] = None,
    dataset: options.Dataset = None,
    database: Annotated[
        str | None, Option("Database to create first; default: that of --dataset, or app.")
    ] = None,
    charset: Annotated[
        str | None, Option("Character set of the database; default: the server's own.")
    ] = None,
    collation: Annotated[
        str | None, Option("Collation of the database; default: that of its character set.")
    ] = None,
    env: Annotated[
        list[str] | None,
        Option(
            "A variable for the command, NAME=TEMPLATE with {host} {port} {socket} {user} {password}"
            " {database} {url} {jdbc_url}; repeatable."
        ),
    ] = None,
    base: options.Base = None,
    exact: options.Exact = False,
    set_: Annotated[list[str] | None, Option("A setting, NAME=VALUE; repeatable.", flag="set")] = None,
    workers: Annotated[int, Option("Number of isolated servers, one per worker.", least=1, most=64)] = 1,
    clones: Annotated[
        int | None,
        Option(
            "Standby servers per worker, for faster resets; default: 2 after three resets, if memory allows.",
            least=0,
            most=8,
        ),
    ] = None,
    port: Annotated[
        int | None, Option("Port on 127.0.0.1; default: a free one.", least=1024, most=65535)
    ] = None,
    memory: Annotated[bool, Option("Keep the data in memory if it fits.")] = True,
    cache: Annotated[Path | None, Option("Folder for compressed templates, for a CI cache.")] = None,
    cache_size: Annotated[
        str, Option("Size limit of templates, here and in --cache; the least recently used go.")
    ] = "8G",
    compare: Annotated[
        bool,
        Option("Also run the suite on a stock server, on the disk of --data-root, and compare."),
    ] = False,
    blocks: Annotated[int, Option("How many times --compare runs both.", least=1, most=20)] = 1,
    disk_iops: options.DiskIops = None,
    disk: options.Disk = None,
    basedir: options.BaseDir = None,
    data_root: options.DataRoot = None,
    watch: options.Watch = False,
    json: Annotated[str | None, Option("Write the result as JSON to a file.")] = None,
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
    """Run a test suite on a fast throwaway server.

    The command finds its server in FLUSHLAB_HOST, FLUSHLAB_PORT, DATABASE_URL
    and more; its exit code is flushlab's. The server and its data are gone
    when it ends.
    FLUSHLAB_PASSWORD, if set, becomes the account's password.

    \b
    Example:
      flushlab test --prepare ./migrate.sh --inputs 'db/migration/**' -- mvn test
    """
    forms = _asked(compose=print_compose, testcontainers=print_testcontainers, action=print_github_action)
    if forms:
        own = {"character_set_server": charset, "collation_server": collation}
        assignments = [f"{name}={value}" for name, value in own.items() if value is not None]
        _print_container(forms, server, database or "app", command or [], [*assignments, *(set_ or [])])
        return
    if not command:
        raise UsageError("no command given", hint="flushlab test [OPTIONS] -- COMMAND ARGS…")
    from flushlab.suite.session import Session

    if json == "-":
        raise UsageError("--json - would mix with the suite's output", hint="name a file")
    if not compare and (disk_iops or disk or blocks > 1):
        raise UsageError("--disk, --disk-iops and --blocks need --compare", hint="add --compare")
    if compare and workers > 1:
        raise UsageError("--compare cannot be combined with --workers", hint="remove --workers")
    if compare and dataset:
        raise UsageError("--compare cannot be combined with --dataset", hint="load the data in --prepare")
    require_writable(json)
    from flushlab.suite import database as suite
    from flushlab.suite.environment import parse_templates

    request = suite.request(
        server=server,
        words=command,
        prepare=prepare,
        inputs=inputs or (),
        dataset=dataset,
        database=database,
        charset=charset,
        collation=collation,
        base=base,
        exact=exact,
        settings=assigned(set_ or ()),
        port=port,
        memory=memory,
        cache=cache,
        cache_size=cache_size,
        basedir=basedir,
        data_root=data_root,
        templates=parse_templates(env or []),
        workers=workers,
        clones=clones,
        password=os.environ.get(PASSWORD),
        progress=say,
    )
    try:
        if compare:
            raise SystemExit(_compare(request, blocks, disk_iops, disk, json))
        with watched(watch):
            result = Session(request, say).run()
    except StartFailed as error:
        if error.refusal is None or not request.settings:
            raise
        from flushlab.server.sandbox.refusal import refusal

        raise refusal(error.refusal, request.build) from error
    from flushlab.report import suite as report

    for line in report.summary(result, request):
        console.print(line)
    sys.stderr.flush()
    emit_json(report.document(result, request), json)
    raise SystemExit(_exit_code(result))


def _exit_code(result: Result) -> int:
    """The command's; what a suite says whose server flushlab had to stop is not its own."""
    return StorageError.exit_code if result.stopped else result.exit_code


def _asked(*, compose: bool, testcontainers: bool, action: bool) -> list[Form]:
    asked: dict[Form, bool] = {
        "compose": compose,
        "testcontainers": testcontainers,
        "github-action": action,
    }
    return [form for form, wanted in asked.items() if wanted]


def _print_container(
    forms: list[Form], server: str, database: str, command: list[str], assignments: list[str]
) -> None:
    """The profile as text, on stdout.

    Raises:
        UsageError: more than one form, an image that cannot be told, or a setting that it does not have.
    """
    from flushlab.advice import containers
    from flushlab.settings.catalog import load_catalog
    from flushlab.settings.given import parse_settings
    from flushlab.suite.environment import check_database

    if len(forms) > 1:
        names = " and ".join(f"--print-{form}" for form in forms)
        raise UsageError(f"{names} cannot be combined", hint="run the command once for each")
    image = containers.parse_image(server)
    check_database(database)
    chosen = parse_settings(assigned(assignments), image.flavor, image.version, load_catalog())
    sys.stdout.write(containers.render(forms[0], image, database=database, command=command, chosen=chosen))


def _compare(request: Request, blocks: int, disk_iops: int | None, disk: str | None, json: str | None) -> int:
    """The exit code of the last fast run."""
    from flushlab.datadir import open_volume
    from flushlab.report import suite as report
    from flushlab.suite.comparison import compare

    with open_volume(request.data_root, disk_iops, disk, say) as volume:
        compared = compare(request, blocks, volume, say)
    for line in [*report.comparison(compared), *report.summary(compared.result, request)]:
        console.print(line)
    emit_json(report.compared_document(compared, request), json)
    return _exit_code(compared.result)
