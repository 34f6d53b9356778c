"""Circumstances: facts of a server that limit what its diagnosis means, or what its user can do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flushlab.diagnosis.evidence import Evidence
from flushlab.settings.plugins import AURORA
from flushlab.telemetry.live.status import was_reset

RDS, AZURE, CLOUD_SQL = "Amazon RDS", "Azure Database for MySQL", "Google Cloud SQL"
_PREFIXES = {"aurora_": AURORA, "rds_": RDS, "azure_": AZURE, "cloudsql_": CLOUD_SQL}
"""Of variables, the first that fits."""
PLACES = {
    AURORA: "parameter group",
    RDS: "parameter group",
    AZURE: "server parameters",
    CLOUD_SQL: "database flags",
}
"""Where a service has its settings."""
_POOLS = ("pool-of-threads", "loaded-dynamically")
_NO_BARRIERS = {"nobarrier", "barrier=0"}
_CLOCKS_S = 10.0
"""A slow answer, or a clock that is adjusted, moves it by less."""


def service_of(variables: Mapping[str, str], version: str) -> str:
    """The cloud's service that runs the server; empty if it is none that is known here."""
    for prefix, service in _PREFIXES.items():
        if any(name.startswith(prefix) for name in variables):
            return service
    if any(variables.get(name, "").startswith("/rdsdb") for name in ("basedir", "datadir")):
        return RDS
    return CLOUD_SQL if "-google" in version else AZURE if "-azure" in version else ""


def circumstances(evidence: Evidence) -> Iterator[str]:
    """One sentence each."""
    service = service_of(evidence.after.variables, evidence.identity.version_text)
    if service:
        yield (
            f"{service} refuses SET GLOBAL for most settings and has no option file: change them in its"
            f" {PLACES[service]}"
        )
    if service == AURORA:
        yield f"{AURORA} keeps redo and pages on storage of its own: guarantees and redo are not as MySQL's"
    yield from _without_barriers(evidence)
    if evidence.between:
        yield (
            f"a proxy seems to be between ({evidence.between}): answers may come from several servers."
            " Name the server itself"
        )
    if evidence.is_on("read_only") or evidence.is_on("super_read_only"):
        yield "the server is read-only: of replication's writes, only those that have a state are seen"
    if evidence.variable("thread_handling") in _POOLS:
        yield "statements that wait for a thread of the server's thread pool look like their client's turn"
    if evidence.variable("group_replication_group_name"):
        yield "commits of Group Replication include the group's agreement: no state separates it from a sync"
    if (moved_s := _clock_moved_s(evidence)) is not None:
        yield (
            f"the server's clock moved by {moved_s:+,.0f} s in the window: ages of connections and"
            " transactions are off"
        )
    if was_reset(evidence.before, evidence.after):
        yield "FLUSH STATUS has set counters back in the window: watch again"


def _without_barriers(evidence: Evidence) -> Iterator[str]:
    """File systems whose syncs leave the disk's volatile cache as it is (mount(8), `barrier`)."""
    for place in evidence.host.places if evidence.host else ():
        if place.volatile_cache is not False and _NO_BARRIERS & set(place.options):
            yield (
                f"{place.path} is mounted without barriers: syncs do not flush the disk's cache, and the"
                " guarantees hold only if that keeps its data without power"
            )


def _clock_moved_s(evidence: Evidence) -> float | None:
    """The server tells its uptime by the clock; None if that went on as the time here did."""
    before, after = evidence.before.number("uptime"), evidence.after.number("uptime")
    if before is None or after is None or evidence.files or evidence.interrupted:
        return None
    moved_s = after - before - evidence.seconds
    return moved_s if abs(moved_s) > _CLOCKS_S else None
