"""Sections of a page that put the figures into their place. Pure.

Settings, claims, guarantees, doubts, the machine, how to repeat it, and what is not among the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from flushlab.errors import ValueOutOfRange
from flushlab.plan.plan import BASE
from flushlab.record import ServerIdentity, Value
from flushlab.report.page_parts import Cell, Section, Subject, Table, interval, times, when
from flushlab.report.page_repeat import command, plan_text
from flushlab.report.tune import spell
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.units import format_seconds, format_size

# -- settings --------------------------------------------------------------------------------------------


def settings(subject: Subject) -> Iterator[Section]:
    """What differs from the default, in the base and in the arm of the answer, as read back."""
    what = subject.found
    if what.server is None:
        return
    columns = {"base": _read_back(subject, BASE) or dict(what.base)}
    if what.chosen is not None and (own := _read_back(subject, what.chosen)):
        columns["winner" if subject.row.kind == "tune" else what.chosen] = own
    rows = [
        (any("changed" in cell.kind for cell in cells), cells)
        for name in dict.fromkeys(name for values in columns.values() for name in values)
        if (
            cells := _setting_row(
                name, [values.get(name) for values in columns.values()], what.server, what.base
            )
        )
    ]
    if not rows:
        return
    rows.sort(key=lambda row: not row[0])
    head = (Cell("setting"), Cell("default"), *(Cell(name) for name in columns))
    lead = "Settings that differ from this version's default, as the server read them back" + (
        "; changed settings come first." if len(columns) > 1 else "."
    )
    yield Section("settings", "Settings", lead, tables=(Table(head, tuple(cells for _, cells in rows)),))


def _read_back(subject: Subject, arm: str) -> dict[str, Value]:
    own = subject.arms.get(arm)
    return dict(own[-1].settings) if own else {}


def _setting_row(
    name: str, values: list[Value | None], server: ServerIdentity, base: Mapping[str, Value]
) -> tuple[Cell, ...]:
    """The setting's row; empty where it has its default, or a computed one that nobody set."""
    catalog = load_catalog()
    here = catalog.here(name, server.flavor, server.version) if name in catalog else None
    default = here.default if here is not None and not here.computed else None
    changed = any(not _same(here, values[0], value) for value in values[1:])
    usual = name not in base if default is None else all(_same(here, default, value) for value in values)
    if usual and not changed:
        return ()
    shown = "depends" if here is not None and here.computed else "?"
    return (
        Cell(name, "code", here.entry.effect if here is not None else ""),
        Cell(shown if default is None else _spell(here, default), "mute"),
        *(
            Cell(_spell(here, value), "changed" if not _same(here, values[0], value) else "")
            for value in values
        ),
    )


def _same(here: SettingHere | None, one: Value | None, other: Value | None) -> bool:
    if here is None or one is None or other is None:
        return one == other
    return here.same(one, other)


def _spell(here: SettingHere | None, value: Value | None) -> str:
    if value is None:
        return ""
    if here is None:
        return spell(value)
    try:
        return here.render(value) or "(empty)"
    except ValueOutOfRange:
        return str(value)


# -- claims, guarantees, doubts --------------------------------------------------------------------------

_ANSWERS = {"confirmed": "good", "refuted": "bad"}
_FAILURES = {
    "process_crash": "the server crashes",
    "os_crash": "the OS crashes",
    "power_loss": "the power goes",
    "torn_page": "a page is torn",
    "replication": "replicas",
}
_OUTCOMES = {
    "void": "disturbed by other load",
    "refused": "refused by the server",
    "failed": "failed",
    "invalid": "invalid: a setting read back differently",
}


def claims(subject: Subject) -> Iterator[Section]:
    """What a plan claims, answered."""
    rows = tuple(
        (
            Cell(
                claim.text,
                "",
                f"{claim.arm} against {'the base' if claim.against == BASE else claim.against}"
                + (f" · {claim.source}" if claim.source else ""),
            ),
            Cell(claim.wanted, "num"),
            Cell(times(claim.ratio.estimate), "num", interval(claim.ratio))
            if claim.ratio
            else Cell("", "num"),
            Cell(claim.answer, _ANSWERS.get(claim.answer, "mute")),
        )
        for claim in subject.found.claims
    )
    if rows:
        head = (Cell("claim"), Cell("claimed", "num"), Cell("measured", "num"), Cell("answer"))
        lead = (
            "What was claimed of these changes, and what was measured on this server and disk. Refuted: the "
            "interval excludes the claim. Undecided: the interval is too wide to tell."
        )
        yield Section("claims", "Claims", lead, tables=(Table(head, rows),))


def guarantees(subject: Subject) -> Iterator[Section]:
    """What each failure costs, before and after."""
    columns = {name: texts for name, texts in subject.found.guarantees.items() if texts}
    if not columns:
        return
    before = next(iter(columns.values()))
    rows = []
    for failure, words in _FAILURES.items():
        texts = [own.get(failure, "") for own in columns.values()]
        cells = (Cell(text, "" if text == before.get(failure, "") else "changed") for text in texts)
        if any(texts):
            rows.append((Cell(words, "name"), *cells))
    heads = {"your base": "before: your base", "winner": "after: the winner"}
    tables = [Table((Cell("when"), *(Cell(heads.get(name, name)) for name in columns)), tuple(rows))]
    otherwise = tuple(_otherwise(subject.found.weaker))
    if otherwise:
        head = (Cell("arm"), Cell("when"), Cell("what is kept"))
        tables.append(Table(head, otherwise, "Arms whose guarantees differ from the base's"))
    recovery = tuple(
        f"Recovery after SIGKILL under load, {arm}: {format_seconds(seconds)}."
        for arm, seconds in subject.found.recovery_s.items()
    )
    lead = "What happens to acknowledged commits in each failure, by the rules for this version and disk."
    yield Section("guarantees", "What a failure costs", lead, tables=tuple(tables), notes=recovery)


