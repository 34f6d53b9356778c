"""The disk part of `flushlab probe` beside fio: 4 KiB writes with an fdatasync each, on one file system.

Both write over a file of the same size whose blocks were written before, one write at a time, in pairs of
windows whose order alternates. The bar: the geometric mean of the ratios is within 10 % of 1.

Run: .venv/bin/python benchmarks/probe_disk.py [--data-root DIR] [--pairs 7] [--duration 4] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from flushlab.probe.disk import DiskCell, measure, medium_of

BAR = 0.10
FILE_BYTES = 64 << 20
CELL = DiskCell(way="fdatasync", bytes=4096)


def by_probe(folder: Path, seconds: float) -> float:
    """Operations per second as the probe measures them."""
    result = measure(folder, CELL, seconds=seconds, file_bytes=FILE_BYTES, medium=medium_of(folder))
    if result.refused:
        raise SystemExit(f"error: {result.refused}")
    return result.operations_per_s


def by_fio(folder: Path, seconds: float) -> float:
    """The same by fio; its rate of writes counts the time of their syncs."""
    done = subprocess.run(
        [
            "fio", "--name=sync", f"--filename={folder / 'fio'}", "--ioengine=psync", "--rw=write", "--bs=4k",
            "--fdatasync=1", f"--size={FILE_BYTES}", "--overwrite=1", "--time_based",
            f"--runtime={seconds:g}", "--output-format=json",
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(json.loads(done.stdout)["jobs"][0]["write"]["iops"])


def pairs(folder: Path, count: int, seconds: float) -> list[tuple[float, float]]:
    """(probe, fio) of each pair; who begins alternates."""
    by_probe(folder, 0.2), by_fio(folder, 1)  # both make their files
    found = []
    for number in range(count):
        if number % 2:
            fio = by_fio(folder, seconds)
            found.append((by_probe(folder, seconds), fio))
        else:
            probe = by_probe(folder, seconds)
            found.append((probe, by_fio(folder, seconds)))
    return found


def main() -> int:
    """Runs the pairs, prints them and their ratio; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data-root", type=Path, default=Path.cwd(), help="on the file system to be compared"
    )
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--duration", type=float, default=4.0)
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.data_root) as folder:
        found = pairs(Path(folder), given.pairs, given.duration)
    logs = [math.log(probe / fio) for probe, fio in found]
    ratio = math.exp(statistics.fmean(logs))
    spread = math.exp(2 * statistics.stdev(logs) / math.sqrt(len(logs))) if len(logs) > 1 else float("nan")
    say = ["  probe      fio   ratio   (fdatasync of 4 KiB per second)"]
    say += [f"{probe:7,.0f}  {fio:7,.0f}  {probe / fio:6.3f}" for probe, fio in found]
    say.append(f"ratio {ratio:.3f} ×/÷ {spread:.3f}; bar: within {BAR:.0%} of 1")
    sys.stdout.write("\n".join(say) + "\n")
    if given.json:
        given.json.write_text(json.dumps({"pairs": found, "ratio": ratio}) + "\n")
    return int(abs(ratio - 1) > BAR)


if __name__ == "__main__":
    sys.exit(main())
