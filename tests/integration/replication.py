"""A real source that serves binlog files not its own, and a real replica with four workers behind it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from flushlab.machine import server_user
from flushlab.server import Sandbox
from tests.waiting import wait_until

T = TypeVar("T")

WAIT_S = 300

FAST = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0}
"""For replicas: they are never killed. A source is, and must keep what was reset before."""


class Pair(ABC):
    """Source and replica; the tests of a module share one, each begins with files of its own."""

    def __init__(self, start: Callable[..., Sandbox]) -> None:
        self.source, self.replica = self._start(start)
        self.source.query("SET sql_log_bin=0")
        # A sandbox's own password is longer than replication takes.
        self.source.query("CREATE USER replica@'127.0.0.1' IDENTIFIED BY 'replica'")
        self.source.query("GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'")

    def serve(self, write: Callable[[Path], T]) -> T:
        """Puts the files that `write` makes in place of the source's own, as after a crash."""
        self.source.query(self.forget_logged)
        self.source.kill()
        for file in self.source.datadir.glob("binlog.*"):
            file.unlink()
        written = write(self.source.datadir)
        owner = server_user()
        for file in self.source.datadir.glob("binlog.*"):
            os.chown(file, owner.uid, owner.gid)
        self.source.start_again()
        return written

    def begin_anew(self, statements: list[str]) -> None:
        """Empties the replica of what earlier tests left and runs statements that it does not log."""
        for schema in self.replica.query("SHOW DATABASES"):
            if schema[0] in ("meant", "t", "sbtest"):
                statements = [f"DROP DATABASE {schema[0]}", *statements]
        for statement in (*self.forget_source, "SET sql_log_bin=0", *statements):
            self.replica.query(statement)

    @property
    @abstractmethod
    def forget_logged(self) -> str:
        """Empties the binlog and the set of GTIDs."""

    @property
    @abstractmethod
    def forget_source(self) -> tuple[str, ...]:
        """Makes the replica nobody's, without any GTID."""

    @abstractmethod
    def _start(self, start: Callable[..., Sandbox]) -> tuple[Sandbox, Sandbox]: ...

    @abstractmethod
    def logged(self, server: Sandbox) -> str:
        """The GTIDs that a server has."""

    @abstractmethod
    def follow(self) -> None:
        """Has the replica take all that the source has, then ends their connection."""


class MysqlPair(Pair):
    """MySQL 9.7, by auto-position."""

    forget_logged = "RESET BINARY LOGS AND GTIDS"
    forget_source = ("STOP REPLICA", "RESET REPLICA ALL", forget_logged)

    def _start(self, start: Callable[..., Sandbox]) -> tuple[Sandbox, Sandbox]:
        usual = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "log_bin": "binlog"}
        return (
            start("mysql@9.7", settings={**usual, "server_id": "7"}),
            start(
                "mysql@9.7",
                settings={**usual, **FAST, "server_id": "8", "replica_parallel_workers": "4"},
                connects=True,
            ),
        )

    def logged(self, server: Sandbox) -> str:
        return str(server.query("SELECT @@GLOBAL.gtid_executed")[0][0])

    def follow(self) -> None:
        self.replica.query(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%s, SOURCE_USER='replica',"
            " SOURCE_PASSWORD='replica', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
            (self.source.endpoint.port,),
        )
        self.replica.query("START REPLICA")
        reached = self.replica.query(
            "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (self.logged(self.source), WAIT_S)
        )
        assert reached == [(0,)], self.replica.log_tail(20)
        self.replica.query("STOP REPLICA")


class MariadbPair(Pair):
    """MariaDB 10.11, by GTID position."""

    LAST_IO_ERRNO = 34
    """Column of SHOW SLAVE STATUS."""
    forget_logged = "RESET MASTER"
    forget_source = ("STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL gtid_slave_pos=''")

    def _start(self, start: Callable[..., Sandbox]) -> tuple[Sandbox, Sandbox]:
        return (
            start("mariadb@10.11", settings={"server_id": "7", "log_bin": "binlog"}),
            start(
                "mariadb@10.11",
                settings={**FAST, "server_id": "8", "slave_parallel_threads": "4"},
                connects=True,
            ),
        )

    def logged(self, server: Sandbox) -> str:
        name = "gtid_binlog_pos" if server is self.source else "gtid_slave_pos"
        return str(server.query(f"SELECT @@GLOBAL.{name}")[0][0])

    def follow(self, stops_at: int = 0) -> None:
        """The same; `stops_at` is the error that the replica must come to."""
        self.replica.query(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%s, MASTER_USER='replica',"
            " MASTER_PASSWORD='replica', MASTER_USE_GTID=slave_pos",
            (self.source.endpoint.port,),
        )
        self.replica.query("START SLAVE")
        reached = self.replica.query("SELECT MASTER_GTID_WAIT(%s, %s)", (self.logged(self.source), WAIT_S))
        assert reached == [(0,)], self.replica.log_tail(20)
        if stops_at:
            wait_until(lambda: self._stopped_at() == stops_at, f"the replica stops at {stops_at}")
        self.replica.query("STOP SLAVE")

    def _stopped_at(self) -> int:
        """The error that ended the connection to the source, 0 while it lasts."""
        return int(self.replica.query("SHOW SLAVE STATUS")[0][self.LAST_IO_ERRNO])
