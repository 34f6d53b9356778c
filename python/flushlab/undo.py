"""Undo: steps that take back what was done, all of them, whichever of them fail; signals that ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

signals: list[str] = []
"""Signals that have asked this process to end: who undoes something waits less for it then."""


SIGNALS = ("Ctrl-C", "SIGTERM", "SIGHUP")
"""Their names, for people."""


def signal_of(error: KeyboardInterrupt) -> str:
    return str(error) or "Ctrl-C"


P = ParamSpec("P")
R = TypeVar("R")


class Undo(ExitStack):
    """An `ExitStack` that raises the first error; errors of later steps become notes of it.

    Ctrl-C in a step is raised in its place, once all steps are taken.
    """

    def callback(self, step: Callable[P, R], /, *args: P.args, **more: P.kwargs) -> Callable[P, R]:
        def take(
            _kind: type[BaseException] | None, first: BaseException | None, _at: TracebackType | None
        ) -> None:
            try:
                step(*args, **more)
            except BaseException as error:
                if first is None:
                    raise
                is_interrupt = not isinstance(error, Exception)
                raised, noted = (error, first) if is_interrupt else (first, error)
                for note in (str(noted) or type(noted).__name__, *getattr(noted, "__notes__", ())):
                    raised.add_note(note)
                if is_interrupt:
                    raise

        self.push(take)
        return step


def undo_all(steps: Iterable[Callable[[], object]]) -> None:
    """Takes all steps in their order, then raises the first error with the others as its notes."""
    with Undo() as undo:
        for step in reversed([*steps]):
            undo.callback(step)


class Closing:
    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
