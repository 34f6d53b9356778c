"""A fleet whose second machine has no root, little room and a clock that can be set."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flushlab.build import Build
from flushlab.fleet.status import ANSWER_S
from flushlab.version import __version__
from tests.fleet_testbed import Node, fleet_testbed, needs_ray, needs_root
from tests.waiting import wait_until

USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
"""A user without rights of root who may read what root owns."""
pytestmark = [
    needs_ray,
    needs_root,
    pytest.mark.xdist_group("fleet"),
    pytest.mark.long,
]
ROOM_BYTES = 60 << 20
"""Of the second machine: no server's data fit."""
LINK_DOWN_S = 20.0
"""As long as gRPC waits for an acknowledgement. The loss is noticed only if something is sent then; when the
link was down for 22 s, it was noticed without."""
RAY_PINGS_S = 240.0
"""Ray itself notices a connection that the other side gave up after 300 s."""
_CLOCK = """
import os, time
_now = time.time

def _shifted():
    try:
        with open(os.environ["TEST_CLOCK"]) as file:
            return _now() + float(file.read())
    except (OSError, ValueError):
        return _now()

time.time = _shifted
"""


class OddNode:
    """The second machine."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node, self._clock = node, folder / "clock"
        (folder / "sitecustomize.py").write_text(_CLOCK)
        paths = os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))
        self._environment = {"PYTHONPATH": paths, "TEST_CLOCK": str(self._clock)}

    def flushlab(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command of flushlab here."""
        set_here = [f"{name}={value}" for name, value in self._environment.items()]
        return self.node.run(*USER, "env", *set_here, sys.executable, "-m", "flushlab", *words, given=given)

    def set_clock(self, ahead_s: float) -> None:
        """Its clock is so far ahead from now on."""
        self._clock.write_text(str(ahead_s))


Pair = tuple[Node, OddNode]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two machines of one fleet."""
    if subprocess.run([*USER, "true"], check=False).returncode:
        pytest.skip("no user namespace can be made here")
    with fleet_testbed(2) as (one, two):
        odd = OddNode(two, tmp_path_factory.mktemp("odd"))
        two.home.mkdir()
        size = f"size={ROOM_BYTES},mode=755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(two.home)], check=True)
        try:
            one.start_fleet("one")
            outside = odd.flushlab("fleet", "status", one.address)
            assert (outside.returncode, outside.stdout) == (3, "")
            assert "answers only machines that are in it" in outside.stderr, outside.stderr
            joined = odd.flushlab("fleet", "join", one.address, "--key", "-", "--name", "two", given=one.key)
            assert joined.returncode == 0, joined.stderr
            yield one, odd
        finally:
            one.flushlab("fleet", "stop")
            two.clear()
            subprocess.run(["umount", "--lazy", str(two.home)], check=True)


@pytest.fixture
def clock(pair: Pair) -> Iterator[Callable[[float], None]]:
    """Sets the second machine's clock, for one test."""
    yield pair[1].set_clock
    pair[1].set_clock(0.0)


def compared(node: Node, *more: str) -> subprocess.CompletedProcess[str]:
    """A short comparison on the fleet."""
    return node.flushlab(
        *("compare", "innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=2", *more),
        *("--workload", "command: sleep 1", "--server", "mariadb@10.11", "--blocks", "2", "--json", "-"),
        *("--fleet", node.address),
    )


def is_refused(done: subprocess.CompletedProcess[str], pair: Pair, *lines: str) -> None:
    """Before a server has started, with these words; nothing is left on any machine."""
    assert (done.returncode, done.stdout) == (2, "")
    said = done.stderr.splitlines()
    assert len(said) == len(lines), done.stderr
    for found, pattern in zip(said, lines, strict=True):
        assert re.fullmatch(pattern, found), done.stderr
    one, odd = pair
    for node in (one, odd.node):
        wait_until(node.is_idle, f"the end of what runs on {node.name}")


def test_status_shows_the_clock_the_user_and_the_room(pair: Pair, clock: Callable[[float], None]) -> None:
    clock(600.0)
    done = pair[0].flushlab("fleet", "status", "--json", "-")
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout)["machines"]
    # Known to half of the time that the machine needs to answer, which is ANSWER_S at most.
    assert abs(two["clock_ahead_s"] - 600) <= ANSWER_S
    told = f"warning: the clock of two is {two['clock_ahead_s']:,.0f} s ahead of this machine's"
    assert told in done.stderr
    assert (one["problem"], one["is_root"], two["is_root"]) == ("", True, False)
    assert " is free in " in two["problem"]
    assert two["cpu_count"] == one["cpu_count"]


def test_a_clock_that_is_off_is_refused_by_name(pair: Pair, clock: Callable[[float], None]) -> None:
    clock(600.0)  # a busy machine's answer is judged seconds later
    is_refused(
        compared(pair[0]),
        pair,
        r"error: the clock of machine two is (9|10) min( \d+ s)? fast",
        "hint: correct it, or go on without that machine: run `flushlab fleet stop` there",
    )


def test_a_slow_disk_without_root_on_one_machine_is_refused_by_name(pair: Pair) -> None:
    is_refused(
        compared(pair[0], "--disk", "flush=1ms"),
        pair,
        "error: machine two runs flushlab without root, which a slow disk needs",
        "hint: correct it, or go on without that machine: run `flushlab fleet stop` there",
    )


def test_blocks_that_are_cancelled_stop_before_their_next_trials(pair: Pair) -> None:
    one, _ = pair
    done = one.run(sys.executable, "-m", "tests.fleet_program", one.address, "two")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["events"] == ["Stopped", "Ended"] * 20
    assert found["trials"] == [3] * 20
    assert found["flushlab"] == __version__


@pytest.mark.server("mariadb@10.11")
def test_a_machine_without_room_is_taken_out_and_the_others_finish(
    pair: Pair, build: Callable[[str], Build]
) -> None:
    build("mariadb@10.11")
    one, odd = pair
    for node in (one, odd.node):
        node.lend_builds()
    done = compared(one)
    assert done.returncode == 0, done.stderr
    assert (
        "warning: machine two is taken out: no space left while initializing a data directory" in done.stderr
    )
    facts = json.loads(done.stdout)
    assert [machine["name"] for machine in facts["machines"]] == ["one"]
    assert [arm["comparison"]["blocks"] for arm in facts["arms"]] == [2]
    for node in (one, odd.node):
        wait_until(node.is_idle, f"the end of what runs on {node.name}")


def test_an_answer_that_is_lost_with_the_link_is_not_waited_for(pair: Pair) -> None:
    one, _ = pair
    with one.popen(sys.executable, "-m", "tests.fleet_lost_answer", one.address, "two") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "sent\n", program.communicate()
        try:
            with one.partitioned(LINK_DOWN_S):
                pass
            said, complaints = program.communicate(timeout=RAY_PINGS_S)
        finally:
            program.kill()
    assert said.strip() in ("machine two was lost: its worker does not answer", "answered"), complaints
