"""Server check: what the variables mean that a server has, be they asked for or written to a file.

Sits in `campaign`, on `settings.in_force`; `flushlab settings --dsn`, and `--check` with a dump of variables.
The server is only read. Its host cannot be seen: whether syncs reach the disk is unknown, and no fault of the
settings.
"""

from __future__ import annotations

from pathlib import Path

from flushlab.build import Progress, silent
from flushlab.build.find import parse_name
from flushlab.campaign.option_check import CheckRequest, Judged, judge, server_of
from flushlab.campaign.pool.running_server import UNSEEN
from flushlab.errors import UsageError
from flushlab.record import Launch, ServerIdentity
from flushlab.server.remote.members import CONNECT_S
from flushlab.server.remote.server import Address, RemoteServer
from flushlab.server.sandbox.base_file import text_of
from flushlab.server.variables import all_variables, redo_enabled
from flushlab.settings.check import Checked, in_reading_order
from flushlab.settings.consequences import at_risk, below, too_large
from flushlab.settings.dump import Dump, read_dump
from flushlab.settings.durability import described, guarantees, level, meets
from flushlab.settings.finding import Finding
from flushlab.settings.floor import Floor
from flushlab.settings.in_force import identity_of, in_force
from flushlab.units import parse_size


def judge_server(address: Address, *, floor: Floor | None = None, memory: str | None = None) -> Judged:
    """What a running server's variables mean.

    Args:
        address: where it is.
        floor: also say what keeps it below.
        memory: of its machine, like `64G`; None: nothing is said of memory.

    Raises:
        ServerError: it does not answer.
        UsageError: the memory is no size.
    """
    with RemoteServer(address, connect_s=CONNECT_S) as server:
        identity = server.identity
        checked = in_force(all_variables(server.query), identity, path=address.name)
        launch = Launch(redo_enabled=redo_enabled(server.query, identity))
    return _judged(checked, identity, launch, address.name, floor, memory)


def judge_file(file: Path, request: CheckRequest, *, progress: Progress = silent) -> Judged:
    """The meaning of an option file, or of a file of variables.

    Raises:
        StorageError: the file cannot be read.
        UsageError: it is neither, or an option is for the other kind.
        BuildNotFound: the name says neither a build that is here nor a version.
    """
    text = text_of(file)
    dump = read_dump(text)
    if dump is None:
        return judge(file, text, request, progress=progress)
    for name, given in (
        ("--start", request.start),
        ("--defaults-group-suffix", request.suffix),
        ("--basedir", request.basedir),
    ):
        if given:
            raise UsageError(
                f"{name} is for option files, but {file} has a server's variables", hint="remove it"
            )
    return judge_dump(dump, file, request.server, floor=request.floor, memory=request.memory)


def judge_dump(
    dump: Dump, file: Path, server: str | None, *, floor: Floor | None = None, memory: str | None = None
) -> Judged:
    """What the variables in a file mean to the server that wrote it.

    Args:
        dump: of the file.
        file: where it is, for places.
        server: the one that wrote it, if its variables do not tell.
        floor, memory: as `judge_server`.

    Raises:
        UsageError: it is of another server than the named one, or the memory is no size.
        BuildNotFound: the name says neither a build nor a version.
    """
    identity, assumed = identity_of(dump.variables), False
    if identity is None:
        identity, _, assumed = server_of(server, None)
    elif server is not None:
        _require_same(identity, server, file)
    checked = in_force(dump.variables, identity, path=str(file), lines=dump.lines)
    return _judged(checked, identity, Launch(), str(file), floor, memory, assumed=assumed)


def _require_same(identity: ServerIdentity, server: str, file: Path) -> None:
    wanted = parse_name(server)
    if (
        wanted.flavor not in ("", identity.flavor)
        or wanted.version != identity.version[: len(wanted.version)]
    ):
        raise UsageError(
            f"{file} has the variables of {identity.name}, not of {server}", hint="remove --server"
        )


def _judged(
    checked: Checked,
    identity: ServerIdentity,
    launch: Launch,
    path: str,
    floor: Floor | None,
    memory: str | None,
    *,
    assumed: bool = False,
) -> Judged:
    found = [*checked.findings]
    if memory:
        found += too_large(checked, path, identity, parse_size(memory))
    if floor is not None:
        found += below(checked, identity, UNSEEN, floor)
    else:
        found += at_risk(checked, path, identity, UNSEEN)
    if not launch.redo_enabled:
        says = "the redo log is disabled: after a crash the server may not start again"
        found.append(
            Finding.at((path, 0), "at-risk", "error", "", says, "ALTER INSTANCE ENABLE INNODB REDO_LOG")
        )
    kept = guarantees(checked.given, identity, UNSEEN, launch)
    return Judged(
        server=identity,
        assumed=assumed,
        asked=False,
        in_force=True,
        checked=checked,
        findings=in_reading_order(found),
        floor=level(kept),
        wanted=floor,
        meets=None if floor is None else meets(kept, floor),
        guarantees=described(checked.given, identity, UNSEEN, launch),
    )
