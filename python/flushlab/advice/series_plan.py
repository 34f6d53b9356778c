"""Series plan: a diagnosis as a plan for `flushlab series`, one arm per change to try. Pure.

The base has the server's settings of durability and those that an arm changes, as far as they are not the
defaults of its version. The workload is a stand-in, with as many connections as there were writers: counters
do not tell what writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flushlab.diagnosis.diagnose import Diagnosis
from flushlab.diagnosis.finding import Change, Finding
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import load_catalog

MOST_THREADS = 64
"""Of the stand-in; more connections are a matter of the machine that runs it."""
_NAME_LENGTH = 40


def series_plan(diagnosis: Diagnosis) -> str | None:
    arms = list(_arms(diagnosis))
    if not arms:
        return None
    evidence = diagnosis.evidence
    server = evidence.identity
    version = ".".join(map(str, server.version[:2]))
    threads = min(MOST_THREADS, max(1, evidence.time.writers))
    lines = [
        f"# Made by flushlab doctor from {server.name}, {_source(diagnosis)}.",
        f"# {diagnosis.answer}",
        "",
        f'title = "What does each change gain on {server.name}?"',
        f"# The series of its release. For the release itself, name that build: {server.name}.",
        f'server = "{server.flavor}@{version}"',
        "",
        "# A stand-in: replace it with your transactions (txn:FILE) or your program (command: …).",
        "[workload]",
        'name = "oltp_update_non_index"',
        f"threads = {threads}",
        "",
        "[base]",
        'text = "Settings of the watched server that are not its defaults."',
        f"settings = {{{_settings(_base(diagnosis))}}}",
    ]
    for name, finding, change in arms:
        cost = f"floor {change.floor}" if change.costs else "costs no guarantee"
        bound = "" if finding.at_most is None else f", at most {finding.at_most:.1f} times as fast"
        lines += [
            "",
            "[[arm]]",
            f'name = "{name}"',
            f'text = "{finding.title}: {cost}{bound}."',
            f"settings = {{{_settings(change.settings)}}}",
        ]
    return "\n".join(lines) + "\n"


def _source(diagnosis: Diagnosis) -> str:
    evidence = diagnosis.evidence
    return (
        f"{evidence.seconds:.0f} s of it in files"
        if evidence.files
        else f"watched for {evidence.seconds:.0f} s"
    )


def _arms(diagnosis: Diagnosis) -> Iterator[tuple[str, Finding, Change]]:
    known = list[Mapping[str, Value]]()
    for finding in diagnosis.findings:
        for change in finding.changes:
            if change.settings not in known:
                known.append(change.settings)
                yield _name(change.settings, diagnosis.evidence.identity), finding, change


def _name(settings: Mapping[str, Value], server: ServerIdentity) -> str:
    catalog = load_catalog()
    values = {
        name.removeprefix("innodb_"): catalog.require(name, server.flavor, server.version).render(value)
        for name, value in settings.items()
    }
    whole = ", ".join(f"{name}={value}" for name, value in values.items())
    return whole if len(whole) <= _NAME_LENGTH else ", ".join(values)[:_NAME_LENGTH]


def _base(diagnosis: Diagnosis) -> dict[str, Value]:
    evidence, catalog = diagnosis.evidence, load_catalog()
    server = evidence.identity
    changed = {name for one in diagnosis.findings for change in one.changes for name in change.settings}
    found = dict[str, Value]()
    for name, value in evidence.settings.items():
        here = catalog.here(name, server.flavor, server.version)
        if here is None or here.type == "string" or here.entry.layout or here.same(value, here.default):
            continue
        if name in changed or here.entry.durability:
            found[name] = value
    return found


def _settings(settings: Mapping[str, Value]) -> str:
    parts = [f"{name} = {_toml(value)}" for name, value in settings.items()]
    return f" {', '.join(parts)} " if parts else ""


def _toml(value: Value) -> str:
    if value in ("ON", "OFF"):
        return "true" if value == "ON" else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
