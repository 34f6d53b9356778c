"""What is said while a dump is loaded."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from flushlab.dataset import Survey, filling
from flushlab.dataset.filling import Filling
from flushlab.record import StreamProgress
from tests.fakes.server import FakeServer


class Stream:
    """One that waits for indexes before it takes anything."""

    def __init__(self, spec: bytes) -> None:
        self.building: tuple[str, ...] = ("shop.customer",)

    def feed(self, piece: bytes, last: bool, meanwhile: Callable[[], None]) -> None:
        if not last:
            meanwhile()
            self.building = ()
            meanwhile()

    def finish(self, meanwhile: Callable[[], None]) -> None:
        self.building = ("shop.item", "shop.line")
        meanwhile()

    def stop(self) -> None: ...

    def progress(self) -> bytes:
        return msgspec.json.encode(StreamProgress(statements=1, bytes=1, left_out={}, building=self.building))


@pytest.mark.parametrize(
    ("every_s", "due"),
    [(0.0, ["the indexes of shop.customer", "the indexes of shop.item, shop.line"]), (60.0, [])],
)
def test_indexes_that_are_built_are_named_now_and_then(
    monkeypatch: pytest.MonkeyPatch, every_s: float, due: list[str]
) -> None:
    monkeypatch.setattr("flushlab._core.ScriptStream", Stream)
    monkeypatch.setattr(filling, "_SAY_EVERY_S", every_s)
    said: list[str] = []
    survey = Survey(digest="", bytes=1, sql_bytes=1, databases=())
    Filling(FakeServer(), survey, "shop", said.append, "shop.sql").run([b"x"], "shop.sql", database=None)
    assert said == [f"loading: building {what}" for what in due]
