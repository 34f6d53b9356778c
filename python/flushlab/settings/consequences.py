"""Consequences: what a checked option file costs, in guarantees and in memory. Pure; sits in `settings`."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.errors import BelowFloor
from flushlab.record import Launch, ServerIdentity, Storage
from flushlab.settings.candidates import lift
from flushlab.settings.check import Checked
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability import Guarantees, describe, guarantees, level, meets
from flushlab.settings.finding import Finding, Severity
from flushlab.settings.floor import Floor
from flushlab.settings.memory_use import CONNECTIONS, SHARED, memory_use, number_of
from flushlab.units import format_size


def below(checked: Checked, identity: ServerIdentity, storage: Storage, floor: Floor) -> tuple[Finding, ...]:
    """What keeps the file below a floor, each with the line to change."""
    try:
        changes, reasons = lift(checked.given, floor, identity=identity, storage=storage, launch=Launch())
    except BelowFloor as error:
        return (Finding.at(("", 0), "below-floor", "error", "", error.message, error.hint),)
    return tuple(
        Finding.at(
            checked.lines.get(name, ("", 0)),
            "below-floor",
            "error",
            name,
            f"keeps the file below the floor {floor}",
            reason,
        )
        for name, reason in zip(changes, reasons, strict=True)
    )


def at_risk(checked: Checked, path: str, identity: ServerIdentity, storage: Storage) -> tuple[Finding, ...]:
    """What keeps the file below `strict`, each with what it costs: warnings below `second`, else notes."""
    given = checked.given
    before = checked.guarantees(identity, storage)
    try:
        changes, _ = lift(given, Floor.STRICT, identity=identity, storage=storage, launch=Launch())
    except BelowFloor:
        says = f"keeps only the floor {level(before)}: {'; '.join(dict.fromkeys(_kept(before)[:4]))}"
        return (Finding.at((path, 0), "at-risk", "warning", "", says),)
    severity: Severity = "note" if meets(before, Floor.SECOND) else "warning"
    found = []
    for name, value in changes.items():
        after = guarantees({**given, name: value}, identity, storage, Launch())
        costs = [one for one, other in zip(_kept(before), _kept(after), strict=True) if one != other]
        now = Configuration(given, identity).value(name)
        says = (
            f"is {now}{'' if name in checked.lines else ' by default'}: {costs[0] if costs else 'see below'}"
        )
        place = checked.lines.get(name, (path, 0))
        found.append(Finding.at(place, "at-risk", severity, name, says, f"{name} = {value} is safe"))
    return tuple(found)


def _kept(found: Guarantees) -> tuple[str, ...]:
    words = describe(found)
    return tuple(words[key] for key in ("power_loss", "os_crash", "process_crash", "torn_page", "binlog"))


def too_large(checked: Checked, path: str, identity: ServerIdentity, memory_bytes: int) -> Iterator[Finding]:
    """What the file may take of memory, where that is more than there is."""
    use = memory_use(Configuration(checked.given, identity))
    there_is = f"this machine has {format_size(memory_bytes)}"
    hint = "if the file is for another machine, name its memory: --memory 64G"
    if use.shared_bytes > memory_bytes:
        name = max(SHARED, key=lambda one: number_of(Configuration(checked.given, identity), one))
        says = f"makes the shared buffers {format_size(use.shared_bytes)}; {there_is}"
        yield Finding.at(checked.lines.get(name, (path, 0)), "memory", "warning", name, says, hint)
    elif use.worst_bytes > memory_bytes:
        each, worst = format_size(use.connection_bytes), format_size(use.worst_bytes)
        says = (
            f"is {use.connections}: with buffers of {each} each and {format_size(use.shared_bytes)} for all,"
            f" the server may take {worst}; {there_is}"
        )
        place = checked.lines.get(CONNECTIONS, (path, 0))
        yield Finding.at(place, "memory", "warning", CONNECTIONS, says, hint)
