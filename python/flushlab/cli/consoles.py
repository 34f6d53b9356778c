"""Consoles of rich for stdout and stderr; rich takes longer to load than all else of a short command."""

from __future__ import annotations

import os
from typing import Any, Literal

from rich.console import Console

from flushlab.cli.plain import TRAILING, to_stdout, wrapped

_STYLES: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
"""rich takes NO_COLOR to allow bold; who sets it wants plain text."""


class PlainConsole(Console):
    """A console that prints text as it is: rich's markup and emoji codes mean nothing, for names, labels and
    messages that hold them are not flushlab's. Styles come from arguments and `Text`."""

    def __init__(self, **how: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, color_system=_STYLES, **how)


console = PlainConsole(stderr=True, soft_wrap=True)


class _Stdout(PlainConsole):
    def print(self, *objects: Any, **how: Any) -> None:
        if len(objects) == 1 and isinstance(objects[0], str):
            if self.is_terminal and not how.get("soft_wrap"):
                objects = (wrapped(objects[0], self.width),)
            how = {**how, "soft_wrap": True}
        with to_stdout():
            with self.capture() as printed:
                super().print(*objects, **{"crop": False, **how})  # what does not wrap stays whole
            self.file.write(TRAILING.sub("", printed.get()))
            self.file.flush()

    def on_broken_pipe(self) -> None:
        raise  # rich would end the process, and files may still be to write


stdout = _Stdout()
