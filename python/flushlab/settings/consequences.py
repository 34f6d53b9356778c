"""Consequences: what a checked option file costs, in guarantees and in memory. Pure; sits in `settings`."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.errors import BelowFloor
from flushlab.record import Launch, ServerIdentity, Storage
from flushlab.settings.candidates import raise_to_floor
from flushlab.settings.check import Checked
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import Guarantees, describe, guarantees, level, meets
from flushlab.settings.fit import CONNECTIONS, SHARED, memory_use, number_of
from flushlab.settings.floor import Floor
from flushlab.settings.optionfile import Finding, Severity
from flushlab.units import format_size


def below(
    checked: Checked, path: str, identity: ServerIdentity, storage: Storage, floor: Floor
) -> tuple[Finding, ...]:
    """What keeps the file below a floor, each with the line to change."""
    try:
        changes, reasons = raise_to_floor(
            checked.given, floor, identity=identity, storage=storage, launch=Launch()
        )
    except BelowFloor as error:
        return (Finding("below-floor", "error", "", path, 0, error.message, error.hint),)
    given, keeps = Configuration(checked.given, identity), f"keeps the file below the floor {floor}"
    found = []
    for name, reason in zip(changes, reasons, strict=True):
        says = keeps if name in checked.lines else f"is {given.value(name)} by default, which {keeps}"
        place = checked.lines.get(name, (path, 0))
        found.append(Finding("below-floor", "error", name, *place, says, reason))
    return tuple(found)


def at_risk(checked: Checked, path: str, identity: ServerIdentity, storage: Storage) -> tuple[Finding, ...]:
    """What keeps the file below `strict`, with what each alone costs: a warning below `second`, else a note.

    A setting is judged with the others at their safe values, so that no line tells of another's risk.
    """
    given = checked.given
    try:
        changes, _ = raise_to_floor(given, Floor.STRICT, identity=identity, storage=storage, launch=Launch())
    except BelowFloor:
        before = checked.guarantees(identity, storage)
        lost = dict.fromkeys(part for one in _kept(before)[:4] for part in one.split("; "))
        says = f"keeps only the floor {level(before)}: {'; '.join(lost)}"
        return (Finding("at-risk", "warning", "", path, 0, says),)
    found = []
    for name, value in changes.items():
        others = {other: safe for other, safe in changes.items() if other != name}
        alone = guarantees({**given, **others}, identity, storage, Launch())
        safe = guarantees({**given, **changes}, identity, storage, Launch())
        now = Configuration(given, identity).value(name)
        says = f"is {now}{'' if name in checked.lines else ' by default'}: {_cost(alone, safe)}"
        severity: Severity = "note" if meets(alone, Floor.SECOND) else "warning"
        place = checked.lines.get(name, (path, 0))
        found.append(Finding("at-risk", severity, name, *place, says, f"{name} = {value} is safe"))
    return tuple(found)


def _cost(found: Guarantees, safe: Guarantees) -> str:
    """The worst that the one keeps less than the other, and when."""
    text = next(one for one, other in zip(_kept(found), _kept(safe), strict=True) if one != other)
    if text != describe(found)["power_loss"]:
        return text
    killed = found.process_crash != safe.process_crash
    return f"when {'mysqld, ' if killed else ''}the OS or the power fails, {text}"


def _kept(found: Guarantees) -> tuple[str, ...]:
    words = describe(found)
    return tuple(words[key] for key in ("power_loss", "os_crash", "process_crash", "torn_page", "binlog"))


def too_large(
    checked: Checked, path: str, identity: ServerIdentity, memory_bytes: int, *, named: bool = False
) -> Iterator[Finding]:
    """What the file may take of memory, where that is more than there is; `named`: the user said how much."""
    use = memory_use(Configuration(checked.given, identity))
    there_is = f"{'--host-memory is' if named else 'this machine has'} {format_size(memory_bytes)}"
    hint = None if named else "if the file is for another machine, name its memory: --host-memory 64G"
    if use.shared_bytes > memory_bytes:
        name = max(SHARED, key=lambda one: number_of(Configuration(checked.given, identity), one))
        says = f"makes the shared buffers {format_size(use.shared_bytes)}; {there_is}"
        yield Finding("memory", "warning", name, *checked.lines.get(name, (path, 0)), says, hint)
    elif use.worst_bytes > memory_bytes:
        each, worst = format_size(use.connection_bytes), format_size(use.worst_bytes)
        says = (
            f"is {use.connections}: with buffers of {each} each and {format_size(use.shared_bytes)} for all,"
            f" the server may take {worst}; {there_is}"
        )
        place = checked.lines.get(CONNECTIONS, (path, 0))
        yield Finding("memory", "warning", CONNECTIONS, *place, says, hint)
