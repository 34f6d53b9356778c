"""The machine's side, as pt-stalk copies it."""

from __future__ import annotations

import pytest

from flushlab.diagnosis.diagnose import Diagnosis
from flushlab.diagnosis.files.machine import device_of
from flushlab.report.doctor import host_lines
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import VARIABLES, box, connection, processlists, tabs

DF = """\
TS 1767225600.001 2026-01-01 00:00:00
Filesystem     1K-blocks     Used Available Use% Mounted on
/dev/sda1       20000000 10000000  10000000  50% /
/dev/sdb1      900000000 10000000 890000000   2% /data
tmpfs            2000000        0   2000000   0% /run
"""
MEMINFO = "TS 1767225600.001 2026-01-01 00:00:00\nMemTotal:        8000000 kB\nMemFree: 1 kB\n"


def stamp(at: int) -> str:
    return f"TS {1_767_225_600 + at}.000 2026-01-01 00:00:{at:02}\n"


def diskstats(at: int) -> str:
    """sdb1 writes 200 times/s, is always busy, and has 20 requests at once."""
    idle = "0 " * 17
    writes = f"{200 * at} 0 {3200 * at} {4000 * at} 20 {1000 * at} {20_000 * at}"
    busy = f"0 0 0 0 {writes} 0 0 0 0 {50 * at} {250 * at}"
    return f"{stamp(at)}   8       1 sda1 {idle}\n   8      17 sdb1 {busy}\n"


def procstat(at: int) -> str:
    """A tenth of the time is stolen."""
    whole = f"cpu  {60 * at} 0 0 {120 * at} 0 0 0 {20 * at} 0 0\n"
    return f"{stamp(at)}{whole}cpu0 1 0 0 1 0 0 0 1 0 0\ncpu1 1\nintr 5\n"


def diagnosis(**more: str) -> Diagnosis:
    texts = {
        "diskstats": diskstats(0) + diskstats(15) + diskstats(30),
        "procstat": procstat(0) + procstat(30),
        "meminfo": MEMINFO,
        "df": DF,
        "mysqladmin": box(outputs.status()) + box(outputs.status(30, Com_insert=900)),
        "variables": tabs(VARIABLES),
        **more,
    }
    return outputs.diagnosis(**texts)


def test_the_disk_of_the_data_is_that_of_df() -> None:
    updating = [connection(7, "Query", 0, "updating", "UPDATE t SET a = 1")]
    found = diagnosis(processlist=processlists([updating] * 30))
    host = found.evidence.host
    assert host is not None
    (use,) = host.disks
    assert (use.disk, use.writes.per_s, use.writes.mean_ms, use.queue) == ("sdb1", 200.0, 20.0, 20.0)
    assert use.flushes is not None and use.flushes.mean_ms == 5.0
    assert found.findings[0].name == "disk"
    assert "sdb1: 200 writes/s of 20.00 ms" in found.findings[0].seen[0].text


def test_the_machine_is_described() -> None:
    host = diagnosis().evidence.host
    assert host is not None
    assert [*host_lines(host)] == [
        "2 CPUs, 7.6 GiB for the server; 10% stolen",
        "sdb1: 200 writes/s of 20.00 ms, 50 flushes/s of 5.00 ms, busy 100%, queue 20.0",
    ]
    host = diagnosis().evidence.host
    assert host is not None and host.memory_bytes == 8_000_000 * 1024


def test_a_disk_that_df_does_not_name_is_not_guessed() -> None:
    found = diagnosis(df="")
    assert found.evidence.host is not None and found.evidence.host.disks == ()
    assert any(one.startswith("the disk of the data") for one in found.not_judged)


def test_without_processors_there_is_no_machine() -> None:
    assert diagnosis(procstat=procstat(0)).evidence.host is None


@pytest.mark.parametrize(
    ("datadir", "device"),
    [("/data/mysql/", "sdb1"), ("/var/lib/mysql", "sda1"), ("/database/x", "sda1"), ("", ""), ("data", "")],
)
def test_the_longest_mount_point_wins(datadir: str, device: str) -> None:
    assert device_of(datadir, {"/": "/dev/sda1", "/data": "/dev/sdb1"}) == device


@pytest.mark.parametrize("pool", ["tank/mysql", "filer:/vol/mysql", "overlay"])
def test_data_on_a_file_system_without_a_device_have_no_disk(pool: str) -> None:
    found = diagnosis(
        df=f"/dev/sda1 100 50 50 50% /\n/dev/sdb1 100 50 50 50% /other\n{pool} 100 50 50 50% /data\n"
    )
    assert found.evidence.host is not None and found.evidence.host.disks == ()
