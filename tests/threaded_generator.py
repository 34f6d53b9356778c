"""A load generator in a thread of this process, with a clock of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from flushlab.workload.generator import Generator


class Threaded:
    """A generator in this process, whose clock is ahead of this process's by so much."""

    def __init__(self, machine: str, ahead_s: float = 0.0) -> None:
        self.machine, self._ahead_s, self._generator = machine, ahead_s, Generator()

    def call(self, method: str, *arguments: Any) -> Callable[[], Any]:
        done: list[Any] = []
        thread = threading.Thread(target=lambda: done.append(self._called(method, *arguments)))
        thread.start()

        def wait() -> Any:
            thread.join()
            return done[0]

        return wait

    def _called(self, method: str, *arguments: Any) -> Any:
        if method == "clock":
            return self._generator.clock() + self._ahead_s
        if method == "act" and arguments[2] is not None:
            number, action, at_s = arguments
            said = json.loads(self._generator.act(number, action, at_s - self._ahead_s))
            return json.dumps({**said, "at_s": said["at_s"] + self._ahead_s}).encode()
        return getattr(self._generator, method)(*arguments)
