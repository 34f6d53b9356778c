"""`flushlab doctor`: what bounds the writes of a running server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flushlab.cli import options
from flushlab.cli.consoles import stdout
from flushlab.cli.output import Forms, require_writable, say, write_file
from flushlab.errors import NEGATIVE, NotWritable, UsageError
from flushlab.spec import Option
from flushlab.spec.commands import DoctorSpec
from flushlab.undo import SIGNALS

if TYPE_CHECKING:
    from flushlab.diagnosis.diagnose import Diagnosis

SPEC = DoctorSpec
ABOVE = "free some space and name another file next time; the diagnosis is printed above"


def doctor(
    given: Mapping[str, Any],
    full: Annotated[bool, Option("Also show hints, and the statement behind each number.")] = False,
    check_account: Annotated[
        bool, Option("Only report what the account may see, and the smallest GRANT for the rest.")
    ] = False,
    plan: Annotated[
        Path | None,
        Option("Write a plan for flushlab series that tests the changes to try.", metavar="FILE"),
    ] = None,
    html: Annotated[str | None, Option("Also write an HTML page with plots.", metavar="FILE")] = None,
    json: options.Json = None,
    markdown: options.Markdown = None,
) -> None:
    """Find what bounds the writes of a running server.

    Watches for half a minute and changes nothing on the server. Reports where
    writers spend their time, the most that a fix can gain, and its cost in
    guarantees.

    \b
    Examples:
      flushlab doctor -h db1 -u monitor -p
      flushlab doctor --defaults-file ~/.my.cnf --seconds 60 --full
      flushlab doctor --server sandbox:demo --plan plan.toml --html doctor.html
      flushlab doctor --from ./pt-stalk
      flushlab doctor -h db1 -u monitor -p --check-account

    With --check-account, exits with 1 if the account lacks a privilege.
    """
    from flushlab.diagnosis.doctor import account
    from flushlab.diagnosis.doctor import doctor as run
    from flushlab.report import doctor as report

    if check_account:
        files = (("--plan", plan), ("--html", html), ("--markdown", markdown), ("--json", json))
        for flag, is_given in (("--full", full), *files):
            if is_given:
                raise UsageError(f"{flag} has no effect with --check-account", hint="remove one of them")
        found = account(**given, progress=say)
        stdout.print(report.account_words(found), soft_wrap=True)
        raise SystemExit(NEGATIVE if found.lacks else 0)
    if plan is not None and (plan.exists() or plan.is_symlink()):
        raise NotWritable(f"{plan} exists already", hint="it may have your changes: name a new file")
    if plan is not None and str(plan) == "-":
        raise UsageError("--plan writes a file", hint="name a new file, such as plan.toml")
    if html == "-":
        raise UsageError("--html writes a file", hint="--markdown - and --json - write to stdout")
    forms = Forms(json, markdown, html)
    forms.require_writable()
    require_writable(str(plan) if plan else None)
    diagnosis = run(**given, progress=say)
    forms.deliver(
        report.document(diagnosis),
        report.as_json(diagnosis),
        *([partial(_write_plan, diagnosis, plan)] if plan else []),
        kept=ABOVE,
        full=full,
    )
    if diagnosis.evidence.interrupted in SIGNALS:
        raise SystemExit(130)


def _write_plan(diagnosis: Diagnosis, path: Path) -> None:
    from flushlab.advice.series_plan import series_plan

    text = series_plan(diagnosis)
    if text is None:
        say(f"no plan: no finding has a setting to try, so {path} is not written")
        return
    write_file(path, text.encode(), new=True)
    say(f"wrote {path}: flushlab series {path} tests the changes on sandboxes")
