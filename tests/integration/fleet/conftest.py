"""What tests of a fleet share: two machines, for all modules here. Only the first has builds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flushlab.build import Build
from flushlab.machine import home
from tests.fleet_testbed import Node, fleet_testbed


@pytest.fixture(scope="package")
def pair(build: Callable[[str], Build]) -> Iterator[tuple[Node, Node]]:
    """Two machines of a fleet, `one` and `two`; the second reaches no registry: it is sent what it lacks."""
    build("mariadb@10.11")
    with fleet_testbed(2) as (first, second):
        started = first.flushlab("fleet", "start", "--listen", first.address, "--name", "one")
        assert started.returncode == 0, started.stderr
        key = (first.home / "fleet" / "key").read_text()
        joined = second.flushlab("fleet", "join", "--key", "-", first.address, "--name", "two", given=key)
        assert joined.returncode == 0, joined.stderr
        (first.home / "builds").symlink_to(home() / "builds")
        yield first, second
