"""Galera: commits wait for certification or for flow control. Pure."""

from __future__ import annotations

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding, Seen
from flushlab.diagnosis.waits import ROW_LOCK


def find(evidence: Evidence) -> Finding | None:
    """Time in the cluster's part of a commit, if there is any."""
    time = evidence.time
    waiting = time.connections.get("certification", 0.0) + time.connections.get("flow control", 0.0)
    paused_ns = evidence.grew("wsrep_flow_control_paused_ns")
    if not waiting and not paused_ns:
        return None
    paused = paused_ns / 1e9 / evidence.seconds if evidence.seconds > 0 else 0.0
    seen = [
        Seen(f"{waiting:.1f} writers wait for the cluster, on average"),
        Seen(f"flow control paused the cluster {paused:.0%} of the time", "SHOW GLOBAL STATUS LIKE 'wsrep%'"),
        Seen(f"{evidence.grew('wsrep_local_cert_failures'):,.0f} certification failures"),
    ]
    is_paused = paused > 0.05
    return Finding(
        name="galera",
        title="a slow node holds the cluster back"
        if is_paused
        else "commits wait for the cluster's certification",
        share=time.share("certification", "flow control", delays=(ROW_LOCK,)),
        waits=("certification", "flow control"),
        seen=tuple(seen),
        advice=(
            "Find the node with the longest wsrep_local_recv_queue_avg; give it more wsrep_slave_threads or a"
            " faster disk."
            if is_paused
            else "Each commit takes a round trip to the farthest node: commit more rows at once, or in more"
            " connections."
        ),
    )
