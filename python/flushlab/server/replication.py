"""Replication: whether a server is a replica, and who replicates from it. Sits in `server`."""

from __future__ import annotations

from flushlab.record import ServerIdentity
from flushlab.server.protocol import Server


def replica_statement(identity: ServerIdentity) -> str:
    """What shows a replica's state: MariaDB has a row for each of its sources."""
    if identity.flavor == "mariadb":
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if identity.version >= (8, 0, 22) else "SHOW SLAVE STATUS"


def sources_of(server: Server) -> list[str]:
    """The hosts that a replica has its data from.

    Raises:
        StatementFailed: the account may not see them; `rights` finds that out beforehand.
    """
    place = 3 if server.identity.flavor == "mariadb" else 1
    return [str(row[place]) for row in server.query(replica_statement(server.identity))]


def replicas_of(server: Server) -> int:
    """How many replicas are connected to a server, as far as the account may see."""
    return sum(str(row[4]).startswith("Binlog Dump") for row in server.query("SHOW PROCESSLIST"))
