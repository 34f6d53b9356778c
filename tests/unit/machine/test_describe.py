from __future__ import annotations

import platform
from pathlib import Path

import pytest

from flushlab.machine import available_memory_bytes, describe, memory_bytes
from flushlab.machine.cgroup import parse_meminfo
from flushlab.machine.describe import DiskCounters, disk_use, parse_cpu_model, parse_diskstats


def test_cpu_model_is_the_kernels_name_for_it() -> None:
    text = "processor\t: 0\nmodel\t\t: 106\nmodel name\t: Intel(R)  Xeon(R) Processor\n"
    assert parse_cpu_model(text) == "Intel(R) Xeon(R) Processor"


def test_cpu_without_a_name_is_unknown() -> None:
    assert parse_cpu_model("processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\n") == "unknown"


def test_meminfo_is_in_bytes_and_counts_are_left_out() -> None:
    facts = parse_meminfo("MemTotal:       24682416 kB\nMemAvailable:   1024 kB\nHugePages_Total:       3\n")
    assert facts == {"MemTotal": 24682416 * 1024, "MemAvailable": 1 << 20}


def test_available_memory_is_not_more_than_there_is() -> None:
    assert 0 < available_memory_bytes() <= memory_bytes()


def test_description_has_the_kernel_and_the_file_system(tmp_path: Path) -> None:
    machine = describe(tmp_path)
    assert machine.kernel == platform.release()
    assert machine.cpu_count >= 1
    assert machine.filesystem not in {"", "unknown"}


# Linux 6.18; the last two fields of a disk are its flushes.
BEFORE = """\
   7       0 loop0 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 6302700 172627 835199458 29322505 16395761 3521796 2220574281 47665927 0 6255432 83241176 \
2614938 224 3551195032 3162425 5015985 3090317
"""
AFTER = """\
 254       0 vda 6302800 172627 835199658 29322705 16396761 3521796 2220576281 47666427 2 6265132 83281176 \
2614938 224 3551195032 3162425 5016385 3090597
"""


def counters(text: str, at_s: float) -> DiskCounters:
    return DiskCounters(at_s=at_s, disks=parse_diskstats(text))


def test_a_disk_has_rates_and_mean_times() -> None:
    used = disk_use(counters(BEFORE, 5.0), counters(AFTER, 15.0), "vda")
    assert used is not None and used.flushes is not None
    assert (used.reads.per_s, used.reads.mean_ms, used.reads.bytes_per_s) == (10, 2.0, 20 * 512)
    assert (used.writes.per_s, used.writes.mean_ms, used.writes.bytes_per_s) == (100, 0.5, 200 * 512)
    assert [used.flushes.per_s, used.flushes.mean_ms] == pytest.approx([40, 0.7])
    assert [used.utilisation, used.queue] == pytest.approx([0.97, 4.0])


def test_an_old_kernel_tells_no_flushes() -> None:
    before, after = (
        "\n".join(" ".join(line.split()[:14]) for line in text.splitlines()) for text in (BEFORE, AFTER)
    )
    used = disk_use(counters(before, 0.0), counters(after, 1.0), "vda")
    assert used is not None and used.flushes is None


def test_a_disk_that_came_or_was_reset_has_no_rates() -> None:
    first, last = counters(BEFORE, 0.0), counters(AFTER, 10.0)
    assert disk_use(first, last, "loop0") is None
    assert disk_use(first, last, "sda") is None
    backwards = DiskCounters(at_s=20.0, disks=first.disks)
    assert disk_use(last, backwards, "vda") is None


def test_a_disk_without_requests_has_no_mean_time() -> None:
    same = counters(BEFORE, 0.0)
    used = disk_use(same, DiskCounters(at_s=1.0, disks=same.disks), "vda")
    assert used is not None and used.writes.mean_ms is None and used.queue == 0
