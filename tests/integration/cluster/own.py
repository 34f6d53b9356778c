"""A cluster as its owner sees it, who has a DSN and no sandbox."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from flushlab.record import Value
from flushlab.server.galera.cluster import Cluster

HOME = "FLUSHLAB_HOME"
FLUSH = "innodb_flush_log_at_trx_commit"


@dataclass(frozen=True)
class Own:
    """Somebody's own cluster."""

    cluster: Cluster
    home: str | None = None
    """FLUSHLAB_HOME when it was started, whose records say which processes its nodes are."""

    def dsn(self, database: str = "", *, nodes: int = 1) -> str:
        """Names so many of its nodes."""
        endpoints = [node.endpoint for node in self.cluster.nodes[:nodes]]
        places = ",".join(f"{one.host}:{one.port}" for one in endpoints)
        account = self.cluster.endpoint
        return f"mysql://{account.user}:{account.password}@{places}/{database}"

    @property
    def flushes(self) -> list[Value]:
        """The flush policy of each node."""
        return [node.read_back([FLUSH])[FLUSH] for node in self.cluster.nodes]

    @property
    def databases(self) -> set[str]:
        """Names of all that there are."""
        return {str(name) for (name,) in self.cluster.query("SHOW DATABASES")}

    def tables_of(self, database: str) -> list[str]:
        """Names of a database's tables."""
        return sorted(str(name) for (name,) in self.cluster.query(f"SHOW TABLES FROM {database}"))

    def set_flushes(self, value: Value) -> None:
        """Sets it on every node."""
        for node in self.cluster.nodes:
            node.query(f"SET GLOBAL {FLUSH} = {value}")

    def start_again(self, patch: pytest.MonkeyPatch) -> None:
        """Starts nodes that were killed; whoever looks for the cluster later finds them."""
        with patch.context() as there:
            there.delenv(HOME) if self.home is None else there.setenv(HOME, self.home)
            self.cluster.start_again()
