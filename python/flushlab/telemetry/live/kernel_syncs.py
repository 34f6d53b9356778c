"""Syncs of a server on this machine, by class of files, as the kernel counts them.

MariaDB tells no syncs of its redo log (since 10.8). Where flushlab may count them in the kernel it does: that
asks nothing of the server. See `telemetry.tracepoint` for what it takes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack

from flushlab.telemetry.activity import Inode, counting, escapes
from flushlab.telemetry.files import names_in, open_files

SAMPLE_S = 5.0
"""Between two samples of the open files."""


class KernelSyncs:
    """Counts from when it is made until it is closed.

    Args:
        pid: of the server.
        variables: system variables of the server.
    """

    def __init__(self, pid: int, variables: Mapping[str, str]) -> None:
        self._pid, self._called = pid, names_in(variables)
        self._kinds: dict[Inode, str] = {}
        self._uncounted: set[str] = set()
        self._sampled_s = 0.0
        self._stack = ExitStack()
        found = open_files(pid, self._called)
        self._counter = self._stack.enter_context(counting(pid, found)) if found else None

    def read(self) -> dict[str, int] | None:
        """Syncs so far by class; None where they cannot be counted."""
        counts = self._counter.read() if self._counter is not None else None
        if counts is None:
            return None
        if time.monotonic() - self._sampled_s >= SAMPLE_S:
            self._sample()
        total = Counter(dict.fromkeys(self._kinds.values(), 0))
        for key, count in counts.items():
            kind = self._kinds.get((key.device, key.inode))
            if kind is not None:
                total[kind] += count
        return {kind: count for kind, count in total.items() if kind not in self._uncounted}

    def close(self) -> None:
        """Counts no more."""
        self._stack.close()
        self._counter = None

    def _sample(self) -> None:
        self._sampled_s = time.monotonic()
        for file in open_files(self._pid, self._called) or ():
            self._kinds[file.device, file.inode] = file.kind
            if escapes(file.flags):
                self._uncounted.add(file.kind)
