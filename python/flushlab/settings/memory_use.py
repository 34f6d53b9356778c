"""Memory use: what the settings of a server may take of memory at worst. Pure; sits in `settings`.

Follows "How MySQL Uses Memory" (https://dev.mysql.com/doc/refman/8.0/en/memory-use.html): what all
connections share, and what each may hold at the same time as all others. Temporary tables, the performance
schema and joins of several tables come on top.
"""

from __future__ import annotations

import msgspec

from flushlab.settings.configuration import Configuration, literal

SHARED = (
    "innodb_buffer_pool_size",
    "innodb_log_buffer_size",
    "key_buffer_size",
    "query_cache_size",
    "aria_pagecache_buffer_size",
)
PER_CONNECTION = (
    "sort_buffer_size",
    "join_buffer_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "binlog_cache_size",
    "net_buffer_length",
    "thread_stack",
)
CONNECTIONS = "max_connections"

_K, _M = 1 << 10, 1 << 20
_DEFAULTS = {
    "mysql": {
        "key_buffer_size": 8 * _M,
        "sort_buffer_size": 256 * _K,
        "join_buffer_size": 256 * _K,
        "read_buffer_size": 128 * _K,
        "read_rnd_buffer_size": 256 * _K,
        "binlog_cache_size": 32 * _K,
        "net_buffer_length": 16 * _K,
        "thread_stack": 280 * _K,
        CONNECTIONS: 151,
    },
    "mariadb": {
        "key_buffer_size": 128 * _M,
        "aria_pagecache_buffer_size": 128 * _M,
        "sort_buffer_size": 2 * _M,
        "join_buffer_size": 256 * _K,
        "read_buffer_size": 128 * _K,
        "read_rnd_buffer_size": 256 * _K,
        "binlog_cache_size": 32 * _K,
        "net_buffer_length": 16 * _K,
        "thread_stack": 292 * _K,
        CONNECTIONS: 151,
    },
}
"""Of what the catalog does not know: the manuals' pages of server system variables."""


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a server may take at worst.

    Attributes:
        shared_bytes: of buffers that all connections share.
        connection_bytes: of the buffers of one connection.
        connections: how many there may be.
    """

    shared_bytes: int
    connection_bytes: int
    connections: int

    @property
    def worst_bytes(self) -> int:
        """With every connection holding all that it may."""
        return self.shared_bytes + self.connection_bytes * self.connections


def memory_use(configuration: Configuration) -> MemoryUse:
    """What these settings may take, the defaults of the version for those that are not given."""
    return MemoryUse(
        shared_bytes=sum(number_of(configuration, name) for name in SHARED),
        connection_bytes=sum(number_of(configuration, name) for name in PER_CONNECTION),
        connections=number_of(configuration, CONNECTIONS),
    )


def number_of(configuration: Configuration, name: str) -> int:
    """Bytes, or a number, of one of these settings; 0 where the server lacks it."""
    value = configuration.value(name)
    if value is None:
        return _DEFAULTS[configuration.identity.flavor].get(name, 0)
    number = literal(value, configuration.here(name))
    return 0 if isinstance(number, str) else int(number)
