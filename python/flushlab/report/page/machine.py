"""Section: what was measured, on what, and when. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.campaign.facts import CampaignFacts
from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
    when,
)
from flushlab.report.stored import workload_of
from flushlab.report.words import disk_words, sizes
from flushlab.units import counted, format_seconds, format_size


def section(subject: Subject) -> Iterator[Section]:
    """What was measured, on what, and when."""
    rows = tuple((Cell(name, "mute"), Cell(text)) for name, text in _machine_rows(subject) if text)
    yield Section("machine", "Machine and versions", tables=(Table((), rows),))


def _machine_rows(subject: Subject) -> Iterator[tuple[str, str]]:
    facts = subject.facts
    for one in subject.servers:
        yield "server", f"{one.server.title} ({one.server.version_text})"
        yield "build", one.server.build_id
    arguments = next((t.launch.arguments for t in subject.trials if t.launch and t.launch.arguments), ())
    yield "arguments", " ".join(arguments)
    yield "workload", facts.workload if facts is not None else workload_of(subject.request)
    if facts is not None:
        yield from _known(facts)
    spent = format_seconds(sum(sum(trial.seconds.values()) for trial in subject.trials))
    yield "measured", f"{when(subject.row)}, {counted(len(subject.trials), 'trial')} in {spent}"
    yield "flushlab", subject.row.flushlab


def _known(facts: CampaignFacts) -> Iterator[tuple[str, str]]:
    names = {"data": "data", "pool": "buffer pool", "redo": "redo capacity"}
    yield from ((names[name], size) for name, size in sizes(facts).items())
    found = facts.machine
    if found.is_client:
        yield "client", "flushlab ran on the machine below; the server's host cannot be seen"
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
    if (slow := found.slow_disk) is not None:
        yield "emulated disk", disk_words(slow)
    if (others := facts.others) is not None:
        waited = f", after {format_seconds(others.waited_s)} of waiting" if others.waited_s else ""
        yield "before the first trial", f"{others.words}{waited}"
