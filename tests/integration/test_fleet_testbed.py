"""The testbed of fleets: what its machines leave when they are killed goes with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flushlab.fleet import local_node
from flushlab.machine import ownership
from tests.fleet_testbed import fleet_testbed, needs_root
from tests.unit.fleet.test_local_node import record

pytestmark = [
    needs_root,
    pytest.mark.xdist_group("fleet"),
]


def test_files_of_ray_of_a_machine_that_was_killed_go_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = tmp_path / "own", tmp_path / "others"
    written = record(own, os.getpid())
    for folder, token in ((own, written.token), (others, ownership.new_token())):
        ownership.make(str(folder), {"what": "files of Ray", "name": folder.name, "token": token})
    with fleet_testbed(1) as (node,):
        node.home.mkdir()
        monkeypatch.setenv("FLUSHLAB_HOME", str(node.home))
        local_node.write(written)
        node.kill_all()
        assert own.exists()
    assert (own.exists(), others.exists()) == (False, True)
