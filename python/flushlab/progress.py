"""Progress: a line for the user while something takes long. Below all layers; libraries never print."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Takes one short sentence at a time."""


def silent(_line: str) -> None:
    """Shows no line."""
