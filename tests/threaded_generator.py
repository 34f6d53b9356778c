"""A load generator in a thread of this process, with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any

from flushlab import _core
from flushlab.workload.generators import Generator, named


class Threaded:
    """A generator in this process, whose clock is ahead of this process's by so much."""

    def __init__(self, machine: str, ahead_s: float = 0.0) -> None:
        self.machine, self._ahead_s, self._generator = machine, ahead_s, Generator()

    def call(self, method: str, *arguments: Any) -> Callable[[], Any]:
        future = Future[Any]()

        def work() -> None:
            try:
                future.set_result(self._called(method, *arguments))
            except _core.CoreError as error:
                future.set_exception(named(self.machine, error))

        Thread(target=work).start()
        return future.result

    def _called(self, method: str, *arguments: Any) -> Any:
        if method == "clock":
            return self._generator.clock() + self._ahead_s
        if method == "act" and arguments[2] is not None:
            number, action, at_s = arguments
            began_s, said = self._generator.act(number, action, at_s - self._ahead_s)
            return began_s + self._ahead_s, said
        return getattr(self._generator, method)(*arguments)
