"""Plots of pages, drawn once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flushlab.report import doctor_plots, plots, probe_plots

_DRAWN: dict[tuple[str, str], str] = {}


@pytest.fixture(autouse=True)
def drawn_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots of the same data are drawn once for all tests: matplotlib takes most of a page's time."""
    if "drawn_anew" in request.fixturenames:
        return
    for module, names in (
        (plots, ("forest", "seconds", "rounds", "figures", "stacked")),
        (probe_plots, ("ceilings", "scaling", "syncs")),
        (doctor_plots, ("waits", "commits")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, _remembered(getattr(module, name)))


@pytest.fixture
def drawn_anew() -> None:
    """Every plot is drawn, for tests of the drawing itself."""


def _remembered(draw: Callable[..., str]) -> Callable[..., str]:
    def drawn(*data: Any, **words: Any) -> str:
        told = [*(one.__qualname__ if callable(one) else one for one in data), words]
        key = (draw.__qualname__, repr(told))
        if key not in _DRAWN:
            _DRAWN[key] = draw(*data, **words)
        return _DRAWN[key]

    return drawn
