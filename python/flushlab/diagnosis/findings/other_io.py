"""Other I/O: another process writes to the server's disk, which is busy, while commits wait. Pure.

That all of it happens in one window is no proof. The experiment that separates them is to stop the other
process.
"""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import PROCESSOR, ROW_LOCK
from flushlab.units import format_size

_MUCH = 0.25
"""Of the bytes that the server and the others write."""
_BUSY = 0.5
_WORTH_A_LINE = 0.1


def find(evidence: Evidence) -> Finding | None:
    """Others that write much to a busy disk, if they are in sight."""
    host = evidence.host
    if evidence.write_time is not None and not evidence.time.total:
        return None  # nobody waits
    disk = host.data_disk if host else None
    if host is None or disk is None or disk.utilisation < _BUSY:
        return None
    others = [one for one in host.writers if one.on_data is not False]
    rate = sum(one.bytes_per_s for one in others)
    # Without the server's own figure, the disk's has both.
    whole = rate + host.bytes_per_s if host.bytes_per_s is not None else disk.writes.bytes_per_s or 0.0
    part = min(1.0, rate / whole) if whole else 0.0
    if part < _MUCH:
        return None
    name = others[0].name
    own = "" if host.bytes_per_s is None else f"; the server {format_size(host.bytes_per_s)}/s"
    seen = [
        Seen(
            f"{one.name} ({'process' if len(one.pids) == 1 else f'{len(one.pids)} processes, most by'}"
            f" {one.pids[0]}) wrote {format_size(one.bytes_per_s)}/s{own} (/proc/PID/io)"
        )
        for one in others
        if one.bytes_per_s >= _WORTH_A_LINE * rate
    ]
    seen.append(Seen(f"{disk.disk} was busy {disk.utilisation:.0%} of the time (/proc/diskstats)"))
    return Finding(
        name="other_io",
        title=f"{name} writes to the server's disk, which is busy {disk.utilisation:.0%} of the time",
        # Commits wait for syncs; statements may wait for pages that are written or read.
        share=evidence.time.within(part, "commit", delays=("statement", ROW_LOCK, PROCESSOR)),
        waits=("commit",),
        seen=tuple(seen),
        advice=(
            f"flushlab cannot see whether writers wait for {name}. Stop it for a minute and run doctor again:"
            " if writes become faster, limit it or move it elsewhere."
        ),
        is_proven=False,
    )
