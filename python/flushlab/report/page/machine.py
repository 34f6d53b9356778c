"""Section: what was measured, on what, and when. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.report.identity import disk_words
from flushlab.report.page.parts import (
    Cell,
    Section,
    Subject,
    Table,
    when,
)
from flushlab.units import counted, format_seconds, format_size


def section(subject: Subject) -> Iterator[Section]:
    """What was measured, on what, and when."""
    rows = tuple((Cell(name, "mute"), Cell(text)) for name, text in _machine_rows(subject) if text)
    yield Section("machine", "Machine and versions", tables=(Table((), rows),))


def _machine_rows(subject: Subject) -> Iterator[tuple[str, str]]:
    what = subject.found
    for one in what.each:
        yield "server", f"{one.server.title} ({one.server.version_text})"
        yield "build", one.server.build_id
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
        if (slow := found.slow_disk) is not None:
            yield "emulated disk", disk_words(slow)
    if (others := what.others) is not None:
        waited = f", after {format_seconds(others.waited_s)} of waiting" if others.waited_s else ""
        yield "before the first trial", f"{others.words}{waited}"
    spent = format_seconds(sum(sum(trial.seconds.values()) for trial in subject.trials))
    yield "measured", f"{when(subject.row)}, {counted(len(subject.trials), 'trial')} in {spent}"
    yield "flushlab", subject.row.flushlab