def _otherwise(arms: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[Cell, ...]]:
    """A row per arm and text; failures that cost the same stand together."""
    for arm, texts in arms.items():
        failures: dict[str, list[str]] = {}
        for failure, words in _FAILURES.items():
            if failure in texts:
                failures.setdefault(texts[failure], []).append(words)
        for text, words_of in failures.items():
            yield Cell(arm, "name"), Cell(", ".join(words_of)), Cell(text)


def doubts(subject: Subject) -> Iterator[Section]:
    """Warnings of the whole and of trials, and trials that did not count."""
    whole = len(subject.trials)
    rows = [(Cell(warning.text), Cell("the whole", "num mute")) for warning in subject.found.warnings]
    told = {warning.text for warning in subject.found.warnings}
    seen: dict[str, list[str]] = {}
    for trial in subject.trials:
        for warning in trial.warnings:
            seen.setdefault(warning.slug, []).append(warning.text)
    for slug, own in seen.items():
        if not told.intersection(own):
            first = f", first of {len(own):,}" if len(own) > 1 else ""
            rows.append((Cell(own[0], "", f"{slug}{first}"), _share(len(own), whole)))
    outcomes = Counter(trial.outcome for trial in subject.trials if trial.outcome != "measured")
    rows += [(Cell(f"Trials {_OUTCOMES[name]}"), _share(count, whole)) for name, count in outcomes.items()]
    if rows:
        lead = "Reasons not to take the figures at face value."
        table = Table((Cell("doubt"), Cell("about", "num")), tuple(rows))
        yield Section("doubts", "Warnings and doubts", lead, tables=(table,))
    elif subject.facts is not None:
        yield Section("doubts", "Warnings and doubts", "None.")


def _share(count: int, whole: int) -> Cell:
    return Cell(f"{count:,} of {whole:,} trials", "num")


# -- where, how, what is not in it -----------------------------------------------------------------------


def machine(subject: Subject) -> Iterator[Section]:
    """What was measured, on what, and when."""
    rows = tuple((Cell(name, "mute"), Cell(text)) for name, text in _machine_rows(subject) if text)
    yield Section("machine", "Machine and versions", tables=(Table((), rows),))


def _machine_rows(subject: Subject) -> Iterator[tuple[str, str]]:
    what = subject.found
    if what.server is not None:
        yield "server", f"{what.server.name} ({what.server.version_text})"
        yield "build", what.server.build_id
    arguments = next((t.launch.arguments for t in subject.trials if t.launch and t.launch.arguments), ())
    yield "arguments", " ".join(arguments)
    yield "workload", what.workload
    sizes = (("data", what.data_bytes), ("buffer pool", what.pool_bytes), ("redo capacity", what.redo_bytes))
    for name, size in sizes:
        yield name, format_size(size) if size is not None else ""
    if (found := what.machine) is not None:
        yield "processor", f"{found.cpu_model}, {found.cpu_count} usable"
        yield "memory", format_size(found.memory_bytes)
        yield "kernel", found.kernel
        yield "file system", found.filesystem
        caches = {True: "volatile write cache", False: "no volatile write cache", None: ""}
        parts = (found.device, found.scheduler, caches[found.volatile_cache])
        yield "device", ", ".join(part for part in parts if part)
        if (limit := found.disk_limit) is not None:
            syncs = f", {limit.measured_syncs_per_s:.0f} synced" if limit.measured_syncs_per_s else ""
            gave = f"{limit.measured_write_iops:.0f} measured{syncs}"
            yield "disk limit", f"{limit.write_iops} writes/s requested, {gave} ({limit.way})"
    spent = format_seconds(sum(sum(trial.seconds.values()) for trial in subject.trials))
    yield "measured", f"{when(subject.row)}, {len(subject.trials):,} trials in {spent}"
    yield "flushlab", subject.row.flushlab


def repeat(subject: Subject) -> Iterator[Section]:
    """The command and the plan."""
    row, plan = subject.row, subject.plan
    code = [("", command(row, plan))] if plan.build else []
    if text := plan_text(row, plan):
        code.append(("The plan" if plan.plan_text else "The plan as stored", text))
    notes = []
    if row.state != "done":
        notes.append(f"To resume it: flushlab {row.kind} --resume {row.id}")
    if row.kind == "tune":
        notes.append("The effect of --keep and --memory shows only in the plan's list of candidates.")
    if code or notes:
        yield Section("repeat", "How to repeat it", code=tuple(code), notes=tuple(notes))


def left_out(subject: Subject) -> Iterator[Section]:
    """Arms and changes that are not among the results."""
    rows = tuple((Cell(one.what, "name"), Cell(one.how), Cell(one.reason)) for one in subject.found.left_out)
    if rows:
        head = (Cell("arm or change"), Cell("outcome"), Cell("why"))
        yield Section("left-out", "Not among the results", tables=(Table(head, rows),))
