"""Is the fault disk honest? Thousands of crashes of a recorded file system, each mounted and looked at.

A program creates, writes, renames and syncs files on the disk, and notes after each how many records there
were. For an image at record n everything that was synced by then must be there; of what was written last and
not synced, most must be gone. What the kernel's documentation promises is what is asked for: fsync of a file
keeps its content, fsync of its directory its name, and a rename is there wholly or not at all.

    python benchmarks/fault_disk.py --fs ext4 --crashes 10000

Ctrl-C ends a file system's part, and what is known by then is printed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from flushlab.datadir import FaultDisk, FaultImage, remove_record
from flushlab.datadir.fault_disk import FileSystemName
from flushlab.record import Failure

MIB = 1 << 20
SIZES: dict[FileSystemName, int] = {"ext4": 64 * MIB, "xfs": 320 * MIB, "btrfs": 256 * MIB}
STEPS = 300
LEAST_LOST = 0.5
FAILURES = [
    Failure(kind="power", tear=None),
    Failure(kind="power", tear=512),
    Failure(kind="power", tear=4096),
]


@dataclass(frozen=True)
class Step:
    """One thing that was done.

    Attributes:
        name: of the file.
        content: of it.
        begun: records before it began.
        ended: records once it was done.
        synced: it was synced.
    """

    name: str
    content: bytes
    begun: int
    ended: int
    synced: bool


def do(disk: FaultDisk, number: int, chance: random.Random) -> Step:
    """One step: a file that is written, perhaps in place of another, perhaps synced."""
    content = b"%08d" % number * chance.choice((1, 100, 1250, 8000))
    begun, synced = disk.position(), chance.random() < 0.5
    renames = chance.random() < 0.3
    name = f"renamed-{number % 10}" if renames else f"file-{number}"
    target = disk.mount / name
    written = target.with_suffix(".new") if renames else target
    file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(file, content)
    if synced or renames:
        os.fsync(file)
    os.close(file)
    if renames:
        written.rename(target)
    if synced:
        above = os.open(disk.mount, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(above)
        os.close(above)
    return Step(name, content, begun, disk.position(), synced)


def wrong(image: Path, steps: list[Step], at: int) -> Iterator[str]:
    """What is not as it was promised."""
    last = {step.name: step for step in steps if step.synced and step.ended <= at}
    for name, step in last.items():
        file = image / name
        later = [one.content for one in steps if one.name == name and one.begun >= step.ended]
        if not file.exists():
            yield f"{name} is gone"
        elif file.read_bytes() not in [step.content, *later]:
            yield f"{name} has {file.stat().st_size} bytes that it never had"


def lost(image: Path, steps: list[Step], at: int) -> tuple[int, int]:
    """Of the last files that had been written and not synced: how many are not there whole, of how many."""
    unsynced = [step for step in steps if not step.synced and step.ended <= at][-1:]
    gone = 0
    for step in unsynced:
        file = image / step.name
        gone += not file.exists() or file.read_bytes() != step.content
    return gone, len(unsynced)


@contextmanager
def recorded(folder: Path, fs: FileSystemName, seed: int) -> Iterator[tuple[Path, list[Step], int]]:
    """A record with the steps that made it."""
    chance = random.Random(seed)
    with FaultDisk(folder, SIZES[fs], fs, record=True) as disk:
        disk.start_recording()
        steps = [do(disk, number, chance) for number in range(STEPS)]
        record, last = disk.record, disk.position()
    try:
        yield record, steps, last
    finally:
        remove_record(record)


def campaign(folder: Path, fs: FileSystemName, images: int, seed: int) -> bool:
    """Crashes of one record, half of them just after something was synced; True if all kept their promise."""
    chance = random.Random(seed)
    broken = gone = unsynced = done = 0
    begun = time.monotonic()
    with recorded(folder, fs, seed) as (record, steps, last):
        ends = [step.ended for step in steps if step.synced]
        with FaultImage(record, last, FAILURES[0], 0, folder) as image, suppress(KeyboardInterrupt):
            for number in range(images):
                at = chance.choice(ends) if number % 2 else chance.randint(1, last)
                fail = chance.choice(FAILURES)
                image.show(at, fail, number)
                found = list(wrong(image.mount, steps, at))
                broken += bool(found)
                if found:
                    sys.stderr.write(f"{fs} at {at}, seed {number}, {fail}: {'; '.join(found)}\n")
                less, of = lost(image.mount, steps, at)
                gone, unsynced, done = gone + less, unsynced + of, done + 1
    elapsed_s = time.monotonic() - begun
    sys.stdout.write(
        f"{fs}: {broken} of {done} images lost something synced; {gone} of {unsynced} unsynced files were"
        f" lost; {last} records, {elapsed_s / max(done, 1) * 1000:.0f} ms an image\n"
    )
    return broken == 0 and gone >= LEAST_LOST * unsynced


def main() -> None:
    """Runs what was asked for; exit status 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fs", choices=list(SIZES), action="append")
    parser.add_argument("--crashes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = [campaign(Path(folder), fs, asked.crashes, asked.seed) for fs in asked.fs or SIZES]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
