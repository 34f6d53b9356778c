"""Source: SHOW GLOBAL VARIABLES. Pure."""

from __future__ import annotations

from flushlab.diagnosis.files.pairs import are, blocks
from flushlab.diagnosis.files.told import Source, Told

_USUAL = frozenset(
    (
        *("datadir", "hostname", "innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit"),
        *("max_connections", "server_uuid", "sync_binlog", "version"),
    )
)


def parse(text: str) -> Told:
    """The lists of variables of a text."""
    return Told(variables=tuple(one for one in blocks(text) if are(one, _USUAL)))


SOURCE = Source(
    name="SHOW GLOBAL VARIABLES", marks=("innodb_", "max_connections", "version", "sync_binlog"), parse=parse
)
