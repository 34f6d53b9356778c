"""A probe in a terminal, as a page and as a document."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from flushlab.record import CommitLatency, DiskLatency, DiskResult, ProbeRecord, Storage, Value, Warning
from flushlab.report import html, plots, probe, probe_plots
from flushlab.report.document import Section
from flushlab.report.probe import as_json, document
from tests.golden.test_reports import WIDTH, text_of
from tests.unit.probes import (
    CEILINGS,
    DISK,
    MEDIUM,
    REFUSED,
    SERVERS,
    SHARE,
    ceiling,
    disk_result,
    probe_record,
)
from tests.unit.records import trial
from tests.unit.report import campaigns as made
from tests.unit.report.test_page import HOSTILE, Reader


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


HERE = Storage(filesystem="xfs", device="nvme0n1p2")


def page(**changes: object) -> Reader:
    return Reader(html.render(probe.document(probe_record(**changes), "probe-20261121-104206-79a6")))


def test_the_page_has_the_answer_the_ceilings_and_the_disk() -> None:
    read = page(against=(SHARE,))
    for section in (
        "server-1-1",
        "server-2-1000",
        "ceiling-1-1",
        "ceiling-2-1000",
        "against",
        "disk",
        "depth",
        "warnings",
        "machine",
        "repeat",
    ):
        assert section in read.sections, section
    for words in (
        "redo 1.50× [1.42, 1.58] at strict 1/1",
        "the disk's ceiling is 21,000 commits/s",
        "Binlog Parallel Flush (AliSQL, ApsaraDB RDS for MySQL) would not help here.",
        "240,000",
        "nvme0n1p2",
    ):
        assert words in read.text, words


def test_it_loads_nothing_and_names_each_place_once() -> None:
    read = page()
    assert [one for one in read.addresses if not one.startswith("#")] == []
    assert len(read.ids) == len(set(read.ids))
    assert "script" not in read.tags


def test_the_same_record_gives_the_same_bytes() -> None:
    assert html.render(probe.document(probe_record(), "x")) == html.render(
        probe.document(probe_record(), "x")
    )


def test_what_people_and_kernels_wrote_is_text() -> None:
    read = page(
        medium=msgspec.structs.replace(MEDIUM, directory=HOSTILE),
        refused=(msgspec.structs.replace(REFUSED[0], reason=HOSTILE),),
        warnings=(Warning("disturbed", HOSTILE),),
    )
    assert "script" not in read.tags and "img" not in read.tags
    assert [one for one in read.addresses if not one.startswith("#")] == []


ARM: dict[str, Value] = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 1000, "log_bin": "ON"}


def beside(storage: Storage = HERE, sync_binlog: int = 1000) -> list[Section]:
    settings = {**ARM, "sync_binlog": sync_binlog}
    trials = [trial(settings, result, storage=storage) for result in (20_000.0, 30_000.0, 40_000.0)]
    row = made.row("tune", None, made.tune_request(threads=(64,)), id="tune-1")
    return list(probe.beside(probe_record(), "probe-7", row, trials))


def test_a_campaigns_arms_stand_beside_the_ceilings_of_their_disk() -> None:
    (section,) = beside()
    assert "probe-7" in section.about
    (row,) = section.tables[0].rows
    assert [cell.text for cell in row] == [
        "base", "2/1000", "64", "30,000", "150,000", "20%", "parallel",
    ]  # fmt: skip
    assert (row[0].small, row[-1].small) == ("tune-1:2", "240,000")


def test_another_disk_or_policy_has_no_such_section() -> None:
    assert beside(storage=Storage(filesystem="ext4", device="sdb")) == []
    assert beside(sync_binlog=7) == []


def test_more_processors_are_computed_beside_what_was_published() -> None:
    read = page()
    assert "serial 3.0 µs, parallel 400 ns" in read.text
    assert "+10 to 30 % transactions/s" in read.text and "+10–30 %" in read.text
    assert "with 60 µs of the server's own time per commit" in read.text
    assert "The computed gain is an upper bound." in read.text


def test_without_parallel_flush_there_is_no_curve() -> None:
    assert "scaling" not in page(servers=SERVERS[:3]).sections


def test_nothing_measured_is_a_page_too() -> None:
    read = page(disk=(), servers=(), ceilings=(), refused=(), warnings=())
    assert "What this disk allows" in read.text and "None." in read.text
    assert read.sections == ["warnings", "machine", "repeat"]


def test_plots_are_well_formed_and_coloured_by_the_page() -> None:
    one_only = [disk_result("fdatasync", 0.4)]
    drawn = [
        probe_plots.syncs([one for one in DISK if one.latency_us], name="a", title="t"),
        probe_plots.syncs(one_only, name="b", title="t"),
        probe_plots.ceilings(CEILINGS[4:], name="c", title="t"),
        probe_plots.ceilings(CEILINGS[:1], name="d", title="t"),
    ]
    for plot in map(plots.svg, drawn):
        assert ElementTree.fromstring(plot).get("role") == "img"
        assert "var(--" in plot and "#0" not in plot


ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "probe-json.md").read_text()


def section(title: str) -> str:
    """From a heading to the next one."""
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def fields(table: str) -> set[str]:
    """Names in the first column of a table, `[]` left out."""
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name.removesuffix("[]") for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_page_names_every_caveat() -> None:
    sources = [ROOT / "python/flushlab/probe" / f"{name}.py" for name in ("disk", "run", "against")]
    told = {slug for source in sources for slug in re.findall(r'Warning\(\s*"([a-z-]+)"', source.read_text())}
    assert len(told) >= 12
    assert fields(section("Caveats")) == told
