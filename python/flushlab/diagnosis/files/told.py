"""Told: what one text tells of a server. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from flushlab.diagnosis.evidence import Monitor
from flushlab.diagnosis.load import Head, Stretch
from flushlab.machine.describe import DiskCounters
from flushlab.telemetry.live.questions import FileEvents, OpenTransaction, ThreadState


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a text tells, each part in the order of the text. Names are in small letters.

    Attributes:
        statuses: outputs of SHOW GLOBAL STATUS.
        file_events: by class of files, as many as `statuses`, or none.
        timeless: how many of them lack Uptime: they are cut short, or of SHOW GLOBAL STATUS LIKE.
        version: of the server, where no variables are beside it.
        is_mariadb: only MariaDB prints such an output.
        variables: outputs of SHOW GLOBAL VARIABLES.
        monitors: outputs of SHOW ENGINE INNODB STATUS.
        moments: connections at one moment each.
        transactions: open transactions at one moment each.
        head, stretches: of a recording of `flushlab watch --record`.
        disks: counters of the machine's disks at each moment.
        cpu_times: at each moment, the machine's processors, and their jiffies since its start: those that the
            hypervisor took, and all.
        memory_bytes: of the machine; 0 if it is not told.
        devices: by mount point.
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
    """The lines of a text, without their ends; a large one is not copied as a whole."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end].removesuffix("\r")
        start = end + 1


def whole(text: str) -> int:
    """A whole number of a text; 0 if it is none, or longer than any of a server."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0
