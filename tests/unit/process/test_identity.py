from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flushlab.errors import HarnessError
from flushlab.process import identity
from flushlab.process.identity import (
    ProcessIdentity,
    identify,
    kill,
    kill_session,
    machine,
    myself,
    session_members,
    signal_process,
    terminate,
    wait_for_end,
    world,
)
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process
        process.kill()


def known(pid: int) -> ProcessIdentity:
    found = identify(pid)
    assert found is not None
    return found


def later(process: ProcessIdentity) -> ProcessIdentity:
    """A process that ended before this one got its number."""
    return ProcessIdentity(pid=process.pid, start_ticks=process.start_ticks - 1)


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


@pytest.mark.parametrize(
    ("content", "name"), [("0123abc\n", f"0123abc {os.uname().nodename}"), ("\n", ""), (None, "")]
)
def test_a_machine_without_a_machine_id_has_no_name(
    content: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_text(path: Path) -> str:
        assert path == Path("/etc/machine-id")
        if content is None:
            raise FileNotFoundError
        return content

    monkeypatch.setattr(Path, "read_text", read_text)
    assert machine.__wrapped__() == name


def test_a_process_that_ends_at_sigterm_is_not_killed(sleeping: subprocess.Popen[bytes]) -> None:
    assert terminate(known(sleeping.pid), grace_s=PATIENCE_S)
    assert sleeping.wait(PATIENCE_S) == -signal.SIGTERM


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace() -> None:
    deaf = ["/bin/sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done"]
    with subprocess.Popen(deaf, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert not terminate(known(process.pid), grace_s=0.05)
            assert wait_for_end(known(process.pid), 0)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL


def test_without_a_grace_a_process_is_killed_at_once(sleeping: subprocess.Popen[bytes]) -> None:
    assert not terminate(known(sleeping.pid), grace_s=0)
    assert sleeping.wait(PATIENCE_S) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("grace_s", "due"),
    [(0.5, [signal.SIGTERM, signal.SIGKILL]), (0.0, [signal.SIGKILL]), (-1.0, [signal.SIGKILL])],
)
def test_sigterm_is_sent_where_there_is_any_grace(
    grace_s: float, due: list[signal.Signals], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[signal.Signals]()

    def send(_: ProcessIdentity, number: signal.Signals) -> bool:
        sent.append(number)
        return True

    monkeypatch.setattr(identity, "signal_process", send)
    monkeypatch.setattr(identity, "wait_for_end", lambda *_: signal.SIGKILL in sent)
    assert not terminate(myself(), grace_s=grace_s)
    assert sent == due


def test_a_process_that_survives_being_killed_is_reported(
    sleeping: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "wait_for_end", lambda *_: False)
    with pytest.raises(HarnessError, match=f"process {sleeping.pid} survived SIGKILL"):
        kill(known(sleeping.pid))
    sleeping.wait(PATIENCE_S)
    kill(ProcessIdentity(pid=sleeping.pid, start_ticks=1))  # it is dead: nothing to report


def test_no_signal_reaches_a_dead_process_or_a_later_one_with_its_number(
    sleeping: subprocess.Popen[bytes],
) -> None:
    running = known(sleeping.pid)
    assert not signal_process(later(running), signal.SIGKILL)
    assert wait_for_end(later(running), 0)
    assert not wait_for_end(running, 0.01)
    assert sleeping.poll() is None
    assert signal_process(running, signal.SIGKILL)
    assert wait_for_end(running, PATIENCE_S)
    assert not signal_process(running, signal.SIGKILL), "a zombie"
    sleeping.wait()
    assert not signal_process(running, signal.SIGKILL)
    assert wait_for_end(running, 0)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[ProcessIdentity]]]:
    """A session's leader with two members in groups of their own, one for each folder that is named."""
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    script = "set -m; tail -f ours/file & tail -f theirs/file & wait"
    command = ["/bin/bash", "-c", script]
    with subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, cwd=tmp_path) as leader:

        def named(folder: str) -> list[ProcessIdentity]:
            words = f"tail\0-f\0{folder}/file\0".encode()
            members = [one for one in session_members(leader.pid) if one.pid != leader.pid]
            return [one for one in members if Path(f"/proc/{one.pid}/cmdline").read_bytes() == words]

        wait_until(lambda: bool(named("ours") and named("theirs")), "both run")
        members = [*named("ours"), *named("theirs")]
        yield leader, members
        for one in (known(leader.pid) if leader.poll() is None else None, *members):
            if one is not None:
                signal_process(one, signal.SIGKILL)


Session = tuple[subprocess.Popen[bytes], list[ProcessIdentity]]


@pytest.mark.parametrize("leader_is", ["running", "a zombie", "reaped"])
def test_of_a_session_the_leader_ends_and_what_names_a_folder_of_ours(
    leader_is: str, session: Session
) -> None:
    leader, (ours, theirs) = session
    first = known(leader.pid)
    if leader_is != "running":
        signal_process(first, signal.SIGKILL)
        wait_until(lambda: not first.alive(), "the leader is dead")
        assert first not in session_members(leader.pid)
    if leader_is == "reaped":
        leader.wait()
    kill_session(first, ["elsewhere/", "ours/"])
    assert not first.alive()
    assert not ours.alive()
    assert theirs.alive()


def test_a_session_whose_leaders_number_is_another_process_is_left_alone(session: Session) -> None:
    leader, members = session
    kill_session(later(known(leader.pid)), ["ours/", "theirs/"])
    assert known(leader.pid).alive()
    assert all(one.alive() for one in members)


def test_the_leaders_group_ends_at_once_whatever_it_names(tmp_path: Path) -> None:
    """Members that are killed one by one could fork meanwhile."""
    (tmp_path / "file").touch()
    script = "sleep 600 & tail -f file & exec tail -f file"
    with subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, cwd=tmp_path) as leader:
        first = known(leader.pid)
        wait_until(lambda: len(session_members(leader.pid)) == 3, "all three run")
        others = [one for one in session_members(leader.pid) if one.pid != leader.pid]
        signal_process(first, signal.SIGKILL)
        kill_session(first, ["file"])
        assert all(wait_for_end(one, PATIENCE_S) for one in others)
