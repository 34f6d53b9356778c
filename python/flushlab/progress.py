"""Progress: a line for the user; libraries never print."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Takes one short sentence at a time."""


def silent(_message: str) -> None:
    """Tells nobody."""
