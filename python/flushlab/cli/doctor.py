"""`flushlab doctor`: what bounds the writes of a running server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from flushlab.cli import options
from flushlab.cli.output import deliver_result, require_writable, say
from flushlab.spec import Option
from flushlab.spec.commands import DoctorSpec

SPEC = DoctorSpec
ABOVE = "free some space and name another file next time; the diagnosis is printed above"


def doctor(
    given: Mapping[str, Any],
    full: Annotated[bool, Option("Also show hints, and the statement behind each number.")] = False,
    json: options.Json = None,
) -> None:
    """Find what bounds the writes of a running server.

    Watches for half a minute and changes nothing on the server. Reports where
    writers spend their time, the most that mending can gain, and its cost in
    guarantees.

    \b
    Examples:
      flushlab doctor -h db1 -u monitor -p
      flushlab doctor --defaults-file ~/.my.cnf --seconds 60 --full
      flushlab doctor --server sandbox:demo --json -
    """
    from flushlab.diagnosis.doctor import doctor as run
    from flushlab.report import doctor as report

    require_writable(json)
    diagnosis = run(**given, progress=say)
    deliver_result(report.render(diagnosis, full=full), report.document(diagnosis), json, kept=ABOVE)
    if diagnosis.evidence.interrupted == "Ctrl-C":
        raise SystemExit(130)
