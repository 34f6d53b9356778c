"""Sync settings: innodb_flush_log_at_trx_commit and sync_binlog as one value. Pure.

Probe layer. The commit path decides which binlog write strategies a pair permits, and refuses with a reason.
"""

from __future__ import annotations

import re
from typing import get_args

import msgspec

from flushlab.errors import UsageError
from flushlab.record import BinlogStrategy

BINLOG_STRATEGIES: tuple[BinlogStrategy, ...] = get_args(BinlogStrategy)

MAX_SYNC_BINLOG = 4_294_967_295


class SyncSettings(msgspec.Struct, frozen=True, order=True):
    """One pair of settings; 3 is MariaDB's, and a sync_binlog of 0 leaves syncs to the kernel."""

    trx_commit: int
    sync_binlog: int

    @property
    def name(self) -> str:
        """`strict 1/1`, or `1/0` where no floor has the name."""
        floor = FLOORS.get(self)
        return f"{floor} {self.pair}" if floor else self.pair

    @property
    def pair(self) -> str:
        return f"{self.trx_commit}/{self.sync_binlog}"

    @property
    def is_timed(self) -> bool:
        """Whether the redo log is synced once a second and not at commit."""
        return self.trx_commit in (0, 2)

    @property
    def is_strict(self) -> bool:
        """Whether every acknowledged commit is synced in redo log and binlog."""
        return not self.is_timed and self.sync_binlog == 1

    @property
    def format(self) -> str:
        """The server whose binlog files are written: 3 exists on MariaDB only."""
        return MARIADB if self.trx_commit == 3 else MYSQL


MYSQL, MARIADB = "9.7.4", "10.11.19-MariaDB"
STRICT, MARIADB_STRICT, SECOND, RELAXED = (
    SyncSettings(1, 1),
    SyncSettings(3, 1),
    SyncSettings(2, 1000),
    SyncSettings(0, 0),
)
FLOORS = {STRICT: "strict", MARIADB_STRICT: "strict", SECOND: "second", RELAXED: "relaxed"}
"""Names of the durability floors with these settings."""

_BY_NAME = {"strict": STRICT, "second": SECOND, "relaxed": RELAXED}
_PAIR = re.compile(r"(\d{1,10})/(\d{1,10})")


def parse_sync_settings(text: str) -> SyncSettings:
    """Sync settings from `strict`, `second`, `relaxed`, or TRX_COMMIT/SYNC_BINLOG such as `2/1000`."""
    if text in _BY_NAME:
        return _BY_NAME[text]
    found = _PAIR.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--trx-commit {text!r} is neither a floor nor two settings",
            hint="use strict, second, relaxed, or innodb_flush_log_at_trx_commit/sync_binlog such as 2/1000",
        )
    settings = SyncSettings(int(found[1]), int(found[2]))
    if settings.trx_commit > 3:
        raise UsageError(
            f"--trx-commit {text}: innodb_flush_log_at_trx_commit={settings.trx_commit} does not exist",
            hint="it is 0, 1 or 2, on MariaDB also 3",
        )
    if settings.sync_binlog > MAX_SYNC_BINLOG:
        raise UsageError(
            f"--trx-commit {text}: sync_binlog={settings.sync_binlog} is too large",
            hint=f"it takes 0 to {MAX_SYNC_BINLOG}",
        )
    return settings


def parse_binlog_strategy(text: str) -> BinlogStrategy:
    for strategy in BINLOG_STRATEGIES:
        if text == strategy:
            return strategy
    raise UsageError(
        f"--binlog-strategy {text!r} is not a binlog write strategy",
        hint=f"one of {', '.join(BINLOG_STRATEGIES)}",
    )


MAX_THREADS = 256
