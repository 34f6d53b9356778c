"""`flushlab test` where memory runs out: in a small control group, in a small tmpfs, with the disk full too.

Needs root: a control group of its own (memory, v1), and mounts in a mount namespace of the run's own.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flushlab.machine import home
from flushlab.machine.cgroup import group_of_self
from tests.integration.suite_project import Project, python, wait_until_memory_is_free

MIB = 1 << 20

GROWS = """
    import sys, time
    suites_own = b"x" * ({own_mib} << 20)
    datadir = ask(c, "SELECT @@datadir")[0][0]
    print(datadir)
    c.execute("CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)")
    rows, failures = 0, 0
    while datadir.startswith("/dev/shm") and rows < 300 or rows < 40:
        try:
            c.execute("INSERT INTO big (v) VALUES (REPEAT('x', 4000000))")
            rows += 1
            time.sleep(0.03)  # as fast as memory is looked at on a busy machine too
            datadir = ask(c, "SELECT @@datadir")[0][0]
        except pymysql.err.Error as error:
            failures += 1
            if failures == {patience}:
                sys.exit(3)
            time.sleep(0.05)
            try:
                c = tcp()
            except pymysql.err.Error:
                pass
    print(datadir)
    print(ask(c, "SELECT COUNT(*) >= %d, MIN(LENGTH(v)) FROM big" % rows))
"""
"""A suite with so much memory of its own, whose server grows until it lies elsewhere. It connects again when
its connection is cut, and gives up after so many failures."""


def grows(own_mib: int = 0, patience: int = 6000) -> list[str]:
    return python(GROWS.format(own_mib=own_mib, patience=patience))


@pytest.fixture
def small_group() -> Iterator[Callable[[int], Path]]:
    """Makes a control group with so much memory."""
    here = group_of_self("memory")
    if here is None or here.version != 1 or not os.access(here.top, os.W_OK) or os.geteuid() != 0:
        pytest.skip("no memory controller of cgroup v1 that this user may make groups in")
    folder = here.top / f"flushlab-test-{secrets.token_hex(4)}"

    def make(limit_bytes: int) -> Path:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
        return folder

    yield make
    if folder.is_dir():
        folder.rmdir()  # fails if a process is left in it


def entering(group: Path) -> tuple[str, ...]:
    """Words that start a command in a control group."""
    return ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")


def small_mount(target: Path, options: str) -> tuple[str, ...]:
    """Words that start a command which finds a small tmpfs at `target`, and nobody else does."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root may mount")
    mount = f'mount -t tmpfs -o mode=1777,{options} tmpfs {target} && exec "$@"'
    return ("unshare", "--mount", "--propagation=private", "sh", "-c", mount, "sh")


def kills(group: Path) -> int:
    (count,) = re.findall(r"^oom_kill (\d+)$", (group / "memory.oom_control").read_text(), re.MULTILINE)
    return int(count)


def test_a_suite_that_needs_the_memory_itself_keeps_its_life_and_its_data(
    project: Project, small_group: Callable[[int], Path]
) -> None:
    group = small_group(1400 * MIB)
    result, out, err = project.test(*grows(own_mib=750), prepare=False, under=entering(group))
    before, after, rows = out.splitlines()
    assert before.startswith("/dev/shm/") and not after.startswith("/dev/shm/")
    assert rows == "((1, 4000000),)", "none was lost"
    assert kills(group) == 0
    assert not result["in_memory"]
    assert err.count("was moved to disk during the suite") == 1
    wait_until_memory_is_free()


def test_a_small_tmpfs_is_left_before_it_is_full(project: Project) -> None:
    under = small_mount(Path("/dev/shm"), "size=420m")
    result, out, err = project.test(*grows(), prepare=False, under=under)
    assert out.startswith("/dev/shm/") and out.endswith("((1, 4000000),)\n")
    assert not result["in_memory"]
    assert "left in its tmpfs" in err


def test_with_the_disk_full_too_the_server_is_stopped_and_one_line_says_so(project: Project) -> None:
    under = (*small_mount(Path("/dev/shm"), "size=420m"), *small_mount(home() / "run", "size=30m"))
    result, _, err = project.test(*grows(patience=100), prepare=False, under=under, code=5)
    assert result["exit_code"] == 3, "the suite's own"
    said = [line for line in err.splitlines() if "stopped during the suite" in line]
    assert len(said) == 1 and "left in its tmpfs" in said[0] and "could not be moved to disk" in said[0]
    assert "Traceback" not in err


def test_memory_that_is_full_while_a_template_is_restored_means_disk(project: Project) -> None:
    show = python("print(ask(c, 'SELECT @@datadir')[0][0])")
    under = small_mount(Path("/dev/shm"), "size=1g,nr_inodes=40")  # bytes enough, files not
    result, out, err = project.test(*show, prepare=False, under=under)
    assert not out.startswith("/dev/shm") and not result["in_memory"]
    assert err.count("memory was full at the start of the server") == 1


@pytest.mark.parametrize(
    ("size", "when"), [("2m", "restoring a snapshot to /mnt"), ("8m", "while it started")]
)
def test_a_disk_that_is_full_is_named_whatever_filled_it(project: Project, size: str, when: str) -> None:
    under = small_mount(Path("/mnt"), f"size={size}")
    words = ("--no-in-memory", "--data-root", "/mnt", "--", "true")
    result, _, err = project.test(*words, prepare=False, under=under, code=5)
    assert result == {}
    assert when in err and "--data-root" in err.split("hint:")[1]
