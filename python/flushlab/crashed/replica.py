"""Replica: a real server that replicates from another one. Sits in `crashed`.

First, the receiver thread writes the source's events to the relay log, and the replica applies nothing. After
a crash of the source, the replica applies the received events. Then it reconnects to the recovered source:
with GTIDs, it continues from its executed GTIDs; without, from its last position in the binary log.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from flushlab.build import Build
from flushlab.crashed.live import make_acks_table
from flushlab.crashed.recovered_server import AcksTable
from flushlab.datadir import DataRoot
from flushlab.errors import ServerError, UsageError
from flushlab.record import ServerIdentity, Value
from flushlab.server import DataDirectory, Instance, Sandbox

RELAY = "relay"
"""Files of the relay log are `relay.000001`, …"""
_SAME = ("gtid_mode", "enforce_gtid_consistency", "gtid_strict_mode", "gtid_domain_id")
"""Settings that a replica has from its source."""
_FAST: Mapping[str, Value] = {
    "sync_binlog": 0,
    "innodb_flush_log_at_trx_commit": 0,
    "innodb_buffer_pool_size": 64 << 20,
}
"""It never crashes."""
_NONE = 0, ""
_OF_SOURCE = re.compile(r"Got fatal error (\d+) from")
_POLL_S = 0.02
_LIMIT_S = 120.0


class LogPosition(NamedTuple):
    file: str
    offset: int


class ReplicaAccount(NamedTuple):
    user: str
    password: str


class Source:
    def __init__(self, server: Sandbox) -> None:
        self.server = server
        ((on,),) = server.query("SELECT @@log_bin")
        if not int(on):
            raise UsageError(
                "--replica needs the binary log, which this server runs without", hint="add --set log_bin=ON"
            )

    def admit(self) -> ReplicaAccount:
        """Makes an account for one replica, which no binary log tells of."""
        user = f"flushlab_{secrets.token_hex(4)}"
        account = ReplicaAccount(
            user, secrets.token_hex(12)
        )  # replication takes passwords of 32 characters at most
        for statement in (
            "SET SESSION sql_log_bin = 0",
            f"CREATE USER {user}@'{self.server.endpoint.host}' IDENTIFIED BY '{account.password}'",
            f"GRANT REPLICATION SLAVE ON *.* TO {user}@'{self.server.endpoint.host}'",
            "SET SESSION sql_log_bin = 1",
        ):
            self.server.query(statement)
        return account

    def first(self) -> LogPosition:
        return LogPosition(str(self.server.query("SHOW BINARY LOGS")[0][0]), 4)

    def end(self) -> LogPosition:
        mysql_8_4 = self.server.identity.flavor == "mysql" and self.server.identity.version >= (8, 4)
        row = self.server.query("SHOW BINARY LOG STATUS" if mysql_8_4 else "SHOW MASTER STATUS")[0]
        return LogPosition(str(row[0]), int(row[1]))

    def has_served(self, account: ReplicaAccount) -> bool:
        """Whether it has sent all that it has to the replica of an account."""
        rows = self.server.query("SHOW PROCESSLIST")
        return any(row[1] == account.user and "has sent all" in str(row[6]) for row in rows)


class Status(NamedTuple):
    """`applied`: place in the source's binary log until which all is applied; `relayed`: the same in the
    relay log."""

    receives: str
    applies: str
    applied: LogPosition
    relayed: LogPosition
    receiving: tuple[int, str]
    applying: tuple[int, str]

    @property
    def error(self) -> int:
        return self.applying[0] or self.receiving[0]

    @property
    def said(self) -> str:
        return self.applying[1] or self.receiving[1]


class Replica:
    def __init__(self, server: Sandbox) -> None:
        self.server = server
        self._listened = False

    @classmethod
    def start(
        cls,
        build: Build,
        settings: Mapping[str, Value],
        acks: AcksTable,
        data_root: DataRoot,
        number: int = 2,
    ) -> Self:
        server = _started(build, settings, data_root, number)
        try:
            make_acks_table(server, acks)
        except BaseException:
            server.close()
            raise
        return cls(server)

    @classmethod
    def adopt(
        cls, build: Build, settings: Mapping[str, Value], datadir: Path, data_root: DataRoot, number: int = 2
    ) -> Self:
        """One that has listened, by its data directory, which must lie on the data root's file system."""
        replica = cls(_started(build, settings, data_root, number, adopt=datadir))
        replica._listened = True
        return replica

    def listen(self, source: Source) -> None:
        self._listened = True
        account = self._change(source, source.first(), gtid=False)
        self._command("START SLAVE IO_THREAD")
        self._await_served(source, account)

    def stop_listening(self) -> None:
        self._command("STOP SLAVE IO_THREAD")

    def apply(self, until: LogPosition | None) -> None:
        """Applies what it has received until the end of a transaction in the relay log; None: nothing."""
        if until is None:
            return
        self._command(
            f"START SLAVE SQL_THREAD UNTIL RELAY_LOG_FILE='{until.file}', RELAY_LOG_POS={until.offset}"
        )
        self._wait(lambda: self._has_applied(until), "applies what it has received")
        self._command("STOP SLAVE SQL_THREAD")
        error, words = self.status().applying
        if error:
            raise ServerError(f"the replica cannot apply what it has received: {words}")

    def follow(self, source: Source) -> None:
        """Goes on with a source, or begins with it; comes back when it has been sent all, or cannot go on."""
        at = self.status().applied if self._listened else source.first()
        self._command("STOP SLAVE")
        account = self._change(source, at, gtid=self._has_gtids())
        self._command("START SLAVE")
        self._await_served(source, account)

    def await_all(self, source: Source) -> Status:
        end = source.end()
        self._wait(lambda: (now := self.status()).error != 0 or now.applied == end, "applies everything")
        return self.status()

    def status(self) -> Status:
        rows = self.server.query(_words(self.server.identity, "SHOW SLAVE STATUS"))
        if not rows:
            return Status("No", "No", LogPosition("", 0), LogPosition("", 0), _NONE, _NONE)
        row = rows[0]
        receives, applies = str(row[10]), str(row[11])
        return Status(
            receives,
            applies,
            LogPosition(str(row[9]), int(row[21])),
            LogPosition(str(row[7]), int(row[8])),
            _error(row[34], row[35]) if receives == "No" else _NONE,  # else it tries again after an error
            _error(row[36], row[37]) if applies == "No" else _NONE,
        )

    def close(self) -> None:
        self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _change(self, source: Source, at: LogPosition, *, gtid: bool) -> ReplicaAccount:
        endpoint, identity, account = source.server.endpoint, self.server.identity, source.admit()
        options = [
            f"MASTER_HOST='{endpoint.host}'",
            f"MASTER_PORT={endpoint.port}",
            f"MASTER_USER='{account.user}'",
            f"MASTER_PASSWORD='{account.password}'",
            "MASTER_CONNECT_RETRY=1",
        ]
        if identity.flavor == "mariadb":
            options += ["MASTER_SSL=0", "MASTER_SSL_VERIFY_SERVER_CERT=0"]
            options.append(f"MASTER_USE_GTID={'slave_pos' if gtid else 'no'}")
        else:
            options.append(f"MASTER_AUTO_POSITION={int(gtid)}")
            if identity.version >= (8, 0, 4):
                options.append("GET_MASTER_PUBLIC_KEY=1")
        if not gtid:
            options += [f"MASTER_LOG_FILE='{at.file}'", f"MASTER_LOG_POS={at.offset}"]
        self._command(f"CHANGE MASTER TO {', '.join(options)}")
        return account

    def _has_gtids(self) -> bool:
        if self.server.identity.flavor == "mariadb":
            return True
        ((mode,),) = self.server.query("SELECT @@gtid_mode")
        return str(mode) == "ON"

    def _has_applied(self, until: LogPosition) -> bool:
        """At the end of the relay log MariaDB waits for more, before it sees that it was to stop there."""
        now = self.status()
        return now.applies == "No" or now.relayed >= until

    def _await_served(self, source: Source, account: ReplicaAccount) -> None:
        self._wait(lambda: self.status().error != 0 or source.has_served(account), "has been sent everything")

    def _command(self, sql: str) -> None:
        self.server.query(_words(self.server.identity, sql))

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _LIMIT_S
        while not condition():
            if time.monotonic() > until:
                raise ServerError(f"after {_LIMIT_S:.0f} s no replica that {what}: {self._now()}")
            time.sleep(_POLL_S)

    def _now(self) -> str:
        with suppress(ServerError):
            return str(self.status())
        return "it does not answer"


