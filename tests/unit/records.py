"""Records as tests need them: real structs with plausible figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flushlab.record import Arm, Latency, LoadResult, ServerIdentity, Storage, Trial, Value

MARIADB = ServerIdentity(
    flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB-0+deb12u1", build_id="mariadb-x"
)


def load_result(throughput: float = 10_000.0) -> LoadResult:
    return LoadResult(
        seconds=5.0,
        events=int(throughput * 5),
        throughput=throughput,
        per_second=(int(throughput),) * 5,
        latency_us=Latency(mean=800.0, p50=750, p95=1200, p99=1900, p999=4000, max=9000),
        client_cpu_us_per_event=11.5,
    )


def trial(settings: Mapping[str, Value] | None = None, result: float = 10_000.0, **changes: Any) -> Trial:
    facts: dict[str, Any] = {
        "arm": Arm(name="base", settings=settings or {}),
        "stage": "bench",
        "block": 1,
        "outcome": "measured",
        "result": result,
        "load": load_result(result),
        "settings": {"sync_binlog": 0, **(settings or {})},
        "server": MARIADB,
        "storage": Storage(filesystem="ext4", device="vda"),
        "deltas": {"Innodb_data_fsyncs": 40_000},
        "seconds": {"restore": 0.3, "start": 0.6, "warm_up": 2.0, "window": 5.0},
        **changes,
    }
    return Trial(**facts)
