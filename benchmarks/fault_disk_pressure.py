"""Does a fault disk hold where its program gets little processor time and little memory?

    python benchmarks/fault_disk_pressure.py            # all parts, 30 s each
    python benchmarks/fault_disk_pressure.py limit

- `load`: 100 processes that spin, at nice 19.
- `limit`: the same, and whoever makes and writes the disk has 300 MB of memory in cgroup v1, page cache
  included: there the program once waited for pages that it had to write itself.
- `cache`: half of the free memory is taken, the page cache is full, and a file is rewritten all the time.

In each a disk is made, recorded on, written to with and without syncs, read back and removed. No write may
fail, no sync may take a minute, all that was written must be read, and nothing may be left: otherwise the
exit status is 1. Whatever takes memory or time ends by itself: at most 12 GiB, at most a minute more than the
part. A disk on which nothing moves for a minute is killed, so that the machine lives on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from flushlab.datadir import FaultDisk, remove_record
from flushlab.machine import available_memory_bytes

MIB = 1 << 20
SPINNERS = 100
LIMIT_BYTES = 300 * MIB
MOST_BYTES = 12 << 30
WRITTEN_BYTES = 1 << 30
FILE_BYTES = 256 * MIB
STALL_S = 60.0
FULL_BYTES, FULL_S = 600 * MIB, 40.0
LIMITED = Path("/sys/fs/cgroup/memory")
PARTS = ("load", "limit", "cache")
SPIN = "while :; do :; done"
TAKE = """
import mmap, sys, time
with open("/proc/self/oom_score_adj", "w") as score:
    score.write("1000")
taken, chunk = mmap.mmap(-1, int(sys.argv[1]) >> 20 << 20), b"x" * (1 << 20)
for at in range(0, len(taken), 1 << 20):
    taken[at : at + (1 << 20)] = chunk
time.sleep(float(sys.argv[2]))
"""
FILL = """
import os, sys, time
file, end = os.open(sys.argv[1], os.O_RDWR), time.monotonic() + float(sys.argv[3])
size, chunk = int(sys.argv[2]), bytes(1 << 20)
os.ftruncate(file, size)
while time.monotonic() < end:
    for at in range(0, size, 1 << 20):
        if at % (12 << 20) == 0:
            os.pwrite(file, chunk, at % (1 << 30))
        os.pread(file, 1 << 20, at)
        if time.monotonic() > end:
            break
