"""Where no disk of its own can be made, `--disk` says why and what to do, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from flushlab.process import run_folder
from tests.integration.test_fault_disk import processes_of, why_not
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare"),
    pytest.mark.usefixtures("private_home"),
]
PROBE = (sys.executable, "-m", "flushlab", "probe", "--quick", "--disk", "gp3")
ALONE = ("unshare", "--mount", "--propagation=private", "sh", "-ec")
DEVICES = """
mount -t tmpfs -o mode=755 tmpfs "$1"
for name in null zero full random urandom tty $2; do cp -a "/dev/$name" "$1/"; done
mount --bind "$1" /dev
shift 2
exec "$@"
"""
"""A machine with few devices: a folder, their names, a command."""


def said(command: Sequence[str | Path], code: int) -> str:
    """What it says on stderr."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr and "error:" not in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def require_disks(factory: pytest.TempPathFactory) -> None:
    if why := why_not(factory.getbasetemp()):
        pytest.skip(why)


def test_a_user_without_root_is_told_to_be_root(private_home: Path) -> None:
    os.chown(private_home, 65534, 65534)
    private_home.chmod(0o755)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if subprocess.run([*nobody, sys.executable, "-c", "import flushlab._core"], check=False).returncode:
        pytest.skip("others cannot run this Python")
    words = said([*nobody, *PROBE], 2)
    assert "a disk of its own needs root; flushlab runs as user 65534 hint: run flushlab as root" in words


@pytest.mark.parametrize(
    ("devices", "complaint"),
    [
        ("loop-control", "no separate disk can be made here: /dev/fuse is missing"),
        ("fuse", "no separate disk can be made here: /dev/loop-control is missing"),
        ("fuse loop-control", "no loop device can be had from /dev/loop"),
    ],
    ids=["FUSE", "control of loop devices", "loop device"],
)
def test_a_machine_is_told_of_that_has_no(
    devices: str,
    complaint: str,
    private_home: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    require_disks(tmp_path_factory)
    words = said([*ALONE, DEVICES, "sh", tmp_path, devices, *PROBE], 6)
    assert complaint in words
    assert "containers often" in words.partition("hint: ")[2]
    wait_until(lambda: not processes_of(private_home), "its processes end")
    assert list(run_folder().iterdir()) == []


def test_root_that_may_not_mount_is_told_of_the_host(tmp_path_factory: pytest.TempPathFactory) -> None:
    require_disks(tmp_path_factory)
    words = said(["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", *PROBE], 6)
    assert "the disk cannot be served: " in words
    assert "Operation not permitted" in words
    assert "the right to mount, which containers often lack; try on the host" in words
    assert list(run_folder().iterdir()) == []


def test_a_disk_for_which_there_is_no_room_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    require_disks(tmp_path_factory)
    tiny = 'mount -t tmpfs -o size=12m,mode=755 tmpfs /mnt; exec "$@"'
    words = said([*ALONE, tiny, "sh", *PROBE, "--data-root", "/mnt"], 5)
    assert "a disk of its own needs 17.8 MiB, but only 12 MiB is free" in words
    assert "--data-root" in words.partition("hint: ")[2]
    assert list(run_folder().iterdir()) == []
