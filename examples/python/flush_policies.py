"""What does durability cost on this disk? Compares flush policies and shows the trials behind the ratios."""

from __future__ import annotations

import argparse
import statistics
import sys

import flushlab

POLICIES = {
    "every commit": {"innodb_flush_log_at_trx_commit": 1},
    "once per second": {"innodb_flush_log_at_trx_commit": 2},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="mariadb")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--duration", type=float, default=60.0)
    asked = parser.parse_args()

    with flushlab.sandbox(server=asked.server, progress=tell) as server:
        print(f"{server.identity.name} listens on {server.endpoint.host}:{server.endpoint.port}")
        server.apply({"innodb_flush_log_at_trx_commit": 2})
        print("and took:", server.read_back(["innodb_flush_log_at_trx_commit"]))

    facts = flushlab.compare(
        POLICIES,
        server=asked.server,
        workload="oltp_update_non_index",
        threads=4,
        tables=1,
        table_size=1_000,
        blocks=asked.blocks,
        duration=asked.duration,
        progress=tell,
    )
    for arm in facts.arms:
        if arm.comparison is None:
            print(f"{arm.name}: {arm.outcome} {arm.reason}")
            continue
        ratio = arm.comparison.ratio
        print(
            f"{arm.name}: {ratio.estimate:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}] {arm.comparison.verdict}"
        )

    rows = flushlab.records(facts.campaign_id)
    p99 = [row["load.latency_us.p99"] for row in rows if row["outcome"] == "measured"]
    print(f"{len(rows)} trials, median p99 {statistics.median(p99):,.0f} µs")
    try:
        import pandas
    except ImportError:
        return
    print(pandas.DataFrame(rows).groupby("arm.name")[["result", "load.latency_us.p99"]].describe())


def tell(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
