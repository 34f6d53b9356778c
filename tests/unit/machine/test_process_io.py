"""Who caused writes between two moments, by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from flushlab.machine.processes import ProcessIo, Writer, has_files_open, parse_io, process_io, writers

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
