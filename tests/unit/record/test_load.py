"""Records: what they hold and how they are encoded."""

from __future__ import annotations

import msgspec

from flushlab.record import FileActivity, KindTime, Latency, LoadResult, RowCounts, Trial, Warning
from tests.unit.records import load_result, trial

OF_VERSION_0_1 = b"""{"seconds": 5.0, "events": 50000, "throughput": 10000.0, "per_second": [10000, 10000],
  "latency_us": {"mean": 800.0, "p50": 750, "p95": 1200, "p99": 1900, "p999": 4000, "max": 9000},
  "errors": [], "client_cpu_us_per_event": 11.5}"""


def test_results_stored_before_rows_and_kinds_existed_are_read() -> None:
    result = msgspec.json.decode(OF_VERSION_0_1, type=LoadResult)
    assert (result.throughput, result.rows, result.kinds) == (10_000.0, None, ())


def test_rows_and_kinds_come_back_with_their_trial() -> None:
    latency = Latency(mean=800.0, p50=750, p95=1200, p99=1900, p999=4000, max=9000)
    load = msgspec.structs.replace(
        load_result(),
        rows=RowCounts(committed=10, updated=4, rolled_back=2, commits=3, commit_latency_us=latency),
        kinds=(KindTime(kind="ALTER TABLE", count=2, seconds=1.5, slowest_s=1.0, slowest_line=7),),
    )
    record = trial(load=load)
    assert msgspec.json.decode(msgspec.json.encode(record), type=Trial) == record


def test_file_activity_survives_the_store() -> None:
    activity = {"redo": FileActivity(fsyncs=3, bytes=512, flags=("O_DIRECT",)), "binlog": FileActivity()}
    record = trial(file_activity=activity, warnings=(Warning("no-effect", "x=1 reads back, but …", "x"),))
    assert msgspec.json.decode(msgspec.json.encode(record), type=Trial) == record


def test_a_record_from_before_file_activity_still_decodes() -> None:
    now = trial(warnings=(Warning("errors", "2 statements failed"),))
    stored = msgspec.json.decode(msgspec.json.encode(now))
    del stored["file_activity"]
    assert stored["warnings"] == [{"slug": "errors", "text": "2 statements failed"}]
    assert msgspec.convert(stored, Trial).file_activity == {}
