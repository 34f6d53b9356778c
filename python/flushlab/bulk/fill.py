"""`fill`: rows of a plan into a server, as fast as it takes them; the function behind `flushlab fill`.

Sits in `bulk`. Checks the request and opens the server; the load itself is `loading`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from flushlab import _core
from flushlab.bulk.destinations import destination
from flushlab.bulk.filled import Filled
from flushlab.bulk.loading import Load
from flushlab.bulk.throttle import throttle
from flushlab.datadir import own_disk, require_fault_disk
from flushlab.errors import UsageError
from flushlab.generate.plan import read_plan
from flushlab.process.running import publish_status
from flushlab.progress import Progress, silent
from flushlab.record.running import FillProgress
from flushlab.server import Sandbox
from flushlab.server.galera.cluster import Cluster
from flushlab.server.remote.login import from_dsn, from_option_file
from flushlab.server.remote.made_tables import drop_left
from flushlab.server.remote.put_back import put_back_left
from flushlab.server.remote.server import watched
from flushlab.server.sql import require_not_system
from flushlab.server.start import is_kept
from flushlab.spec import fields
from flushlab.spec.build import build, names_given, taking
from flushlab.spec.kinds import FillSpec
from flushlab.spec.option import flag

_LAST_OF_NAMES = 0xFFFF
"""MySQL manual, "Schema Object Names": supplementary characters are not permitted."""


@taking(
    FillSpec,
    progress="Takes a line at a time.",
    show="Takes how far the load is, a few times a second.",
)
def fill(
    plan: Path | str = "users",
    *,
    progress: Progress = silent,
    show: Callable[[FillProgress], None] = lambda _: None,
    **given: Any,
) -> Filled:
    """Fills tables with the rows of a plan.

    A build's new sandbox, or cluster, is kept. `replica` names servers that replicate from a server of your
    own, each by DSN or option file. The load waits while a replica is behind, does not replicate or does not
    answer.

    Returns:
        What was loaded, how fast, and what the limit was. It has been verified.

    Raises:
        UsageError: what makes no sense, or tables that are not as they must be.
        ServerError, ServerDied: the server refused rows, or is gone; `resume` goes on.
    """
    spec = build(FillSpec, {"plan": plan, **given})
    _require_sensible(spec)
    if own_disk(spec.storage.disk) is not None:
        require_fault_disk()
    replicas = [
        from_dsn(one, "--replica") if "://" in one else from_option_file(Path(one)) for one in spec.replica
    ]
    put_back_left(progress)
    drop_left(progress)
    rows = read_plan(spec.plan, rows=spec.rows, seed=spec.seed)
    with destination(spec, rows, progress) as place:
        server, python_before = place.server, _core.python_seconds()
        with (
            throttle(server, replicas, spec.max_lag, progress) as throttled,
            publish_status("fill", server=server.identity.name, workload=rows.name) as live,
            live.running_server(watched(server)),
        ):

            def publish(far: FillProgress) -> None:
                live.fill(far)
                show(far)

            done = Load(place, spec, rows, throttled, progress, publish).run()
        if took := _core.python_seconds() - python_before:
            progress(f"Python functions took {took:.1f} s, over all threads")
    if not isinstance(server, Sandbox | Cluster):
        return done
    client = server.build.client or "mysql"
    command = f"{client} --defaults-file={server.endpoint.option_file} {shlex.quote(place.database)}"
    return msgspec.structs.replace(done, sandbox=server.name, client=command)


def _require_sensible(spec: FillSpec) -> None:
    """Refuses a request that makes no sense, or would have no effect."""
    _exclusive(append=spec.append, truncate=spec.truncate, continue_=spec.continue_)
    _exclusive(compare_methods=spec.compare_methods, continue_=spec.continue_)
    elsewhere, kept = spec.remote.named_by, is_kept(spec.server.build)
    if spec.continue_ and not elsewhere and not kept:
        raise UsageError(
            "--continue needs the server whose load was interrupted",
            hint="name it: --server sandbox:NAME or --dsn",
        )
    for key in names_given(spec) - {"server"} if kept else ():
        if (field := fields(FillSpec)[key]).option.started:
            raise UsageError(
                f"{field.flag} needs a new server, but {spec.server.build} is named, which there is already",
                hint="remove one of them",
            )
    if spec.replica and not elsewhere:
        raise UsageError(
            "--replica is for a server of your own: a sandbox's load leaves out the binary log",
            hint="remove it",
        )
    if any(ord(letter) > _LAST_OF_NAMES for letter in spec.database or ""):
        raise UsageError(
            f"no server accepts the name {spec.database!r}",
            hint="characters beyond U+FFFF, such as emoji, are not for names",
        )
    if spec.database is not None:
        require_not_system(spec.database)


def _exclusive(**flags: bool) -> None:
    given = [flag(name) for name, value in flags.items() if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} cannot be combined", hint="give one of them")