"""


@contextmanager
def running(*commands: list[str]) -> Iterator[None]:
    """Hogs, at nice 19, each of which ends by itself as well."""
    hogs = [subprocess.Popen(["nice", "-n", "19", *command], start_new_session=True) for command in commands]
    try:
        yield
    finally:
        for hog in hogs:
            with suppress(ProcessLookupError):
                os.killpg(hog.pid, signal.SIGKILL)
        for hog in hogs:
            hog.wait()


def spinners(seconds: float) -> list[list[str]]:
    """Processes that do nothing, busily."""
    return [["timeout", f"{seconds:.0f}", "sh", "-c", SPIN]] * SPINNERS


def memory_hogs(folder: Path, seconds: float) -> list[list[str]]:
    """One that takes half of what is free, and one that fills the page cache with the rest and dirties it."""
    free = available_memory_bytes()
    file = folder / "filler"
    file.touch()
    python = ["timeout", f"{seconds:.0f}", sys.executable, "-c"]
    return [
        [*python, TAKE, str(min(free // 2, MOST_BYTES)), str(seconds)],
        [*python, FILL, str(file), str(min(free, MOST_BYTES)), str(seconds)],
    ]


@contextmanager
def memory_limit() -> Iterator[Path]:
    """A control group of cgroup v1 with a limit: the file that takes processes."""
    group = LIMITED / f"flushlab-pressure-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
        yield group / "cgroup.procs"
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (LIMITED / "cgroup.procs").write_text(pid)
        group.rmdir()


def inside(folder: Path, seconds: float) -> None:
    """Makes, uses and removes a disk; tells in lines of JSON how far it is."""

    def tell(**words: float) -> None:
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()

    began = time.monotonic()
    disk = FaultDisk(folder, 1 << 30, record=True, punctual=True).open()
    assert disk._process is not None
    tell(pid=disk._process.pid, made_s=time.monotonic() - began)
    disk.start_recording()
    file = os.open(disk.mount / "file", os.O_RDWR | os.O_CREAT)
    written, syncs, longest, chunks = 0, 0, 0.0, FILE_BYTES // MIB
    content = [b""] * chunks
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if written < WRITTEN_BYTES:
            at = written // MIB % chunks
            content[at] = written.to_bytes(8, "little")
            os.pwrite(file, content[at] * (MIB // 8), at * MIB)
            written += MIB
        begun = time.monotonic()
        if syncs % 4 == 3 or written >= WRITTEN_BYTES:
            os.pwrite(file, content[0] * 512, 0)
            os.fdatasync(file)
        longest = max(longest, time.monotonic() - begun)
        syncs += 1
        tell(rounds=syncs)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    wrong = sum(os.pread(file, MIB, at * MIB) != one * (MIB // 8) for at, one in enumerate(content) if one)
    os.close(file)
    failed, records, began = disk.status().failed, disk.position(), time.monotonic()
    disk.close()
    removed_s = time.monotonic() - began
    remove_record(disk.record)
    tell(
        wrong=wrong,
        failed=failed,
        records=records,
        written_mib=written // MIB,
        longest_s=longest,
        removed_s=removed_s,
    )


def tried(part: str, folder: Path, seconds: float) -> bool:
    """One part; True if the disk held."""
    with ExitStack() as stack:
        longest = seconds + STALL_S
        if part == "limit" and not LIMITED.is_dir():
            sys.stdout.write("limit: no cgroup v1 for memory here\n")
            return True
        if part in ("load", "limit"):
            stack.enter_context(running(*spinners(longest)))
        else:
            longest += FULL_S
            stack.enter_context(running(*memory_hogs(folder, longest)))
            await_full_memory()
        command = [sys.executable, __file__, "--inside", str(folder), "--duration", str(seconds)]
        if part == "limit":
            procs = stack.enter_context(memory_limit())
            command = ["sh", "-c", f'echo $$ > "{procs}" && exec "$@"', "sh", *command]
        facts = watched(command)
    if "wrong" not in facts:
        sys.stdout.write(f"{part}: {'nothing moved for a minute' if facts.get('stalled') else 'it failed'}\n")
        return False
    left = [path.name for path in folder.iterdir() if path.name != "filler"]
    if str(folder) in Path("/proc/self/mounts").read_text():
        left.append("a mount")
    sys.stdout.write(
        f"{part}: made in {facts['made_s']:.1f} s, {facts['rounds']:.0f} rounds with"
        f" {facts['written_mib']:.0f} MiB and {facts['records']:.0f} records, the longest sync"
        f" {facts['longest_s']:.1f} s, {facts['failed']:.0f} requests failed, {facts['wrong']:.0f} MiB wrong,"
        f" removed in {facts['removed_s']:.1f} s; left: {', '.join(left) or 'nothing'}\n"
    )
    return not (facts["failed"] or facts["wrong"] or left) and facts["longest_s"] < STALL_S


def await_full_memory() -> None:
    """Until the kernel has to take pages from somebody, or half a minute."""
    deadline = time.monotonic() + FULL_S
    while (free := free_bytes()) > FULL_BYTES and time.monotonic() < deadline:
        time.sleep(0.2)
    sys.stdout.write(f"cache: {free // MIB} MiB are free now\n")
    sys.stdout.flush()


def free_bytes() -> int:
    """Bytes that hold nothing at all."""
    facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(facts["MemFree"].split()[0]) << 10


def watched(command: list[str]) -> dict[str, float]:
    """What it told; if it tells nothing for a minute, its disk is killed, so that others go on."""
    facts: dict[str, float] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        heard, buffer = time.monotonic(), b""
        while True:
            chunk = process.stdout.read()
            if chunk == b"" and process.poll() is not None:
                return facts
            if chunk:
                heard = time.monotonic()
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    facts |= json.loads(line)
            elif time.monotonic() - heard > STALL_S:
                facts["stalled"] = 1.0
                if "pid" in facts:
                    with suppress(ProcessLookupError):
                        os.kill(int(facts["pid"]), signal.SIGKILL)
                process.kill()
                return facts
            time.sleep(0.05)


def main() -> None:
    """Runs what was asked for; exit status 1 if a disk did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: {' '.join(PARTS)}")
    parser.add_argument("--duration", type=float, default=30.0)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside is not None:
        inside(asked.inside, asked.duration)
        return
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    held = True
    for part in asked.parts or PARTS:
        with tempfile.TemporaryDirectory() as name:
            held &= tried(part, Path(name), asked.duration)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
