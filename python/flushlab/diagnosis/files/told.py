"""Told: what one text tells of a server. Frozen values, and the type of a source. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from flushlab.telemetry.live.questions import FileEvents, OpenTransaction, ThreadState


class Latch(msgspec.Struct, frozen=True, kw_only=True):
    """Threads that wait for one of InnoDB's latches.

    Attributes:
        name: mutex or lock, or the place in the source where they wait.
        waiting: threads.
        longest_s: of them.
    """

    name: str
    waiting: int
    longest_s: float


class Monitor(msgspec.Struct, frozen=True, kw_only=True):
    """An output of SHOW ENGINE INNODB STATUS.

    Attributes:
        lsn, checkpoint: log sequence number, and that of the last checkpoint.
        checkpoint_max_age: bytes; None where the server does not print it.
        history_length: transactions that purge has not reached.
        pages, dirty_pages, free_pages: of the buffer pool.
        averaged_s: seconds before it, to which its rates belong.
        rows_per_s: rows inserted, updated and deleted.
        pending: I/O that was asked for and has not ended, by kind.
        latches: the most waited for first.
        transactions: open ones.
        committing: seconds for which each transaction stands between prepare and commit.
        whole: it has its last line, and nothing is missing in between.
    """

    lsn: int | None = None
    checkpoint: int | None = None
    checkpoint_max_age: int | None = None
    history_length: int | None = None
    pages: int | None = None
    dirty_pages: int | None = None
    free_pages: int | None = None
    averaged_s: int | None = None
    rows_per_s: float | None = None
    pending: Mapping[str, int] = {}
    latches: tuple[Latch, ...] = ()
    transactions: tuple[OpenTransaction, ...] = ()
    committing: tuple[int, ...] = ()
    whole: bool = True

    @property
    def checkpoint_age(self) -> int | None:
        """Bytes of redo since the last checkpoint."""
        if self.lsn is None or self.checkpoint is None or self.lsn < self.checkpoint:
            return None
        return self.lsn - self.checkpoint


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a text tells, each part in the order of the text. Names are in small letters.

    Attributes:
        statuses: outputs of SHOW GLOBAL STATUS.
        file_events: by class of files, as many as `statuses`, or none.
        cut: statuses that end before Uptime.
        variables: outputs of SHOW GLOBAL VARIABLES.
        monitors: outputs of SHOW ENGINE INNODB STATUS.
        moments: connections at one moment each.
        transactions: open transactions at one moment each.
    """

    statuses: tuple[Mapping[str, str], ...] = ()
    file_events: tuple[Mapping[str, FileEvents], ...] = ()
    cut: int = 0
    variables: tuple[Mapping[str, str], ...] = ()
    monitors: tuple[Monitor, ...] = ()
    moments: tuple[tuple[ThreadState, ...], ...] = ()
    transactions: tuple[tuple[OpenTransaction, ...], ...] = ()

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


def whole(text: str) -> int:
    """A whole number of a text; 0 if it is none."""
    return int(text) if text.isascii() and text.isdigit() else 0
