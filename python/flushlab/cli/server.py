"""`flushlab server`: builds that can be started, and kept sandboxes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flushlab.cli import options
from flushlab.cli.consoles import console, stdout
from flushlab.cli.declare import OptionGroup
from flushlab.cli.output import emit_json, print_warning, say
from flushlab.spec import Option
from flushlab.spec.commands import StartSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flushlab.build import Build, Obtainable
    from flushlab.server import Sandbox
    from flushlab.server.galera.cluster import Cluster
    from flushlab.server.sandbox.kept import KeptStatus

    Row = tuple[str, ...]

_LEAST_WIDTH = 20

app = OptionGroup("server", "List and fetch builds; start and stop sandboxes.")


@app.add("list")
def list_(json: options.Json = None) -> None:
    """List builds, installed or available; --json has full paths.

    \b
    Example:
      flushlab server list
    """
    from flushlab.build import obtainable, survey
    from flushlab.build.find import GUIDE, missing_releases
    from flushlab.machine import home

    here = survey()
    available = obtainable()
    more = [one for one in available if not any(_is(build, one) for build in here.builds)]
    known = [(one.flavor, one.version) for one in here.builds]
    missing = missing_releases([*known, *((one.flavor, one.version) for one in available)])
    for problem in here.problems:
        print_warning(problem.message)
    document = {
        "schema": "flushlab.server-list/1",
        "builds": [_build(one) for one in here.builds],
        "obtainable": [{"name": one.name, "source": one.source, "what": one.what} for one in more],
        "missing": [{"name": one.name, "how": one.how} for one in missing],
    }
    emit_json(document, json)
    if json == "-":
        return
    folder = home() / "builds"
    rows: list[Row] = [(one.name, "installed", _where(one, folder)) for one in here.builds]
    rows += [(one.name, "available", one.what) for one in more]
    rows += [(one.name, "missing", one.how) for one in missing]
    _table(("build", "state", "where"), rows, fit=True)
    if any(Path(one.prefix).parent == folder for one in here.builds):
        say(f"folders without a path are in {folder}")
    if missing:
        say(f"{GUIDE} explains how to get a missing build")
    if more:
        say("`flushlab server get NAME` fetches an available build, and so does `--server NAME`")


@app.add("get")
def get(
    name: Annotated[
        str,
        Option(
            "mariadb@10.11, mysql@5.7, …, or a tarball's path or https URL, optionally with #sha256=…",
            positional=True,
        ),
    ],
    json: options.Json = None,
) -> None:
    """Fetch a build, unless it is installed.

    \b
    Example:
      flushlab server get mysql@5.7
    """
    from flushlab.build import find_build, origin

    build = find_build(name, progress=say)
    files = [{"file": one.file, "sha256": one.sha256} for one in origin(build)]
    emit_json({"schema": "flushlab.server-get/1", **_build(build), "origin": files}, json)
    if json != "-":
        _table(("build", "source", "where"), [(build.name, build.source, build.mysqld)])


@app.add("start", StartSpec)
def start(given: Mapping[str, Any], json: options.Json = None) -> None:
    """Start a server that runs until `flushlab server stop NAME`.

    Its password is stored only in the option file whose path is printed.
    With the name of a stopped one whose data were kept, it starts that again.

    \b
    Examples:
      flushlab server start --server mysql@5.7 --name legacy --set sync_binlog=1
      flushlab server start --cluster 3 --name trio
      flushlab server start --disk gp3 --name cloud
    """
    from flushlab.server.start import restart_kept
    from flushlab.server.start import sandbox as started

    if set(given) == {"name"} and (found := restart_kept(given["name"])) is not None:
        server, choice = found
        if choice is not None:
            say(f"bootstrapped from node {choice.number}: {choice.why}")
        _introduce(server, json)
        return
    with started(kept=True, progress=say, **given) as server:
        _introduce(server, json)


@app.add("stop")
def stop(
    names: Annotated[list[str] | None, Option("Names of kept sandboxes.", positional=True)] = None,
    all_: Annotated[bool, Option("Stop all of them.", flag="all")] = False,
    keep_data: Annotated[
        bool,
        Option("Keep their data: `server start --name NAME` starts them again."),
    ] = False,
) -> None:
    """Stop kept sandboxes and clusters, and remove their data.

    \b
    Example:
      flushlab server stop legacy
    """
    from flushlab.errors import UsageError
    from flushlab.server.start import stop as stop_kept
    from flushlab.server.start import stopped_names

    if bool(names) == all_:
        raise UsageError(
            "name the sandboxes to stop, or use --all", hint="`flushlab server status` lists them"
        )
    for name in names or stopped_names():
        for left in stop_kept(name, keep_data=keep_data):
            print_warning(f"{left} has no mark that says it is flushlab's, and was left: remove it yourself")
        console.print(f"stopped {name}")


@app.add("reset")
def reset(
    name: Annotated[
        str, Option("A kept sandbox, or $FLUSHLAB_NAME inside `flushlab test`.", positional=True)
    ],
    json: options.Json = None,
) -> None:
    """Reset a server's data; its port and socket stay.

    Connections are cut.
    A kept server returns to its empty data directory; a server of `flushlab test` returns to its template.

    \b
    Example:
      flushlab server reset legacy
    """
    from flushlab.suite.database import reset as reset_server

    seconds = reset_server(name)
    emit_json({"schema": "flushlab.server-reset/1", "name": name, "seconds": seconds}, json)
    console.print(f"reset {name} in {seconds:.2f} s")


@app.add("env")
def env(
    name: Annotated[str, Option("A kept sandbox.", positional=True)],
    database: Annotated[str, Option("Database to create first.")] = "app",
    json: options.Json = None,
) -> None:
    """Print a server's address and account as shell variables.

    They have the names that `flushlab test` gives a suite, and hold the
    password.

    \b
    Example:
      eval "$(flushlab server env legacy)"
    """
    from flushlab.suite.database import environment

    found = environment(name, database)
    emit_json({"schema": "flushlab.server-env/1", "name": name, "variables": found}, json)
    if json != "-":
        stdout.print(
            "\n".join(f"export {key}={shlex.quote(value)}" for key, value in found.items()), soft_wrap=True
        )


@app.add("status")
def status(
    names: Annotated[
        list[str] | None, Option("Names of kept sandboxes; default: all.", positional=True)
    ] = None,
    json: options.Json = None,
) -> None:
    """List kept sandboxes and whether they run.

    \b
    Example:
      flushlab server status --json -
    """
    from flushlab.process import reap
    from flushlab.server.galera.cluster import node_names
    from flushlab.server.sandbox import kept

    for name in reap():
        say(f"cleaned up after an earlier run: {name}")
    wanted = [node for name in names or () for node in node_names(name) or [name]]
    for name in wanted:
        kept.load(name)  # one that there is not is an error
    found = [one for one in kept.statuses() if not wanted or one.saved.name in wanted]
    document = {"schema": "flushlab.server-status/1", "sandboxes": [_status(one) for one in found]}
    emit_json(document, json)
    if json == "-":
        return
    if not found:
        say("no kept sandboxes")
        return
    rows: list[Row] = [
        (saved.name, saved.build.name, one.state, f"{saved.host}:{saved.port}", str(saved.paths.socket))
        for one, saved in ((one, one.saved) for one in found)
    ]
    _table(("name", "build", "state", "address", "socket"), rows)


def _is(build: Build, one: Obtainable) -> bool:
    return build.flavor == one.flavor and build.version[: len(one.version)] == one.version


def _where(build: Build, folder: Path) -> str:
    prefix = Path(build.prefix)
    return prefix.name if prefix.parent == folder else build.mysqld


def _build(build: Build) -> dict[str, str]:
    return {"name": build.name, "id": build.id, "source": build.source, "mysqld": build.mysqld}


def _description(server: Sandbox | Cluster) -> dict[str, object]:
    """Everything but the password, which stands in the option file; of a cluster, its first node's."""
    from flushlab.server import Sandbox

    if isinstance(server, Sandbox):
        return _described(server)
    nodes = [_described(node) for node in server.nodes]
    return {**nodes[0], "name": server.name, "nodes": nodes}


