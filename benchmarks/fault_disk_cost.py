"""What a fault disk costs: throughput with and without a record; latency as asked for, by fio.

    python benchmarks/fault_disk_cost.py record --pairs 7    # bar: at most 30 % of the server's throughput
    python benchmarks/fault_disk_cost.py profiles            # bar: within 15 %, on two file systems

`record` has two servers on two disks of the same kind, of which one records, and drives them in slices.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

from flushlab import _core
from flushlab.build import find_build
from flushlab.datadir import DataRoot, FaultDisk, SlowDisk, parse_disk, remove_record
from flushlab.datadir.fault_disk import FileSystemName
from flushlab.record import Endpoint, LoadResult, LoadSpec
from flushlab.server import Sandbox, SandboxSpec

DISK_BYTES = 2 << 30
COST_BAR = 0.30
LATENCY_BAR = 0.15
FILE_SYSTEMS: tuple[FileSystemName, ...] = ("ext4", "xfs")
"""btrfs writes and flushes several times for one fdatasync, so there is no one result to ask for."""
SYNCS = 2000
"""The 99th percentile of fewer is decided by what a file system does every few seconds."""
PROFILES = ("7200rpm", "consumer-nvme", "flush=5ms/20ms", "write=2ms/8ms,flush=0.1ms")


def spec(endpoint: Endpoint, threads: int) -> bytes:
    """Single-row updates, each a transaction."""
    return msgspec.json.encode(
        LoadSpec(
            workload="oltp_update_non_index",
            endpoint=endpoint,
            database="sbtest",
            threads=threads,
            tables=4,
            table_size=10_000,
        )
    )


def per_second(server: Sandbox, threads: int, seconds: float) -> float:
    """Transactions/s of one window."""
    load = _core.LoadRun(spec(server.endpoint, threads))
    load.start()
    load.open_window()
    time.sleep(seconds)
    result = msgspec.json.decode(load.close_window(), type=LoadResult)
    load.stop()
    return result.throughput


def record(folder: Path, server: str, threads: int, pairs: int, seconds: float) -> bool:
    """The cost of recording; True if it is below the bar."""
    build = find_build(server)
    settings = {"innodb_flush_log_at_trx_commit": 1, "innodb_log_file_size": 64 << 20}
    with ExitStack() as stack:
        disks = [stack.enter_context(FaultDisk(folder, DISK_BYTES, record=True)) for _ in range(2)]
        servers = []
        for disk in disks:
            root = DataRoot.open(disk.mount)
            servers.append(
                stack.enter_context(Sandbox.start(SandboxSpec(build, settings=settings, data_root=root)))
            )
            servers[-1].query("CREATE DATABASE sbtest")
            _core.prepare_tables(spec(servers[-1].endpoint, threads))
        plain, recording = servers
        disks[1].start_recording()
        ratios = []
        for pair in range(pairs):
            order = (plain, recording) if pair % 2 else (recording, plain)
            found = {id(one): per_second(one, threads, seconds) for one in order}
            ratios.append(found[id(recording)] / found[id(plain)])
            sys.stdout.write(f"{found[id(plain)]:.0f}/s, recording {found[id(recording)]:.0f}/s\n")
        records = disks[1].position()
    for disk in disks:
        remove_record(disk.record)
    median = statistics.median(ratios)
    sys.stdout.write(
        f"{build.name}, {threads} connections: {median:.3f} of the throughput while recording"
        f" ({min(ratios):.3f} to {max(ratios):.3f}); {records} records\n"
    )
    return median >= 1 - COST_BAR


def by_fio(folder: Path, seconds: float) -> tuple[float, float]:
    """Median and 99th percentile of an overwrite of 4 KiB with its fdatasync, in microseconds."""
    command = ["fio", "--name=sync", f"--filename={folder / 'fio'}", "--ioengine=psync", "--rw=write"]
    command += ["--bs=4k", "--fdatasync=1", "--size=1m", "--overwrite=1", "--time_based"]
    command += [f"--runtime={seconds:g}", "--output-format=json", "--percentile_list=50:99"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    job = json.loads(done.stdout)["jobs"][0]
    percentiles = job["sync"]["lat_ns"]["percentile"]
    return percentiles["50.000000"] / 1000, percentiles["99.000000"] / 1000


def profiles(folder: Path, seconds: float) -> bool:
    """How near to what was asked for the profiles come; True if all are within the bar."""
    within = True
    for words in PROFILES:
        profile = parse_disk(words)
        parts = [one for one in (profile.flush, profile.write) if one is not None]
        asked = sum(one.p50_us for one in parts), sum(one.p99_us for one in parts)
        for fs in FILE_SYSTEMS:
            with SlowDisk(DataRoot.open(folder), profile, fs) as disk:
                found = by_fio(disk.data_root.path, max(seconds, SYNCS * asked[0] / 1e6))
            off = [one / wanted for one, wanted in zip(found, asked, strict=True)]
            within &= all(abs(one - 1) <= LATENCY_BAR for one in off)
            told = f"asked {asked[0]:.0f} and {asked[1]:.0f} µs, found {found[0]:.0f} and {found[1]:.0f}"
            sys.stdout.write(f"{words} on {fs}: {told} ({off[0]:.2f}, {off[1]:.2f})\n")
    return within


def main() -> None:
    """Runs what was asked for; exit status 1 if it misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["record", "profiles"])
    parser.add_argument("--server", default="mariadb@10.11")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--duration", type=float, default=4.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if asked.part == "record":
            met = record(folder, asked.server, asked.threads, asked.pairs, asked.duration)
        else:
            met = profiles(folder, asked.duration)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