def listening_replica(server: Sandbox, acks: AcksTable, folder: Path) -> Replica:
    source = Source(server)
    replica = Replica.start(server.build, server.settings, acks, DataRoot.open(folder))
    try:
        replica.listen(source)
    except BaseException:
        replica.close()
        raise
    return replica


def _started(
    build: Build,
    settings: Mapping[str, Value],
    data_root: DataRoot,
    number: int,
    adopt: Path | None = None,
) -> Sandbox:
    own = {name: value for name, value in settings.items() if name in _SAME}
    mysql = build.flavor == "mysql"
    server = Sandbox.start(
        build,
        settings={**own, **_FAST, "server_id": number},
        arguments=(
            f"--relay-log={RELAY}",
            "--relay-log-purge=0",
            *(("--skip-log-bin",) if mysql and build.version >= (8, 0) else ()),
        ),
        data=DataDirectory(data_root, adopt=adopt),
        instance=Instance(connects=True),
    )
    server.answer_s = _LIMIT_S
    return server


def _error(number: object, words: object) -> tuple[int, str]:
    """An error under the number that its source gave it, which MySQL 8.0 has in the words only."""
    of_source = _OF_SOURCE.match(str(words))
    return int(of_source[1] if of_source else str(number)), str(words)


def _words(identity: ServerIdentity, sql: str) -> str:
    if identity.flavor == "mysql" and identity.version >= (8, 0, 23):
        for old, new in (
            ("CHANGE MASTER", "CHANGE REPLICATION SOURCE"),
            ("MASTER", "SOURCE"),
            ("SLAVE", "REPLICA"),
        ):
            sql = sql.replace(old, new)
    return sql
