"""`flushlab probe` on real folders: what it measures, refuses, warns of, and leaves behind (nothing)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flushlab.campaign import bench
from tests.command import flushlab
from tests.waiting import PATIENCE_S, unmount, wait_until

SMALL = (
    "--quick",
    "--window",
    "0.05",
    "--trx-commit",
    "relaxed",
    "--binlog-strategy",
    "serial",
    "--threads",
    "2",
)
"""The smallest probe there is."""

NO_SYNC = """
int fsync(int descriptor) { return descriptor < 0 ? -1 : 0; }
int fdatasync(int descriptor) { return descriptor < 0 ? -1 : 0; }
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "flushlab", "probe", *words]


def probe(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    if environment:
        own = {**os.environ, "COLUMNS": "80", **environment}
        return subprocess.run(command(*words), capture_output=True, text=True, check=False, env=own)
    return flushlab("probe", *words, code=None)


def told(*words: str, **environment: str) -> dict[str, Any]:
    done = probe(*words, "--json", "-", **environment)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def slugs(said: dict[str, Any]) -> set[str]:
    return {one["slug"] for one in said["warnings"]}


@contextmanager
def mounted(point: Path, *words: str) -> Iterator[Path]:
    point.mkdir()
    done = subprocess.run(["mount", *words, str(point)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield point
    finally:
        unmount(point)


@pytest.fixture(autouse=True)
def home(private_home: Path) -> Path:
    return private_home


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that a probe has to leave as it was."""
    folder = tmp_path / "place"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def test_a_probe_measures_the_disk_and_the_ceilings_of_two_policies(place: Path, tmp_path: Path) -> None:
    page = tmp_path / "probe.html"
    for seconds in (
        "0.2",
        "2",
        "10",
    ):  # until something is done in each window, on a busy machine
        words = ("--quick", "--window", seconds, "--threads", "1", "--data-root", str(place))
        said = told(*words, "--html", str(page))
        cells = {
            (one["trx_commit"], one["sync_binlog"], one["binlog_strategy"]): one for one in said["ceilings"]
        }
        worked = all(one["operations_per_s"] > 0 or one["refused"] for one in said["disk"])
        if worked and len(cells) == 5:
            break
    assert worked
    assert cells.keys() == {
        (1, 1, "serial"),
        (1, 1, "redo"),
        (1, 1, "two-syncs"),
        (2, 1000, "serial"),
        (2, 1000, "parallel"),
    }
    for one in cells.values():
        assert one["commits_per_s"] > 0 and one["latency_us"]["p50"] <= one["latency_us"]["p99"]
    both, redo, later = cells[1, 1, "serial"], cells[1, 1, "redo"], cells[2, 1000, "serial"]
    assert both["bytes_at_risk"] == 0 < later["bytes_at_risk"]
    fsyncs, commits = (both[what] * both["seconds"] for what in ("fsyncs_per_s", "commits_per_s"))
    assert fsyncs >= 2 * commits - 2.5, "one connection syncs both logs per commit"
    fsyncs, commits = (redo[what] * redo["seconds"] for what in ("fsyncs_per_s", "commits_per_s"))
    assert fsyncs <= 1.2 * commits + 5
    assert {(one["trx_commit"], one["binlog_strategy"]) for one in said["refused"]} == {
        (1, "parallel"),
        (2, "redo"),
        (2, "two-syncs"),
    }
    repeated = f"flushlab probe --data-root {place} --quick --window {seconds} --threads 1"
    assert said["command"] == repeated
    assert said["headline"] in page.read_text() and repeated in page.read_text()


def test_a_policy_that_contradicts_itself_is_refused_with_the_rule_and_the_way_out(place: Path) -> None:
    done = probe("--data-root", str(place), "--trx-commit", "strict", "--binlog-strategy", "parallel")
    assert done.returncode == 2
    assert "sync_binlog=1" in done.stderr and "hint:" in done.stderr and "Traceback" not in done.stderr


def test_one_processor_is_warned_of(place: Path) -> None:
    done = subprocess.run(
        ["taskset", "-c", "0", *command(*SMALL, "--data-root", str(place), "--json", "-")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "one-cpu" in slugs(json.loads(done.stdout))


def test_a_library_that_swallows_syncs_is_found_out(place: Path, tmp_path: Path) -> None:
    library = tmp_path / "nosync.so"
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)],
        input=NO_SYNC, text=True, check=True,
    )  # fmt: skip
    # A busy machine delays even a write that goes nowhere; no try of an honest disk is ever too fast.
    tries = (slugs(told(*SMALL, "--data-root", str(place), LD_PRELOAD=str(library))) for _ in range(20))
    assert any("fsync-too-fast" in told_of for told_of in tries)


def test_ctrl_c_leaves_nothing(place: Path) -> None:
    victim = begun(place)
    victim.send_signal(signal.SIGINT)
    _, said = victim.communicate(timeout=PATIENCE_S)
    assert victim.returncode == 130
    assert "Traceback" not in said


def test_what_a_killed_probe_left_goes_with_the_next_command(place: Path) -> None:
    victim = begun(place)
    victim.kill()
    victim.communicate()
    (left,) = place.iterdir()
    done = probe("--trx-commit", "strict", "--binlog-strategy", "parallel", "--data-root", str(place))
    assert f"cleaned up after an earlier run: {left.name}" in done.stderr


def begun(place: Path, seconds: float = 30) -> subprocess.Popen[str]:
    """A probe that writes its first file, or is in the first of its windows."""
    victim = subprocess.Popen(
        command("--window", str(seconds), "--data-root", str(place)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: list(place.glob("*/disk/written")), "a file of the probe")
    return victim


@needs_root
def test_a_disk_that_becomes_full_in_the_middle_is_told(tmp_path: Path) -> None:
    with mounted(tmp_path / "full", "-t", "tmpfs", "-o", "size=300m", "none") as place:
        victim = begun(place, seconds=0.5)
        with (place / "filler").open("wb") as filler:
            try:
                os.posix_fallocate(filler.fileno(), 0, 300 << 20)
            except OSError:
                fill(filler.fileno())
        _, said = victim.communicate(timeout=PATIENCE_S)
        assert victim.returncode == 5
        assert f"{place} filled up during the probe" in said and "hint:" in said
        assert [one.name for one in place.iterdir()] == ["filler"]


def fill(descriptor: int) -> None:
    """Writes until nothing fits any more."""
    block = b"x" * 65536
    while True:
        try:
            os.write(descriptor, block)
        except OSError:
            return


@needs_root
def test_places_that_cannot_be_written_to_are_named(tmp_path: Path) -> None:
    with mounted(tmp_path / "ro", "-t", "tmpfs", "-o", "size=300m,ro", "none") as place:
        done = probe(*SMALL, "--data-root", str(place))
        assert (done.returncode, done.stdout) == (5, "")
        assert "read-only" in done.stderr
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=10m", "none") as place:
        done = probe(*SMALL, "--data-root", str(place))
        assert done.returncode == 5
        assert "a probe needs 256 MiB, but only 10 MiB is free" in done.stderr


@needs_root
def test_a_file_system_without_o_direct_is_reported_as_such(tmp_path: Path) -> None:
    with mounted(tmp_path / "ram", "-t", "ramfs", "none") as place:
        said = told(*SMALL, "--data-root", str(place))
    refused = {(one["way"], one["layout"]): one["refused"] for one in said["disk"] if one["refused"]}
    assert refused == {
        ("direct", "written"): "not possible: the file system has no O_DIRECT",
        ("direct_dsync", "written"): "not possible: the file system has no O_DIRECT",
        ("fdatasync", "allocated"): "not possible: the file system has no fallocate",
    }
    assert "in-memory" in slugs(said)


@needs_root
def test_512_bytes_on_a_device_with_larger_blocks_are_not_possible(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(400 << 20)
    loop = subprocess.run(
        ["losetup", "--sector-size", "4096", "-f", "--show", str(image)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if loop.returncode:
        pytest.skip(f"no loop device here: {loop.stderr.strip()}")
    device = loop.stdout.strip()
    try:
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", device], check=True)
        with mounted(tmp_path / "blocks", device) as place:
            said = told(*SMALL[1:], "--data-root", str(place))
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
    assert said["medium"]["logical_block_bytes"] == 4096
    refused = [(one["way"], one["bytes"], one["refused"]) for one in said["disk"] if one["refused"]]
    assert refused == [("direct_dsync", 512, "not possible: the device's logical block has 4,096 bytes")]


@pytest.mark.server("mariadb@10.11")
def test_a_server_is_measured_beside_its_ceiling(
    furnished_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(bench.bench, tables=1, table_size=100)
    monkeypatch.setattr(bench, "bench", small)
    asked = ("--server", "mariadb@10.11", "--threads", "2", "--set", "sync_binlog=1000", "--json", "-")
    for seconds in ("0.5", "5", "30"):  # a window in which nothing is committed is no ceiling
        done = probe(*SMALL, "--window", seconds, *asked)
        if done.returncode == 0 and json.loads(done.stdout)["against"]:
            break
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    (share,) = said["against"]
    assert (share["trx_commit"], share["sync_binlog"], share["threads"]) == (1, 1000, 2)
    assert share["commits_per_s"] > 0 and share["server"].startswith("mariadb@10.11")
    assert share["commits_per_s"] == pytest.approx(share["share"] * share["ceiling_per_s"])
    assert not any(one["slug"] in ("no-binlog", "other-disk") for one in share["warnings"])
