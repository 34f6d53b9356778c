"""What tests of a fleet share: two machines, for all modules here. Only the first has builds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flushlab.build import Build
from tests.fleet_testbed import Node, fleet_testbed


@pytest.fixture(scope="package")
def pair(build: Callable[[str], Build]) -> Iterator[tuple[Node, Node]]:
    """Two machines of a fleet, `one` and `two`; the second reaches no registry: it is sent what it lacks."""
    build("mariadb@10.11")
    with fleet_testbed(2) as (first, second):
        first.start_fleet("one")
        second.join_fleet(first, "two")
        first.lend_builds()
        yield first, second
