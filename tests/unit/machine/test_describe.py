import platform
from pathlib import Path

from flushlab.machine import available_memory_bytes, describe, memory_bytes
from flushlab.machine.cgroup import parse_meminfo
from flushlab.machine.describe import parse_cpu_model


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
