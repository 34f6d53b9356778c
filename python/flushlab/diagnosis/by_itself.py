"""By itself: what a server's version decides without being asked. Pure.

Defaults that differ from those of the series before, and values that the server derives from its machine or
from other settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flushlab.diagnosis.evidence import Evidence
from flushlab.record import Value
from flushlab.record.server import Flavor
from flushlab.settings.catalog import SettingHere, load_catalog

_SERIES: Mapping[Flavor, tuple[tuple[int, ...], ...]] = {
    "mysql": ((5, 7), (8, 0), (8, 4), (9, 7)),
    "mariadb": ((10, 6), (10, 11), (11, 4), (11, 8), (12, 3)),
}
"""With long support, ascending."""
_LAST_PATCH = 99
_DERIVED = ("innodb_buffer_pool_size", "innodb_redo_log_capacity", "innodb_log_file_size")
"""By innodb_dedicated_server (https://dev.mysql.com/doc/refman/8.0/en/innodb-dedicated-server.html)."""
_BY_VERSION = ("gtid_mode",)
"""Whose computed default depends on the version alone."""
_WRITER_THREADS_FROM_CPUS = 32
_WRITER_THREADS_FROM_CPUS_WITHOUT_BINLOG = 5


def by_itself(evidence: Evidence) -> Iterator[str]:
    """One sentence each."""
    yield from _dedicated(evidence)
    yield from _log_writer_threads(evidence)
    yield from _changed_defaults(evidence)


def _is_own(evidence: Evidence, here: SettingHere) -> bool:
    """Whether nobody chose the value."""
    told = evidence.after.origins
    if told is not None:
        return here.variable not in told or told[here.variable].kind == "computed"
    return here.same(evidence.settings[here.name], here.default)


def _dedicated(evidence: Evidence) -> Iterator[str]:
    if not evidence.is_on("innodb_dedicated_server"):
        return
    catalog, server = load_catalog(), evidence.identity
    derived = [
        f"{here.name}={here.render(evidence.settings[name])}"
        for name in _DERIVED
        if name in evidence.settings
        and (here := catalog.here(name, server.flavor, server.version)) is not None
        and _is_own(evidence, here)
    ]
    if derived:
        yield f"innodb_dedicated_server derives {', '.join(derived)} from the machine's memory"
    else:
        yield "innodb_dedicated_server is on and derives nothing: the sizes are set"


def _log_writer_threads(evidence: Evidence) -> Iterator[str]:
    """8.4 on: by the number of logical processors, and since 9.5 by the binary log."""
    server, name = evidence.identity, "innodb_log_writer_threads"
    here = load_catalog().here(name, server.flavor, server.version)
    if here is None or not here.computed or name not in evidence.settings or not _is_own(evidence, here):
        return
    if not evidence.variable("log_bin"):
        return
    has_binlog = evidence.is_on("log_bin")
    least = (
        _WRITER_THREADS_FROM_CPUS_WITHOUT_BINLOG
        if server.version >= (9, 5) and not has_binlog
        else _WRITER_THREADS_FROM_CPUS
    )
    binlog = "with a binary log" if has_binlog else "without a binary log"
    cpus = f", here {evidence.cpus}" if evidence.cpus else ""
    yield f"{name}={evidence.settings[name]}: {binlog}, ON from {least} logical CPUs on{cpus}"


def _changed_defaults(evidence: Evidence) -> Iterator[str]:
    server, catalog = evidence.identity, load_catalog()
    before = _series_before(server.flavor, server.version)
    if before is None:
        return
    series = ".".join(map(str, before))
    for name, value in sorted(evidence.settings.items()):
        here = catalog.here(name, server.flavor, server.version)
        old = catalog.here(name, server.flavor, (*before, _LAST_PATCH))
        if here is None or old is None or here.part or old.computed:
            continue
        if here.computed and name not in _BY_VERSION:
            continue
        if _is_own(evidence, here) and here.same(value, here.default) and not here.same(value, old.default):
            yield f"{name}={_shown(here, value)} by default; {series} had {_shown(old, old.default)}"


def _shown(here: SettingHere, value: Value) -> str:
    return here.render(value) or "none"


def _series_before(flavor: Flavor, version: tuple[int, ...]) -> tuple[int, ...] | None:
    earlier = [one for one in _SERIES[flavor] if one < version[:2]]
    return earlier[-1] if earlier else None
