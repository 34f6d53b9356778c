"""The testbed of fleets: what its machines leave when they are killed goes with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.fleet import local_node
from flushlab.fleet.local_node import NodeRecord
from flushlab.machine import ownership
from flushlab.process.identity import machine, myself, world
from tests.fleet_testbed import fleet_testbed, needs_root

pytestmark = [
    needs_root,
    pytest.mark.xdist_group("fleet"),
]


def test_files_of_ray_of_a_machine_that_was_killed_go_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = tmp_path / "own", tmp_path / "others"
    token = ownership.new_token()
    ownership.make(str(own), {"what": "files of Ray", "name": own.name, "token": token})
    ownership.make(str(others), {"what": "files of Ray", "name": "others", "token": ownership.new_token()})
    with fleet_testbed(1) as (node,):
        node.home.mkdir()
        monkeypatch.setenv("FLUSHLAB_HOME", str(node.home))
        local_node.write(
            NodeRecord(
                role="head",
                fleet=f"{node.address}:9377",
                address=node.address,
                listens=True,
                token=token,
                world=world(),
                machine=machine(),
                keeper=myself(),
                folder=str(own),
            )
        )
        node.kill_all()
        assert own.exists()
    assert (own.exists(), others.exists()) == (False, True)
