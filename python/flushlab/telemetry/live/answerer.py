"""Answerer: a server, or something else that speaks its protocol. Pure.

- A proxy names itself in its greeting, or in version_comment: ProxySQL answers `(ProxySQL)`, MaxScale's
  greeting ended in `-maxscale` until 2.2, ProxySQL's admin port greets as `(ProxySQL Admin Module)`.
- A proxy that keeps connections of its own numbers the client's otherwise than the server does: the greeting
  has the one number, CONNECTION_ID() the other.
- Servers of other makers have their name in the version: `8.0.11-TiDB-v7.5.0`.
"""

from __future__ import annotations

import re

import msgspec

_PROXIES = {"proxysql": "ProxySQL", "maxscale": "MaxScale", "mysqlrouter": "MySQL Router"}
_STRANGERS = {
    "tidb": "TiDB",
    "oceanbase": "OceanBase",
    "vitess": "Vitess",
    "planetscale": "PlanetScale",
    "dolt": "Dolt",
    "singlestore": "SingleStore",
    "memsql": "SingleStore",
    "starrocks": "StarRocks",
    "doris": "Doris",
    "clickhouse": "ClickHouse",
    "manticore": "Manticore",
    "sphinx": "Sphinx",
}
_NUMBER_BITS = 32
"""Of the connection's number in a greeting."""


class Answerer(msgspec.Struct, frozen=True, kw_only=True):
    """Who answered.

    Attributes:
        greeting: version of its first packet.
        version: answer to VERSION().
        comment: answer to @@version_comment; empty if it gave none.
        greeted: number of the connection in its first packet; None if unknown.
        numbered: answer to CONNECTION_ID(); None if it gave none.
    """

    greeting: str
    version: str
    comment: str = ""
    greeted: int | None = None
    numbered: int | None = None

    @property
    def proxy(self) -> str:
        """Name of the proxy that answers; empty if none named itself."""
        return _named(_PROXIES, self.greeting, self.comment)

    @property
    def stranger(self) -> str:
        """Name of a server that is neither MySQL nor MariaDB; empty if it is either, as far as it tells."""
        return _named(_STRANGERS, self.version, self.comment)

    @property
    def between(self) -> str:
        """Why something seems to be between; empty if nothing does."""
        if self.greeted is None or self.numbered is None:
            return ""
        if self.greeted == self.numbered % (1 << _NUMBER_BITS):
            return ""
        return f"the connection is number {self.greeted} there and {self.numbered} at the server"


def _named(names: dict[str, str], *texts: str) -> str:
    words = {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}
    return next((name for word, name in names.items() if word in words), "")
