"""Told: what one text tells of a server. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from flushlab.diagnosis.evidence import Monitor
from flushlab.diagnosis.load import Head, Stretch
from flushlab.machine.describe import DiskCounters
from flushlab.telemetry.live.questions import FileEvents, OpenTransaction, ThreadState


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Each part is in the order of the text; names are in small letters.

    Attributes:
        file_events: by class of files, as many as `statuses`, or none.
        timeless: how many of them lack Uptime: they are cut short, or of SHOW GLOBAL STATUS LIKE.
        version: of the server, where no variables are beside it.
        is_mariadb: only MariaDB prints such an output.
        cpu_times: at each moment, the machine's processors, and their jiffies since its start: those that the
            hypervisor took, and all.
    """

    statuses: tuple[Mapping[str, str], ...] = ()
    file_events: tuple[Mapping[str, FileEvents], ...] = ()
    timeless: int = 0
    version: str = ""
    is_mariadb: bool = False
    variables: tuple[Mapping[str, str], ...] = ()
    monitors: tuple[Monitor, ...] = ()
    moments: tuple[tuple[ThreadState, ...], ...] = ()
    transactions: tuple[tuple[OpenTransaction, ...], ...] = ()
    head: Head | None = None
    stretches: tuple[Stretch, ...] = ()
    disks: tuple[DiskCounters, ...] = ()
    cpu_times: tuple[tuple[int, int, int], ...] = ()
    memory_bytes: int = 0
    devices: Mapping[str, str] = {}

    @property
    def is_of_server(self) -> bool:
        return any((self.statuses, self.variables, self.monitors, self.moments, self.transactions, self.head))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


def lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end].removesuffix("\r")
        start = end + 1


def whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0
