"""Semi-synchronous replication: commits wait for a replica's acknowledgement. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen, wait
from flushlab.diagnosis.waits import ROW_LOCK


def find(evidence: Evidence) -> Finding | None:
    """Time in waits for replicas, or sessions that wait now, if there are any."""
    time = evidence.time
    names = [f"rpl_semi_sync_{kind}_wait_sessions" for kind in ("source", "master")]
    waiting = max(int(evidence.after.number(name) or 0) for name in names)
    is_seen = bool(time.connections.get("semi-sync"))
    if not is_seen and not (waiting and time.share("semi-sync") is None):
        return None
    seen = [Seen(time.told("wait for a replica's acknowledgement", "semi-sync"))] if is_seen else []
    if waiting:
        text = f"{wait(waiting, 'session')} for a replica at the window's end"
        seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync%'"))
    for kind in ("source", "master"):
        if rate := evidence.per_s(f"rpl_semi_sync_{kind}_tx_waits"):
            each_us = evidence.grew(f"rpl_semi_sync_{kind}_tx_wait_time") / max(rate * evidence.seconds, 1e-9)
            text = f"{rate:,.0f} transactions/s waited, {each_us / 1000:.1f} ms each"
            seen.append(Seen(text, "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync%'"))
    return Finding(
        name="semi_sync",
        title="commits wait for a semi-synchronous replica",
        share=time.share("semi-sync", delays=(ROW_LOCK,)),
        waits=("semi-sync",),
        unmeasured="" if is_seen else f"{wait(waiting, 'session')} for a semi-synchronous replica",
        seen=tuple(seen),
        advice=(
            "Look at the network and at the replica's relay log syncs (sync_relay_log). Without semi-sync,"
            " the loss of the source also loses the commits that no replica has received."
        ),
    )
