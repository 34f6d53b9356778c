from __future__ import annotations

import msgspec
import pytest

from flushlab.record import CommitLatency, DiskLatency, DiskResult, ProbeRecord
from flushlab.report.probe import as_json, document
from tests.golden.test_reports import WIDTH, text_of
from tests.unit.probes import CEILINGS, DISK, MEDIUM, SHARE, ceiling, disk_result, probe_record


def shown(**changes: object) -> str:
    return text_of(document(probe_record(**changes)))


def test_the_widest_figures_fit_80_columns() -> None:
    slow = DiskLatency(p50=1e6, p99=99e6, max=600e6)
    widest = ceiling(
        "2/4294967295", "two-syncs", 256, 1_234_567.0,
        latency_us=CommitLatency(p50=999_999.0, p99=99_999_999.0),
        group_size=255.9, fsyncs_per_s=123_456.0, bytes_at_risk=1023 << 20,
    )  # fmt: skip
    text = shown(
        disk=(*DISK, disk_result("pair", latency_us=slow, operations_per_s=1_234_567.0)),
        ceilings=(*CEILINGS, widest),
        medium=msgspec.structs.replace(MEDIUM, directory="/srv/" + "long/" * 40, options=("data=writeback",)),
        against=(
            msgspec.structs.replace(SHARE, trial="tune-20261121-104206-79a6:1234", commits_per_s=123_456.0),
        ),
    )
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "1,234,567" in text and "1023 MiB" in text and "two-syncs" in text and "…" not in text


def test_what_is_not_possible_is_shown_with_its_reason() -> None:
    text = " ".join(shown().split())
    assert "O_DIRECT + O_DSYNC, 512 B: not possible: the device's logical block has 4,096 bytes" in text
    assert "Not measured: binlog strategy parallel contradicts sync_binlog=1" in text


def test_a_tmpfs_has_no_device() -> None:
    medium = msgspec.structs.replace(
        MEDIUM, filesystem="tmpfs", device=None, disk=None, scheduler=None, rotational=None,
        volatile_cache=None, logical_block_bytes=None,
    )  # fmt: skip
    assert "none visible to the kernel" in shown(medium=medium)


def test_all_caveats_are_shown() -> None:
    text = shown(against=(SHARE,))
    assert "12% of the CPU time was used by other programs" in text
    assert "the client is the limit, not the server" in text


def test_a_cell_of_the_document_has_what_programs_rely_on() -> None:
    said = msgspec.json.decode(msgspec.json.encode(as_json(probe_record(against=(SHARE,)))))
    assert said["schema"] == "flushlab.probe/1"
    cell = said["ceilings"][2]
    assert {"trx_commit", "sync_binlog", "binlog_strategy", "threads", "commits_per_s", "latency_us",
            "group_size", "fsyncs_per_s", "bytes_at_risk"} <= cell.keys()  # fmt: skip
    assert (cell["trx_commit"], cell["sync_binlog"], cell["binlog_strategy"], cell["threads"]) == (
        1,
        1,
        "serial",
        64,
    )
    assert cell["latency_us"].keys() == {"p50", "p99"}
    assert said["disk"][0]["latency_us"].keys() == {"p50", "p99", "max"}
    assert {one["slug"] for one in said["warnings"]} == {"disturbed"}


def test_a_stored_record_comes_back_equal() -> None:
    record = probe_record(against=(SHARE,))
    assert msgspec.json.decode(msgspec.json.encode(record), type=ProbeRecord) == record


@pytest.mark.parametrize("one", DISK, ids=lambda one: f"{one.way}-{one.layout}-{one.depth}")
def test_every_figure_of_the_disk_is_in_a_table(one: DiskResult) -> None:
    rate = f"{one.operations_per_s:,.0f}"
    assert rate in shown() if one.latency_us else one.refused
