"""The files that Galera keeps of a node's position, as Galera 26.4.23 writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from flushlab.machine import ServerUser
from flushlab.server.sandbox.node import (
    NOWHERE,
    State,
    new_view,
    read_state,
    recovered,
    write_state,
    write_view,
)

GROUP = "468fa093-8086-4859-a9c5-a8c9ebf88205"
ME = ServerUser(name="me", uid=os.getuid(), gid=os.getgid())

LEFT_LAST = f"""\
# GALERA saved state
version: 2.1
uuid:    {GROUP}
seqno:   4
safe_to_bootstrap: 1
"""
RECOVERED = f"""\
2026-11-22 17:37:58 0 [Note] InnoDB: log sequence number 54078; transaction id 38
2026-11-22 17:37:58 0 [Note] WSREP: Recovered position: {GROUP}:105
"""


def test_position_of_a_node_that_left_in_an_orderly_way(tmp_path: Path) -> None:
    (tmp_path / "grastate.dat").write_text(LEFT_LAST)
    assert read_state(tmp_path) == State(GROUP, 4, safe=True)


def test_what_is_written_is_what_galera_writes(tmp_path: Path) -> None:
    write_state(tmp_path, State(GROUP, 4, safe=True), ME)
    assert (tmp_path / "grastate.dat").read_text() == LEFT_LAST


@pytest.mark.parametrize("text", ["", "uuid: x\n", LEFT_LAST.replace("   4", " four")])
def test_a_file_that_tells_no_position_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "grastate.dat").write_text(text)
    assert read_state(tmp_path) == NOWHERE


def test_a_torn_file_tells_no_position(tmp_path: Path) -> None:
    (tmp_path / "grastate.dat").write_bytes(b"\xff\xfe\0" + LEFT_LAST.encode()[:40])
    assert read_state(tmp_path) == NOWHERE


def test_no_file_is_no_position(tmp_path: Path) -> None:
    assert read_state(tmp_path) == NOWHERE
    assert not NOWHERE.known


def test_position_of_a_killed_node_is_what_the_server_recovers() -> None:
    assert recovered(RECOVERED) == State(GROUP, 105, recovered=True)
    assert recovered("nothing of the kind") == NOWHERE


def test_every_node_of_a_view_writes_the_same_members_under_its_own_name(tmp_path: Path) -> None:
    view = new_view(3)
    texts = []
    for number in (1, 2, 3):
        write_view(tmp_path, view, number, ME)
        texts.append((tmp_path / "gvwstate.dat").read_text().partition("\n"))
    assert [first for first, _, _ in texts] == [f"my_uuid: {one}" for one in view]
    assert len({rest for _, _, rest in texts}) == 1
    assert re.findall(r"^member: (\S+) 0$", texts[0][2], re.MULTILINE) == list(view)
