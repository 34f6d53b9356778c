"""Progress: a line for the user while something takes long. Below all layers; libraries never print."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]


def silent(_line: str) -> None:
    """Shows no line."""
