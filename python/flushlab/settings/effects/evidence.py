"""Evidence: what was seen of one window; Finding: a setting that did nothing. Frozen values, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flushlab.record import FileActivity, ServerIdentity, Value


class SeenEffects(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one window.

    Attributes:
        settings: as they read back.
        seconds: length of the window.
        activity: per class of files; see `record.FileActivity`.
        opened: classes of which a file was seen open, so that its flags are known.
        counted_by: source of the syncs: the kernel, the server, or none.
        in_memory: classes whose files all lie in memory.
        commits: transactions that the server acknowledged to the workload in the window, each of which
            changed rows; None where the workload does not know.
        connections: of the workload, each with at most one commit in flight; None where unknown.
        checkpointed: a checkpoint was made of redo that was written in the window.
        pages_written: by the buffer pool, or None.
        binlog_rotations: files of the binary log that were begun.
    """

    identity: ServerIdentity
    settings: Mapping[str, Value]
    seconds: float
    activity: Mapping[str, FileActivity]
    opened: tuple[str, ...] = ()
    counted_by: Literal["kernel", "server"] | None = None
    in_memory: tuple[str, ...] = ()
    commits: int | None = None
    connections: int | None = None
    checkpointed: bool = False
    pages_written: int | None = None
    binlog_rotations: int = 0

    def is_set(self, name: str, value: Value) -> bool:
        """Whether a setting reads back so; names and words in any case."""
        return name in self.settings and str(self.settings[name]).upper() == str(value).upper()

    def number(self, name: str) -> int | None:
        """A setting that is a number, or None."""
        value = self.settings.get(name)
        return value if isinstance(value, int) else None

    @property
    def flush_method(self) -> str:
        """innodb_flush_method in capitals, or an empty string."""
        return str(self.settings.get("innodb_flush_method", "")).upper()

    def flags(self, kind: str) -> tuple[str, ...] | None:
        """Open flags of a class of files; None if none of them was seen open."""
        return self.activity[kind].flags if kind in self.opened else None

    def fsyncs(self, kind: str) -> int | None:
        """Syncs of a class of files, or None."""
        seen = self.activity.get(kind)
        return seen.fsyncs if seen is not None else None

    def most_fsyncs(self, kind: str) -> int | None:
        """Syncs of a class and all that could not be put into one: of files that are gone since."""
        known = self.fsyncs(kind)
        return known + (self.fsyncs("other") or 0) if known is not None else None

    def written(self, kind: str) -> int | None:
        """Bytes written to a class of files, or None."""
        seen = self.activity.get(kind)
        return seen.bytes if seen is not None else None

    @property
    def load(self) -> str:
        """`39,143 commits on 16 connections`."""
        connections = "1 connection" if self.connections == 1 else f"{self.connections} connections"
        return f"{self.commits or 0:,} commits on {connections}"

    @property
    def fewest_syncs(self) -> int | None:
        """Least number of syncs that so many acknowledged commits take, if each waits for one.

        A sync makes durable only what was written before it began, so of each connection at most the one
        commit that it then waited for. Hence commits ≤ connections × syncs, but for those (one a
        connection) whose sync had begun before the window: commits ≤ connections × (syncs + 1). That
        holds for any grouping, delay, schedule or device.
        """
        if not self.commits or not self.connections:
            return None
        return -(-self.commits // self.connections) - 1

    @property
    def housekeeping(self) -> int:
        """A generous limit for syncs that no commit asked for, per class.

        The limit is twenty per second, ten per rotation of the binary log, and two per page: a page's write
        waits for its redo, and its batch for the files.
        """
        return int(20 * (self.seconds + 1) + 2 * (self.pages_written or 0) + 10 * self.binlog_rotations)


def times(count: int) -> str:
    """`never synced`, `synced once`, `synced 2,259 times`."""
    return ("never synced", "synced once")[count] if count < 2 else f"synced {count:,} times"


class NoEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that reads back and does nothing.

    Attributes:
        setting: name, as the server spells it.
        value: as it reads back.
        seen: what was seen instead, a sentence that goes on after "… reads back, but".
    """

    setting: str
    value: Value
    seen: str

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f"{self.setting}={self.value} reads back, but {self.seen}"
