from __future__ import annotations

import socket

import pytest

from flushlab.campaign.fleet.ray_workers import LOOK_S, MOST_S, SILENT_S, FirstMachine, takes_connections
from flushlab.errors import FleetError

PLACE = "10.0.0.1:9377"


class Fleet:
    """A first machine at a moment of one's choice."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.answers = True
        self.said = list[str]()
        self.first = FirstMachine(
            lambda: PLACE, self.said.append, answers=lambda _: self.answers, clock=lambda: self.now_s
        )

    def look(self, at_s: float) -> bool:
        self.now_s = at_s
        return self.first.look()

    def hear(self, at_s: float) -> None:
        self.now_s = at_s
        self.first.heard()


def test_silence_ends_the_campaign_with_the_way_to_resume() -> None:
    fleet = Fleet()
    assert fleet.look(0)
    fleet.answers = False
    assert not fleet.look(LOOK_S)
    assert not fleet.look(LOOK_S + SILENT_S)
    assert fleet.first.is_silent
    assert fleet.said == [f"the first machine of the fleet, {PLACE}, does not answer; waiting for it"]
    with pytest.raises(FleetError, match="has not answered for 35 s") as raised:
        fleet.look(LOOK_S + SILENT_S + LOOK_S)
    assert "resume" in (raised.value.hint or "")


def test_a_machine_that_answers_again_is_no_longer_counted_as_silent() -> None:
    fleet = Fleet()
    for at_s, answers in ((0, False), (SILENT_S, True), (2 * SILENT_S, False), (3 * SILENT_S, False)):
        fleet.answers = answers
        assert fleet.look(at_s) == answers


def test_what_arrives_is_a_sign_of_life_but_not_beyond_the_time_that_ray_gives() -> None:
    fleet = Fleet()
    fleet.answers = False
    assert not fleet.look(0)
    fleet.hear(SILENT_S)
    assert not fleet.look(MOST_S)
    fleet.hear(MOST_S + LOOK_S)
    with pytest.raises(FleetError, match="has not answered for 45 s"):
        fleet.look(MOST_S + LOOK_S)


def test_it_is_looked_at_now_and_then_only() -> None:
    fleet = Fleet()
    assert fleet.look(0)
    fleet.answers = False
    assert fleet.look(LOOK_S / 2)
    assert not fleet.look(LOOK_S)


def test_a_place_answers_if_somebody_takes_connections_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        assert takes_connections(place)
    assert not takes_connections(place)
