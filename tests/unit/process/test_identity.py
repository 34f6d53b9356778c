from __future__ import annotations

import os
import subprocess

from flushlab.process.identity import ProcessIdentity, identify, myself, session_members, world
from tests.waiting import wait_until


def test_running_process_is_alive() -> None:
    assert myself().alive()
    assert myself().pid == os.getpid()


def test_zombie_is_dead() -> None:
    child = subprocess.Popen(["/bin/true"])
    seen = identify(child.pid)
    assert seen is not None
    wait_until(lambda: not seen.alive(), "the child is a zombie")
    assert identify(child.pid) == seen, "it is still in /proc: nobody has reaped it"
    child.wait()


def test_another_process_with_the_same_number_is_not_it() -> None:
    me = myself()
    assert not ProcessIdentity(pid=me.pid, start_ticks=me.start_ticks + 1).alive()


def test_reaped_process_is_not_found() -> None:
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    assert identify(child.pid) is None


def test_session_members_are_the_descendants_that_did_not_leave_it() -> None:
    command = ["/bin/sh", "-c", "sleep 600 & setsid sleep 601 & wait"]
    with subprocess.Popen(command, start_new_session=True) as leader:
        wait_until(lambda: len(session_members(leader.pid)) == 2, "the shell and one sleep")
        pids = {member.pid for member in session_members(leader.pid)}
        assert leader.pid in pids
        subprocess.run(["pkill", "-KILL", "-P", str(leader.pid)], check=True)


def test_world_names_boot_and_pid_namespace() -> None:
    boot, namespace = world().split()
    assert len(boot) == 36
    assert namespace.startswith("pid:[")
