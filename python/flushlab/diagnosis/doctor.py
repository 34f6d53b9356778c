"""`doctor`: what bounds the writes of a running server.

The function behind `flushlab doctor`:

    diagnosis = flushlab.doctor(defaults_file="~/.my.cnf", seconds=30)
    print(diagnosis.answer)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.files.folder import read
from flushlab.diagnosis.files.samples import evidence_of
from flushlab.diagnosis.sampling import opened, watch
from flushlab.diagnosis.window import sees_others
from flushlab.errors import UsageError
from flushlab.progress import Progress, silent
from flushlab.record import ServerIdentity
from flushlab.record.running import WatchedServer
from flushlab.server.remote.login import addresses_of
from flushlab.server.remote.server import watched_at
from flushlab.server.sql import account_of
from flushlab.server.start import sandbox
from flushlab.spec.build import build, taking
from flushlab.spec.commands import DoctorSpec
from flushlab.spec.option import fields
from flushlab.telemetry.live import questions

_SEEN = {
    questions.STATUS: "counters",
    questions.VARIABLES: "variables",
    questions.STATES: "connections at work",
    questions.TRANSACTIONS: "open transactions",
    questions.FILES: "syncs of each log",
    questions.MONITOR: "age of the checkpoint",
    questions.ORIGINS: "sources of settings",
    questions.HISTORY: "history of row versions",
    questions.ERRORS: "errors of statements",
}
_GRANTS = {
    questions.PROCESS: "GRANT PROCESS ON *.* TO {account};",
    questions.PERFORMANCE_SCHEMA: "GRANT SELECT ON performance_schema.* TO {account};",
}


class Account(msgspec.Struct, frozen=True, kw_only=True):
    server: ServerIdentity
    name: str
    sees: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()


def check_account(reach: WatchedServer, progress: Progress) -> Account:
    with opened(reach, progress) as session:
        session.ask_what_is_due()
        name, seen = account_of(session.account()), session.seen
    lacks = {one for one in session.names if one in seen.failed}
    if not sees_others(seen):
        lacks.add(questions.STATES)
    return Account(
        server=seen.identity,
        name=name,
        sees=tuple(words for one, words in _SEEN.items() if one in session.names and one not in lacks),
        lacks=tuple(words for one, words in _SEEN.items() if one in lacks),
        grants=tuple(text.format(account=name) for one, text in _GRANTS.items() if one in seen.missing),
    )


@taking(DoctorSpec, progress="Takes a line at a time.")
def doctor(*, progress: Progress = silent, **given: Any) -> Diagnosis:
    """Watches a running server, changes nothing there, and says what bounds its writes.

    With `files`, it judges files in place of a server.

    The arguments are those of `flushlab doctor` under the same names.

    Raises:
        UsageError: an argument makes no sense.
        ServerError: the server does not answer, or refuses the account.
        StorageError: a file cannot be read.
        SamplesDisagree: files of different servers, or of two runs of one.
    """
    spec = build(DoctorSpec, given)
    if spec.files is not None:
        _require_files_alone(given)
        progress(f"reading {spec.files}")
        return diagnose(evidence_of(read(Path(spec.files))))
    return diagnose(watch(_reach(spec), spec.seconds, progress))


@taking(DoctorSpec, progress="Takes a line at a time.")
def account(*, progress: Progress = silent, **given: Any) -> Account:
    """The smallest grants for what the account lacks; arguments and errors as of `doctor`."""
    spec = build(DoctorSpec, given)
    if spec.files is not None:
        raise UsageError("--check-account has no effect with --from", hint="remove one of them")
    return check_account(_reach(spec), progress)


@taking(DoctorSpec)
def reach(**given: Any) -> WatchedServer:
    return _reach(build(DoctorSpec, given))


def _require_files_alone(given: Mapping[str, Any]) -> None:
    known = fields(DoctorSpec)
    for name, value in given.items():
        if name != "files" and value not in (None, False):
            what = known[name].flag if name in known else name
            raise UsageError(f"{what} has no effect with --from", hint="remove one of them")


def _reach(spec: DoctorSpec) -> WatchedServer:
    if spec.server is not None:
        if not spec.server.startswith("sandbox:"):
            raise UsageError(
                f"--server {spec.server} is a build, and no server that runs",
                hint="name a kept sandbox (sandbox:NAME), or your own server by -h, -S or --defaults-file",
            )
        if spec.remote.named_by:
            raise UsageError(
                f"--server and {spec.remote.named_by} cannot be combined", hint="give one of them"
            )
        box = sandbox(server=spec.server)
        return WatchedServer(key=box.name, endpoint=box.endpoint, pid=box.pid)
    address, *others = addresses_of(spec.remote)
    if others:
        raise UsageError("several servers are named", hint="look at one node at a time")
    return watched_at(address)
