"""The other end of a connection: found by what the kernel says, not by a name."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flushlab.machine import proc_stat, processes
from flushlab.machine.processes import (
    ProcessIo,
    Writer,
    command_line,
    has_files_open,
    is_server,
    parse_io,
    peer_end,
    peer_pid,
    process_io,
    run_delays,
    waiting,
    writers,
)
from tests.waiting import wait_until

# Two ends of one connection on 127.0.0.1, an IPv4 one to a socket of IPv6; cut from a real /proc/net/tcp.
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   104        0 29001 1 0
   1: 0100007F:B2C4 0100007F:0CEA 01 00000000:00000000 00:00000000 00000000     0        0 29002 1 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr
   0: 0000000000000000FFFF00000100007F:0CEA 0000000000000000FFFF00000100007F:B2C4 01 0:0 0:0 0 1 0 29003 1 0
   1: 00000000000000000000000001000000:0CEA 00000000000000000000000001000000:B2C4 01 0:0 0:0 0 1 0 29004 1 0
"""


def test_the_other_end_of_tcp_is_the_reversed_pair() -> None:
    client, server = ("127.0.0.1", 0xB2C4), ("127.0.0.1", 0x0CEA)
    assert peer_end([TCP, TCP6], local=client, remote=server) == (29003, 1)
    assert peer_end([TCP], local=server, remote=client) == (29002, 0)
    assert peer_end([TCP], local=client, remote=server) is None  # the listener is no end of it
    six = ("::1", 0xB2C4, 0, 0), ("::1", 0x0CEA, 0, 0)
    assert peer_end([TCP, TCP6], local=six[0], remote=six[1]) == (29004, 1)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_a_listener_on_this_machine_is_found(family: socket.AddressFamily, tmp_path: Path) -> None:
    address: Any = ("127.0.0.1", 0) if family == socket.AF_INET else str(tmp_path / "s")
    script = (
        "import socket, sys\n"
        f"one = socket.socket({int(family)}); one.bind({address!r}); one.listen()\n"
        "print(one.getsockname(), flush=True); held, _ = one.accept(); print('up', flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        told = other.stdout.readline()
        with socket.socket(family) as connection:
            connection.connect(ast.literal_eval(told) if family == socket.AF_INET else address)
            assert other.stdout.readline() == "up\n"
            assert peer_pid(connection) == other.pid
            assert not is_server(other.pid)


@pytest.mark.parametrize("words", [["/usr/sbin/mysqld"], ["--library-path", "/lib", "/opt/bin/mariadbd"]])
def test_a_server_is_known_by_its_command_line(words: list[str]) -> None:
    """Also behind a loader, as servers of another distribution are started."""
    with subprocess.Popen(["/bin/sh", "-c", "read x", *words], stdin=subprocess.PIPE) as server:
        wait_until(lambda: is_server(server.pid), "exec(2) is over, and the kernel has its command line")
    assert not is_server(os.getpid())
    assert command_line(2**22 + 1) == ()


@pytest.mark.parametrize("servers", [0, 1, 2])
def test_the_user_of_the_other_end_tells_its_only_server(
    servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ordinary user may not see who holds another user's socket."""
    monkeypatch.setattr(processes, "_holder", lambda _: None)
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as listener:
        here = {
            stack.enter_context(
                subprocess.Popen(["/bin/sh", "-c", "read x", "mariadbd"], stdin=subprocess.PIPE)
            ).pid
            for _ in range(servers)
        }
        wait_until(lambda: all(map(is_server, here)), "exec(2) is over")
        monkeypatch.setattr(processes, "is_server", here.__contains__)
        connection = stack.enter_context(socket.create_connection(listener.getsockname()))
        with listener.accept()[0]:
            assert peer_pid(connection) == (next(iter(here)) if servers == 1 else None)


IO = """rchar: 323934931
wchar: 323929600
syscr: 632687
syscw: 632675
read_bytes: 0
write_bytes: 323932160
cancelled_write_bytes: 4096
"""


def test_bytes_that_were_given_up_do_not_count() -> None:
    assert parse_io(IO) == 323928064
    with pytest.raises(ValueError, match="write_bytes"):
        parse_io("rchar: 1\n")


def test_processes_of_one_name_are_added_and_new_ones_count_from_zero() -> None:
    first = ProcessIo(written={(7, "1"): 100, (8, "1"): 50}, names={(7, "1"): "dd", (8, "1"): "rsync"})
    last = ProcessIo(
        written={(7, "1"): 400, (8, "9"): 20, (9, "3"): 500},
        names={(7, "1"): "dd", (8, "9"): "cat", (9, "3"): "dd"},
    )
    assert writers(first, last) == (
        Writer(name="dd", pids=(9, 7), bytes_written=800),
        Writer(name="cat", pids=(8,), bytes_written=20),  # a new process with an old number
    )
    assert writers(last, last) == ()


def test_this_process_is_seen(tmp_path: Path) -> None:
    found = process_io()
    assert os.getpid() in {pid for pid, _ in found.written}
    device = tmp_path.stat().st_dev
    with (tmp_path / "file").open("w"):
        assert has_files_open(os.getpid(), device) is True
    assert has_files_open(os.getpid(), device + 1_000_000) is False
    assert has_files_open(2**22 + 1, device) is None


def test_a_process_that_ends_while_it_is_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def ends(path: Path, *args: Any, **more: Any) -> str:
        if path == Path("/proc", str(os.getpid()), "comm"):
            raise ProcessLookupError(3, "No such process")
        return read(path, *args, **more)

    monkeypatch.setattr(Path, "read_text", ends)
    found = process_io()
    assert found.written.keys() <= found.names.keys()
    assert os.getpid() not in {pid for pid, _ in found.written}


def test_the_threads_of_a_process_are_seen() -> None:
    own = run_delays(os.getpid())
    assert os.getpid() in own and own[os.getpid()] >= 0.0
    assert run_delays(2**30) == {}


def test_only_threads_that_were_there_all_of_the_time_count() -> None:
    before, after = {1: 1.0, 2: 5.0, 3: 0.0}, {1: 3.0, 2: 6.0, 4: 9.0}
    assert waiting(before, after, 2.0) == pytest.approx(1.5)
    assert waiting({1: 1.0}, {2: 3.0}, 2.0) is None


def test_fields_are_found_behind_a_name_with_parentheses_and_spaces() -> None:
    fields = proc_stat.parse(f"42 (a) b ) S {' '.join(str(number) for number in range(4, 53))}\n")
    assert fields[proc_stat.STATE] == "S"
    assert fields[proc_stat.START_TICKS] == "22"


def test_the_kernel_says_who_the_parent_is_and_nothing_of_a_process_that_is_gone() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        found = proc_stat.fields(child.pid)
        assert found is not None and found[proc_stat.PARENT] == str(os.getpid())
        assert found[proc_stat.SESSION] == str(os.getsid(0))
    assert proc_stat.fields(child.pid) is None
