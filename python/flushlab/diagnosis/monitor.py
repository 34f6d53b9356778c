"""Monitor: what SHOW ENGINE INNODB STATUS tells. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.telemetry.live.questions import OpenTransaction

LOG_SYNCS = "syncs of the redo log"


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
        lsn, flushed, checkpoint: log sequence number, that of the last sync, and of the last checkpoint.
        checkpoint_max_age: bytes; None where the server does not print it.
        history_length: transactions that purge has not reached.
        pages, dirty_pages, free_pages: of the buffer pool.
        averaged_s: seconds before it, to which its rates belong.
        rows_per_s: rows inserted, updated and deleted.
        pending: I/O that was asked for and has not ended, by kind.
        latches: the most waited for first.
        transactions: open ones.
        flushing: transactions that InnoDB has committed, but for the sync of the redo log.
        main_flushes: InnoDB's main thread syncs the redo log.
        absent: sections that are missing, or their end.
    """

    lsn: int | None = None
    flushed: int | None = None
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
    flushing: int = 0
    main_flushes: bool = False
    absent: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Nothing is missing."""
        return not self.absent

    @property
    def syncs_log(self) -> bool:
        """Somebody waits for a sync of the redo log at this moment."""
        return bool(self.flushing or self.main_flushes or self.pending.get(LOG_SYNCS))

    @property
    def checkpoint_age(self) -> int | None:
        """Bytes of redo since the last checkpoint."""
        if self.lsn is None or self.checkpoint is None or self.lsn < self.checkpoint:
            return None
        return self.lsn - self.checkpoint