def _described(sandbox: Sandbox) -> dict[str, object]:
    names = ("socket", "host", "port", "user", "option_file")
    identity = {"flavor": sandbox.identity.flavor, "version": sandbox.identity.version_text}
    return {"name": sandbox.name, **identity, **{name: getattr(sandbox.endpoint, name) for name in names}}


def _status(one: KeptStatus) -> dict[str, object]:
    from flushlab.server.sandbox.option_files import USER

    return {
        "name": one.saved.name,
        "cluster": one.saved.membership.cluster if one.saved.membership else None,
        "flavor": one.saved.build.flavor,
        "version": one.saved.build.version_text,
        "state": one.state,
        "pid": one.pid,
        "disk": one.saved.disk.profile.name if one.saved.disk else None,
        "socket": str(one.saved.paths.socket),
        "host": one.saved.host,
        "port": one.saved.port,
        "user": USER,
        "option_file": str(one.saved.paths.client_options),
    }


def _introduce(server: Sandbox | Cluster, json: str | None) -> None:
    from flushlab.server import Sandbox

    emit_json({"schema": "flushlab.server-start/1", **_description(server)}, json)
    if json == "-":
        return

    name, seconds = server.name, server.seconds["start"]
    client = f"{server.build.client or 'mysql'} --defaults-file={server.endpoint.option_file}"
    if isinstance(server, Sandbox):
        lines = [
            f"{name}: {server.identity.name}, ready in {seconds:.2f} s",
            f"  use it:  flushlab bench --server sandbox:{name} …",
            f"           {client}",
            f'           eval "$(flushlab server env {name})"',
        ]
    else:
        lines = [
            f"{name}: {len(server.nodes)} nodes of {server.identity.name}, synced in {seconds:.2f} s",
            *(f"  {node.name}: {node.endpoint.host}:{node.endpoint.port}" for node in server.nodes),
            f"  use it:  flushlab bench --server cluster:{name} …",
            f"           {client}",
        ]
    for line in (*lines, f"  stop it: flushlab server stop {name}"):
        stdout.print(line, soft_wrap=True)


def _table(headings: Row, rows: Sequence[Row], *, fit: bool = False) -> None:
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    room = max(stdout.width - sum(widths[:-1]) - 2 * len(widths[:-1]), _LEAST_WIDTH)
    for line in lines:
        last = _cut(line[-1], room) if fit else line[-1]
        cells = (cell.ljust(width) for cell, width in zip((*line[:-1], last), widths, strict=True))
        stdout.print("  ".join(cells).rstrip(), soft_wrap=True)


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"
