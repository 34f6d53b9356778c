"""Told: what one text tells of a server. Frozen values, and the type of a source. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from flushlab.diagnosis.evidence import Monitor
from flushlab.diagnosis.recording import Head, Stretch
from flushlab.machine.describe import DiskCounters
from flushlab.telemetry.live.questions import FileEvents, OpenTransaction, ThreadState


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A recording of `flushlab watch --record`.

    Attributes:
        head: the server.
        stretches: its load.
    """

    head: Head
    stretches: tuple[Stretch, ...]


class CpuTime(msgspec.Struct, frozen=True, kw_only=True):
    """Of the machine's processors since its start, in jiffies.

    Attributes:
        cpus: processors.
        steal: taken by the hypervisor.
        total: of all of them.
    """

    cpus: int
    steal: int
    total: int


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
        recordings: of the load.
        disks: counters of the machine's disks at each moment.
        cpu_times: of the machine's processors at each moment.
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
    recordings: tuple[Recorded, ...] = ()
    disks: tuple[DiskCounters, ...] = ()
    cpu_times: tuple[CpuTime, ...] = ()
    memory_bytes: int = 0
    devices: Mapping[str, str] = {}

    @property
    def is_of_server(self) -> bool:
        """Whether it tells of the server, and not of its machine only."""
        own = (self.statuses, self.variables, self.monitors, self.moments, self.transactions)
        return any((*own, self.recordings))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of output that files have.

    Attributes:
        name: as people call it.
        marks: a text without any of them has none of this.
        parse: what a text tells; takes any text, and raises nothing.
    """

    name: str
    marks: tuple[str, ...]
    parse: Callable[[str], Told]


def lines(text: str) -> Iterator[str]:
    """The lines of a text, without their ends; a large one is not copied as a whole."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end].removesuffix("\r")
        start = end + 1


_DIGITS = 20


def whole(text: str) -> int:
    """A whole number of a text; 0 if it is none, or longer than any of a server."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0
