"""Semi-synchronous replication: commits wait for a replica's acknowledgement. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK


def find(evidence: Evidence) -> Finding | None:
    """Time in waits for replicas, if there is any."""
    waiting = evidence.time.connections.get("semi-sync", 0.0)
    if not waiting:
        return None
    seen = [Seen(f"{waiting:.1f} writers wait for a replica's acknowledgement, on average")]
    for kind in ("source", "master"):
        if rate := evidence.per_s(f"rpl_semi_sync_{kind}_tx_waits"):
            each_us = evidence.grew(f"rpl_semi_sync_{kind}_tx_wait_time") / max(rate * evidence.seconds, 1e-9)
            text = f"{rate:,.0f} transactions/s waited, {each_us / 1000:.1f} ms each"
            seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync%'"))
    return Finding(
        name="semi_sync",
        title="commits wait for a semi-synchronous replica",
        share=evidence.time.share("semi-sync", delays=(ROW_LOCK,)),
        waits=("semi-sync",),
        seen=tuple(seen),
        advice=(
            "Look at the network and at the replica's relay log syncs (sync_relay_log). Without semi-sync,"
            " the loss of the source also loses the commits that no replica has received."
        ),
    )
