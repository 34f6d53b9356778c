"""Untold: what files do not tell, and which file would. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.files.folder import Found
from flushlab.units import format_seconds

LEAST_MOMENTS = 5
"""Lists of connections below which they are no sample of the writers' time."""
_ASSUMED = (
    *("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite"),
    "innodb_flush_method",
)
"""Settings of durability. mysqld_exporter has none that are no numbers; some people list only InnoDB's."""
_TOLD_BY_COUNTERS = {
    "innodb_buffer_pool_wait_free": "waits for a free page",
    "innodb_log_waits": "waits for the log buffer",
    "innodb_row_lock_waits": "waits for row locks",
    "binlog_cache_disk_use": "transactions larger than binlog_cache_size",
}


def untold(evidence: Evidence, found: Found) -> Iterator[str]:
    """Each thing that could not be judged."""
    if not evidence.seconds:
        yield from _rates(evidence)
    if evidence.write_time is None:
        yield (
            "where writers spend their time (commits, metadata locks, semi-sync, clients): it takes"
            f" {LEAST_MOMENTS} lists of connections or more, as pt-stalk collects them every second"
        )
    if not evidence.checkpoint_ages:
        yield "how full the redo log is: no SHOW ENGINE INNODB STATUS"
    elif not (evidence.after.redo.capacity or evidence.after.number("innodb_checkpoint_max_age")):
        yield "how full the redo log is: no SHOW GLOBAL VARIABLES shows its size"
    if not evidence.monitors and not evidence.transactions:
        yield "open transactions and InnoDB's latches: no SHOW ENGINE INNODB STATUS"
    if not evidence.identity.version:
        yield "settings and guarantees: no SHOW GLOBAL VARIABLES shows the server's version"
    elif not evidence.settings:
        yield "settings and guarantees: no SHOW GLOBAL VARIABLES"
    if evidence.settings and (missing := [one for one in _ASSUMED if one not in evidence.after.variables]):
        yield f"{', '.join(missing)}: no file has their values, so the guarantees are those of the defaults"
    if evidence.host is None:
        yield "the machine: its side is in pt-stalk's samples"
    else:
        yield from evidence.host.unseen
    cut = sum(told.cut for file in found.files for told in file.told.values())
    if cut:
        yield f"{cut} of the statuses, cut short before Uptime"
    if any(not one.whole for one in evidence.monitors):
        yield "parts of SHOW ENGINE INNODB STATUS, cut short"


def _rates(evidence: Evidence) -> Iterator[str]:
    """Counters of a single status: whether they grow now is not told."""
    uptime = evidence.after.number("uptime")
    if not uptime:
        yield "rates: no SHOW GLOBAL STATUS; take two, some seconds apart"
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
