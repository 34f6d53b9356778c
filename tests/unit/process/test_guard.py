"""The guard with ordinary programs instead of servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from flushlab.errors import HarnessError, UsageError
from flushlab.machine import server_user
from flushlab.machine.confinement import available
from flushlab.process import Guard, GuardedProcess, Reach, all_records, identify, run_folder
from flushlab.process.guard import strike
from flushlab.process.identity import ProcessIdentity
from tests.left import processes_of
from tests.trees import OCCUPANTS, occupy, tree
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("private_home")


@pytest.fixture
def guard() -> Iterator[Guard]:
    folder = run_folder() / "it"
    with Guard("it", [folder]) as guard:
        yield guard


def run(guard: Guard, script: str, writes: Sequence[Path] | None = None) -> GuardedProcess:
    log = run_folder() / guard.name / "log"
    return guard.spawn(["/bin/sh", "-c", script], log=log, cwd=Path("/"), environment={}, reach=Reach(writes))


def output(guard: Guard, script: str) -> str:
    assert run(guard, script).wait(PATIENCE_S) == 0
    return (run_folder() / guard.name / "log").read_text()


def test_exit_code_is_told(guard: Guard) -> None:
    assert run(guard, "exit 3").wait(PATIENCE_S) == 3


def test_signal_that_ended_it_is_told(guard: Guard) -> None:
    process = run(guard, "sleep 600")
    process.signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == -signal.SIGTERM
    assert not process.alive()


def test_running_process_does_not_end_within_the_wait(guard: Guard) -> None:
    process = run(guard, "sleep 600")
    assert process.wait(0.01) is None
    assert process.alive()


def test_closing_kills_what_was_started_even_what_left_the_session(guard: Guard) -> None:
    log = run_folder() / "it" / "log"
    process = run(guard, "setsid sleep 600 & echo $!; sleep 601 & echo $!; wait")
    wait_until(lambda: log.is_file() and len(log.read_text().split()) == 2, "both children are there")
    children = [identify(int(pid)) for pid in log.read_text().split()]
    assert all(child and child.alive() for child in children)
    guard.close()
    assert not process.alive()
    assert not any(child and child.alive() for child in children)


def test_closing_removes_folder_and_record(guard: Guard) -> None:
    assert [record.name for record in all_records()] == ["it"]
    guard.close()
    assert list(run_folder().iterdir()) == []


def test_program_that_cannot_be_executed_is_an_error(guard: Guard) -> None:
    with pytest.raises(HarnessError, match=r"/nonexistent could not be executed: FileNotFoundError"):
        guard.spawn(
            ["/nonexistent"],
            log=run_folder() / "it" / "log",
            cwd=Path("/"),
            environment={},
            reach=Reach(None),
        )


def test_it_runs_as_the_servers_user_and_never_as_root(guard: Guard) -> None:
    user = server_user()
    assert output(guard, "id -u; id -g; id -G").split() == [str(user.uid), str(user.gid), str(user.gid)]
    assert user.uid != 0


def test_it_inherits_no_descriptors(guard: Guard) -> None:
    leak = os.open("/dev/null", os.O_RDONLY)
    try:
        listing = output(guard, "ls /proc/$$/fd")
    finally:
        os.close(leak)
    assert set(listing.split()) - {"10"} == {"0", "1", "2"}  # 10: dash keeps its script there


def test_it_ignores_and_blocks_no_signals(guard: Guard) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        status = output(guard, "grep -E '^Sig(Blk|Ign)' /proc/self/status")
    finally:
        signal.signal(signal.SIGUSR1, before)
    # The signals of POSIX: glibc keeps 32 and 33 to itself, and nobody can set them through it.
    assert [int(line.split()[1], 16) & 0x7FFF_FFFF for line in status.splitlines()] == [0, 0]


def test_environment_is_what_was_given_and_path(guard: Guard) -> None:
    log = run_folder() / "it" / "log"
    process = guard.spawn(
        ["/usr/bin/env"], log=log, cwd=Path("/"), environment={"ONLY": "this"}, reach=Reach(None)
    )
    assert process.wait(PATIENCE_S) == 0
    names = {line.split("=")[0] for line in log.read_text().splitlines()}
    assert names == {"ONLY", "PATH"}


def test_record_names_the_process_before_it_executes(guard: Guard) -> None:
    seen: list[ProcessIdentity | None] = []
    programs: list[bytes] = []

    def look(pid: int) -> None:
        seen.extend(record.server for record in all_records())
        programs.append(Path(f"/proc/{pid}/cmdline").read_bytes())

    log = run_folder() / "it" / "log"
    process = guard.spawn(
        ["/bin/true"], log=log, cwd=Path("/"), environment={}, reach=Reach(None), before_exec=look
    )
    assert seen == [process.identity]
    assert b"guard_main" in programs[0], "it was still a copy of the guard"


def test_name_that_is_taken_is_refused(guard: Guard) -> None:
    with pytest.raises(UsageError, match="a sandbox named 'it' already exists"):
        Guard("it")


@pytest.mark.parametrize("there", OCCUPANTS)
def test_what_is_in_a_folders_place_is_refused_and_left(private_home: Path, there: str) -> None:
    place, other = private_home / "data/mysql", private_home / "other"
    run_folder()
    place.parent.mkdir()
    other.mkdir()
    (other / "ibdata1").write_text("precious")
    occupy(place, other, there)
    before = tree(private_home)
    with pytest.raises(UsageError, match=f"{place} already exists, and flushlab did not make it"):
        Guard("mysql", [run_folder() / "mysql", place])
    assert [record.name for record in all_records()] == []
    assert tree(private_home) == before


def test_folder_that_took_the_place_of_a_sandboxs_own_is_left(guard: Guard, private_home: Path) -> None:
    (run_folder() / "it").rename(private_home / "moved")
    (run_folder() / "it").mkdir()
    (run_folder() / "it/ibdata1").write_text("precious")
    guard.close()
    assert (run_folder() / "it/ibdata1").read_text() == "precious"
    assert (private_home / "moved").is_dir(), "it is not where the record says"


def test_released_process_lives_on(guard: Guard) -> None:
    log = run_folder() / "it" / "log"
    process = guard.spawn(
        ["/bin/sleep", "600"], log=log, cwd=Path("/"), environment={}, reach=Reach(None), outlives_guard=True
    )
    guard.release()
    guard.close()
    try:
        assert process.identity.alive()
        assert log.is_file()
        (record,) = all_records()
        assert (record.kind, record.server) == ("kept", process.identity)
    finally:
        os.kill(process.pid, signal.SIGKILL)


def test_forked_child_of_flushlab_does_not_end_the_guard(guard: Guard) -> None:
    process = run(guard, "sleep 600")
    child = os.fork()
    if child == 0:
        guard.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert process.wait(0.05) is None


def test_forked_child_does_not_keep_the_guard_alive(guard: Guard) -> None:
    process = run(guard, "sleep 600")
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        guard.close()
        assert not process.alive()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


OWNER = """
import sys
from pathlib import Path
from flushlab.process import Guard, Reach, run_folder
folder = run_folder() / "it"
guard = Guard("it", [folder])
log, anywhere = folder / "log", Reach(None)
process = guard.spawn(["/bin/sleep", "600"], log=log, cwd=Path("/"), environment={}, reach=anywhere)
print(process.pid, flush=True)
sys.stdin.readline()
%s
"""


def owner_that(does: str) -> tuple[subprocess.Popen[str], ProcessIdentity]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER % does], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    found = identify(int(owner.stdout.readline()))
    assert found is not None
    owner.stdin.write("\n")  # it goes on only now: its process may be gone in a moment
    owner.stdin.flush()
    return owner, found


def kill_guard() -> None:
    """Kills the only one there is."""
    (record,) = all_records()
    assert record.guard is not None
    os.kill(record.guard.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_end_of_the_owner_by_a_signal_ends_its_process(number: signal.Signals) -> None:
    owner, process = owner_that("sys.stderr.close(); sys.stdin.read() or __import__('signal').pause()")
    owner.send_signal(number)
    owner.communicate()
    wait_until(lambda: not process.alive(), "the process is dead")
    wait_until(lambda: not list(run_folder().iterdir()), "the guard has removed folder and record")


@pytest.mark.parametrize("does", ["", "sys.stderr.close(); raise RuntimeError", "__import__('os')._exit(9)"])
def test_end_of_the_owner_by_itself_ends_its_process(does: str) -> None:
    owner, process = owner_that(does)
    owner.communicate()
    wait_until(lambda: not process.alive(), "the process is dead")
    wait_until(lambda: not list(run_folder().iterdir()), "the guard has removed folder and record")


def test_process_dies_with_its_guard() -> None:
    owner, process = owner_that("__import__('signal').pause()")
    kill_guard()
    wait_until(lambda: not process.alive(), "the process is dead")
    owner.kill()
    owner.communicate()


def test_dead_guard_is_noticed_and_its_work_done(guard: Guard) -> None:
    process = run(guard, "sleep 600")
    kill_guard()
    wait_until(lambda: not process.alive(), "the process is dead")
    with pytest.raises(HarnessError, match="guard of sandbox it"):
        run(guard, "true")
    guard.close()
    assert list(run_folder().iterdir()) == []


FORKS = (
    "(i=0; while [ $i -lt 1500 ]; do (read line < {pipe}) & i=$((i + 1)); done; read line < {pipe}) & wait"
)


def test_what_a_program_goes_on_to_fork_ends_although_its_guard_was_killed(guard: Guard) -> None:
    """As with scripts that set a server up, whose parts do not die with them."""
    pipe = run_folder() / "it" / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o644)
    run(guard, FORKS.format(pipe=pipe))
    wait_until(lambda: len(processes_of(pipe)) > 20, "it forks", PATIENCE_S / 10)
    kill_guard()
    guard.close()
    left = processes_of(pipe)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def test_strike_kills_what_these_threads_have_started_alone(guard: Guard) -> None:
    process = run(guard, "sleep 600")
    strike([threading.get_ident() + 1])
    assert process.wait(0.1) is None
    strike([threading.get_ident()])
    assert process.wait(PATIENCE_S) == -signal.SIGKILL


@pytest.mark.skipif(not available(), reason="this kernel has no Landlock")
@pytest.mark.parametrize(
    "write",
    [
        "echo x > {other}/new",
        "echo x >> {other}/old",
        ": > {other}/old",
        "rm {other}/old",
        "mv {own}/mine {other}/old",
        "mv {other}/old {own}/theirs",
        "ln {other}/old {own}/theirs && echo x >> {own}/theirs",
        "ln -s {other}/old {own}/link && echo x >> {own}/link",
        "mkdir {other}/folder",
        "truncate -s 0 {other}/old",
        "sh -c 'echo x >> {other}/old'",
        "cd {own} && echo x >> ../other/old",
    ],
)
def test_a_program_writes_in_its_folders_only(guard: Guard, write: str) -> None:
    own, other = run_folder() / "it" / "own", run_folder() / "it" / "other"
    for folder in (own, other):
        folder.mkdir()
        folder.chmod(0o777)  # only the kernel's rule stands in the way
    (other / "old").write_text("as it was")
    (other / "old").chmod(0o666)
    script = f"echo 1 > {own}/mine && mkdir {own}/a && mv {own}/mine {own}/a/b && mv {own}/a/b {own}/mine"
    script += f" && cat {other}/old > /dev/null || exit 9; {write.format(own=own, other=other)}"
    assert run(guard, script, [own]).wait(PATIENCE_S) not in (0, 9)
    assert [(one.name, one.read_text()) for one in other.iterdir()] == [("old", "as it was")]
