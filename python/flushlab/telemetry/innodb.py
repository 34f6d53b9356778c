"""State of InnoDB at one moment, from SHOW ENGINE INNODB STATUS and its page counters."""

from __future__ import annotations

import re

from flushlab.record import ServerSample
from flushlab.server.protocol import Server

_FIELDS = {
    "lsn": re.compile(r"^Log sequence number\s+(\d+)", re.MULTILINE),
    "checkpoint": re.compile(r"^Last checkpoint at\s+(\d+)", re.MULTILINE),
    "history": re.compile(r"^History list length (\d+)", re.MULTILINE),
    "dirty": re.compile(r"^Modified db pages\s+(\d+)", re.MULTILINE),
}


def sample(server: Server) -> ServerSample:
    """State of InnoDB now; fields that this server does not tell are None.

    `redo_written_bytes` is the log sequence number: only differences of it mean bytes.
    """
    reads = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'")
    return parse(str(server.query("SHOW ENGINE INNODB STATUS")[0][2]), pool_reads=int(reads[0][1]))


def parse(text: str, *, pool_reads: int | None = None) -> ServerSample:
    """The fields of a monitor's output."""
    found = {name: int(match[1]) for name, field in _FIELDS.items() if (match := field.search(text))}
    age = found["lsn"] - found["checkpoint"] if {"lsn", "checkpoint"} <= found.keys() else None
    return ServerSample(
        checkpoint_age_bytes=age,
        dirty_pages=found.get("dirty"),
        history_length=found.get("history"),
        pool_reads=pool_reads,
        redo_written_bytes=found.get("lsn"),
    )
