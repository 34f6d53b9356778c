"""Clusters started and stopped in a row: how long each start took, and that nothing is left behind.

    python benchmarks/cluster_starts.py --starts 20

Looks after every stop for processes that name the cluster, for files outside flushlab's own folders (in `run`
and in the temporary folders), and for ports that somebody still listens on at the nodes' addresses. Ends
with 1 if there is one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from flushlab.build import find_build
from flushlab.process import run_folder
from flushlab.server import SandboxSpec
from flushlab.server.galera.cluster import Cluster
from flushlab.server.sandbox.node import NodeAddress, busy_port


def main() -> int:
    """Starts clusters, and says what each left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--cluster", type=int, default=3)
    parser.add_argument("--server", default="mariadb@10.11")
    asked = parser.parse_args()
    build = find_build(asked.server, progress=_say)
    seconds, left = [], []
    before = _files()
    for number in range(1, asked.starts + 1):
        began = time.monotonic()
        with Cluster.start(SandboxSpec(build, nodes=asked.cluster), _say) as cluster:
            seconds.append(time.monotonic() - began)
            places = [node.membership.place for node in cluster.nodes if node.membership]
            cluster.query("CREATE DATABASE it")
            if number % 2:
                cluster.stop()
        left += _left(cluster.name, places, before)
        _say(f"{number:3}: synced in {seconds[-1]:.2f} s, stopped; left behind: {left or 'nothing'}")
    _say(
        f"{asked.starts} starts of {asked.cluster} nodes of {build.name}: median"
        f" {statistics.median(seconds):.2f} s, slowest {max(seconds):.2f} s; left behind: {len(left)}"
    )
    return 1 if left else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _left(name: str, places: Iterable[NodeAddress], before: set[Path]) -> list[str]:
    """What there is of a cluster that has ended."""
    found = [f"process {pid}: {words}" for pid, words in _command_lines() if f"{name}-" in words]
    found += [str(file) for file in _files() - before if name in file.name]
    found += [text for place in places if (text := busy_port(place))]
    return found


def _command_lines() -> Iterable[tuple[str, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield (
                    entry.name,
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
                )


def _files() -> set[Path]:
    return {*run_folder().iterdir(), *Path(tempfile.gettempdir()).iterdir(), *Path("/var/tmp").iterdir()}


if __name__ == "__main__":
    sys.exit(main())
