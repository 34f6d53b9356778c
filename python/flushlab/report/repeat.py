"""Repeat: the command line that a campaign's specification stands for. Pure.

Sits in `report`; the page shows it, and the terminal where the command is short enough to be of use.
"""

from __future__ import annotations

import msgspec

from flushlab.redact import without_passwords
from flushlab.report.stored import Request
from flushlab.spec.words import words


def command(request: Request) -> str:
    """The command line, an option a line, without passwords."""
    spec = request.spec
    if (workload := getattr(spec, "workload", None)) is not None:
        hidden = msgspec.structs.replace(workload, name=without_passwords(workload.name))
        spec = msgspec.structs.replace(spec, workload=hidden)
    remote = getattr(spec, "remote", None)
    if remote is not None and remote.defaults_file:  # which has the account that the address lacks
        spec = msgspec.structs.replace(spec, remote=msgspec.structs.replace(remote, dsn=None))
    return " \\\n  ".join([f"flushlab {spec.kind}", *words(spec)])
