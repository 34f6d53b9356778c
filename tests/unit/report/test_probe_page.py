from __future__ import annotations

from xml.etree import ElementTree

import msgspec

from flushlab.record import Storage, Value, Warning
from flushlab.report import html, plots, probe, probe_plots
from flushlab.report.document import Section
from tests.unit.probes import CEILINGS, DISK, MEDIUM, REFUSED, SERVERS, SHARE, disk_result, probe_record
from tests.unit.records import trial
from tests.unit.report import campaigns as made
from tests.unit.report.test_page import HOSTILE, Reader

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
