"""Content that other machines have sent: what of it stays, and what makes room."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flushlab.datadir.kept import hold
from flushlab.fleet.received import ReceivedContent, ReceivedFiles, make_part
from flushlab.machine import home_part, ownership

pytestmark = pytest.mark.usefixtures("private_home")

USER = """
import sys
from pathlib import Path
from flushlab.datadir.kept import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def received(*names: str) -> list[ReceivedContent]:
    """Content of these folders' names, the first of which was used longest ago."""
    for time, name in enumerate(names, start=1):
        folder = home_part("content") / name
        make_part(folder, f"{name}.sql")
        (folder / "dump.sql").write_bytes(os.urandom(10_000))
        os.utime(folder / ownership.MARK, (time, time))
    found = ReceivedFiles().list()
    assert [one.folder.name for one in found] == sorted(names)
    return found


def test_what_was_used_longest_ago_goes_first() -> None:
    first, second, third = received("data-1", "data-2", "files-3")
    assert ReceivedFiles().evict(second.allocated_bytes + third.allocated_bytes) == (first,)
    assert ReceivedFiles().evict(third.allocated_bytes) == (second,)
    assert ReceivedFiles().list() == [third]


def test_what_another_process_uses_stays_until_that_process_ends() -> None:
    (one,) = received("data-1")
    command = [sys.executable, "-c", USER, str(one.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"held\n"
        assert ReceivedFiles().in_use(one)
        assert ReceivedFiles().evict(0) == ()
        user.kill()
    assert not ReceivedFiles().in_use(one)
    assert ReceivedFiles().evict(0) == (one,)


def test_what_this_process_uses_stays_where_it_makes_room_for_itself() -> None:
    (one,) = received("data-1")
    hold(one.folder)
    assert ReceivedFiles().evict(0, spare_ours=True) == ()
    assert ReceivedFiles().evict(0) == (one,)


def test_a_folder_without_the_mark_of_content_is_neither_listed_nor_removed(private_home: Path) -> None:
    received("data-1")
    unmarked, other = private_home / "content" / "data-2", private_home / "content" / "data-3"
    unmarked.mkdir()
    ownership.make(str(other), {"what": "build", "token": ownership.new_token()})
    assert [one.folder.name for one in ReceivedFiles().evict(0)] == ["data-1"]
    assert unmarked.is_dir()
    assert other.is_dir()


def test_a_transfer_that_was_broken_off_is_named_as_such() -> None:
    (part,) = received("part-1")
    assert part.what == "received in part · part-1.sql"
