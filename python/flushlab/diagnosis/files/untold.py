"""Untold: what files do not tell, and which file would. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.files.folder import Found
from flushlab.diagnosis.shares import LEAST_SAMPLES
from flushlab.units import counted, format_seconds

_ASSUMED = (
    *("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite"),
    "innodb_flush_method",
)
"""Settings of durability. mysqld_exporter has none that are no numbers; some people list only InnoDB's."""
_NO_MONITOR = "no SHOW ENGINE INNODB STATUS"
_TOLD_BY_COUNTERS = {
    "innodb_buffer_pool_wait_free": "waits for a free page",
    "innodb_log_waits": "waits for the log buffer",
    "innodb_row_lock_waits": "waits for row locks",
    "binlog_cache_disk_use": "transactions larger than binlog_cache_size",
}


def untold(evidence: Evidence, found: Found) -> Iterator[str]:
    """Each thing that could not be judged: the thing, then the reason behind a colon."""
    after, monitors = evidence.after, evidence.monitors
    every = [told for file in found.files for told in file.told.values()]
    if not evidence.seconds:
        yield from _rates(evidence)
    if not evidence.time.is_sample:
        yield (
            "where writers spend their time: commits, metadata locks, semi-sync, clients. It takes"
            f" {LEAST_SAMPLES} lists of connections or more, as pt-stalk collects them every second"
        )
    if not evidence.checkpoint_ages:
        yield f"how full the redo log is: {'the section LOG is missing' if monitors else _NO_MONITOR}"
    elif not (after.redo.capacity or after.number("innodb_checkpoint_max_age")):
        yield "how full the redo log is: no SHOW GLOBAL VARIABLES shows its size"
    if not monitors and not any(told.transactions for told in every):
        yield f"row locks, open transactions and InnoDB's latches: {_NO_MONITOR}"
    if not evidence.identity.version:
        yield "settings and guarantees: no SHOW GLOBAL VARIABLES shows the server's version"
    elif not evidence.settings:
        yield "settings and guarantees: no SHOW GLOBAL VARIABLES"
    if evidence.settings and (missing := [one for one in _ASSUMED if one not in after.variables]):
        yield f"{', '.join(missing)}: no file has their values, so the guarantees are those of the defaults"
    if evidence.host is None:
        yield "the machine: its side is in pt-stalk's samples"
    else:
        yield from evidence.host.unseen
    timeless = sum(told.timeless for told in every)
    if timeless and evidence.seconds:
        yield f"{counted(timeless, 'status')}: without Uptime, as if cut short"
    absent = dict.fromkeys(name for one in monitors for name in one.absent)
    if absent:
        yield f"parts of SHOW ENGINE INNODB STATUS: {', '.join(absent)}, cut off"
    if found.left_out:
        yield f"{counted(len(found.left_out), 'file')}: they tell nothing of a server"


def _rates(evidence: Evidence) -> Iterator[str]:
    """Counters of a single status: whether they grow now is not told."""
    uptime = evidence.after.number("uptime")
    if not uptime:
        what = "no status has Uptime, so nothing tells the time between two" if evidence.after.status else ""
        yield f"rates: {what or 'no SHOW GLOBAL STATUS'}; take two in whole, some seconds apart"
        return
    counts = [
        f"{count:,.0f} {words}"
        for name, words in _TOLD_BY_COUNTERS.items()
        if (count := evidence.after.number(name))
    ]
    since = f". Since its start {format_seconds(uptime)} before, the server counted {', '.join(counts)}"
    yield (
        "rates: they need two SHOW GLOBAL STATUS; take a second, some seconds later"
        f"{since + '; whether they go on is not told' if counts else ''}"
    )
