"""Replica: a real server that replicates from another one. Sits in `crashed`.

First, the receiver thread writes the source's events to the relay log, and the replica applies nothing. After
a crash of the source, the replica applies the received events. Then it reconnects to the recovered source:
with GTIDs, it continues from its executed GTIDs; without, from its last position in the binary log.
"""

from __future__ import annotations

import os
import re
import secrets
import struct
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self

import msgspec

from flushlab.build import Build
from flushlab.crashed import recovered_server
from flushlab.crashed.judge import ACKS_TABLE
from flushlab.crashed.recovered_server import AcksTable, Unreadable, make_acks_table, said
from flushlab.datadir import DataRoot
from flushlab.datadir.restore import copy_tree
from flushlab.errors import FlushlabError, ServerError, StorageError, UsageError
from flushlab.process.run_record import passing_folder
from flushlab.record import ReplicaOutcome, ReplicaState, ServerIdentity, Value
from flushlab.server import Sandbox, SandboxSpec

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


class ReplicaSource:
    def __init__(self, server: Sandbox) -> None:
        self.server = server
        ((on,),) = server.query("SELECT @@log_bin")
        if not int(on):
            raise UsageError(
                "--replica needs the binary log, which this server runs without", hint="add --set log_bin=ON"
            )

    def admit(self) -> tuple[str, str]:
        # Replication takes passwords of 32 characters at most.
        user, password = f"flushlab_{secrets.token_hex(4)}", secrets.token_hex(12)
        for statement in (
            "SET SESSION sql_log_bin = 0",
            f"CREATE USER {user}@'{self.server.endpoint.host}' IDENTIFIED BY '{password}'",
            f"GRANT REPLICATION SLAVE ON *.* TO {user}@'{self.server.endpoint.host}'",
            "SET SESSION sql_log_bin = 1",
        ):
            self.server.query(statement)
        return user, password

    def first(self) -> LogPosition:
        return LogPosition(str(self.server.query("SHOW BINARY LOGS")[0][0]), 4)

    def end(self) -> LogPosition:
        mysql_8_4 = self.server.identity.flavor == "mysql" and self.server.identity.version >= (8, 4)
        row = self.server.query("SHOW BINARY LOG STATUS" if mysql_8_4 else "SHOW MASTER STATUS")[0]
        return LogPosition(str(row[0]), int(row[1]))

    def has_served(self, user: str) -> bool:
        rows = self.server.query("SHOW PROCESSLIST")
        return any(row[1] == user and "has sent all" in str(row[6]) for row in rows)


class ReplicaStatus(NamedTuple):
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
        replica = cls(_started(build, settings, data_root, number, adopt=datadir))
        replica._listened = True
        return replica

    def listen(self, source: ReplicaSource) -> None:
        self._listened = True
        user = self._change(source, source.first(), gtid=False)
        self._command("START SLAVE IO_THREAD")
        self._await_served(source, user)

    def stop_listening(self) -> None:
        self._command("STOP SLAVE IO_THREAD")

    def apply(self, until: LogPosition | None) -> None:
        if until is None:
            return
        self._command(
            f"START SLAVE SQL_THREAD UNTIL RELAY_LOG_FILE='{until.file}', RELAY_LOG_POS={until.offset}"
        )
        # At the end of the relay log MariaDB waits for more, before it sees that it was to stop there.
        self._wait(
            lambda: (now := self.status()).applies == "No" or now.relayed >= until,
            "applies what it has received",
        )
        self._command("STOP SLAVE SQL_THREAD")
        error, words = self.status().applying
        if error:
            raise ServerError(f"the replica cannot apply what it has received: {words}")

    def follow(self, source: ReplicaSource) -> None:
        at = self.status().applied if self._listened else source.first()
        self._command("STOP SLAVE")
        server = self.server
        gtid = server.identity.flavor == "mariadb" or server.query("SELECT @@gtid_mode") == [("ON",)]
        user = self._change(source, at, gtid=gtid)
        self._command("START SLAVE")
        self._await_served(source, user)

    def await_all(self, source: ReplicaSource) -> ReplicaStatus:
        end = source.end()
        self._wait(lambda: (now := self.status()).error != 0 or now.applied == end, "applies everything")
        return self.status()

    def status(self) -> ReplicaStatus:
        rows = self.server.query(_words(self.server.identity, "SHOW SLAVE STATUS"))
        if not rows:
            return ReplicaStatus("No", "No", LogPosition("", 0), LogPosition("", 0), _NONE, _NONE)
        row = rows[0]
        receives, applies = str(row[10]), str(row[11])
        return ReplicaStatus(
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

    def _change(self, source: ReplicaSource, at: LogPosition, *, gtid: bool) -> str:
        endpoint, identity, (user, password) = source.server.endpoint, self.server.identity, source.admit()
        options = [
            f"MASTER_HOST='{endpoint.host}'",
            f"MASTER_PORT={endpoint.port}",
            f"MASTER_USER='{user}'",
            f"MASTER_PASSWORD='{password}'",
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
        return user

    def _await_served(self, source: ReplicaSource, user: str) -> None:
        self._wait(lambda: self.status().error != 0 or source.has_served(user), "has been sent everything")

    def _command(self, sql: str) -> None:
        self.server.query(_words(self.server.identity, sql))

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _LIMIT_S
        while not condition():
            if time.monotonic() > until:
                now = "it does not answer"
                with suppress(ServerError):
                    now = str(self.status())
                raise ServerError(f"after {_LIMIT_S:.0f} s no replica that {what}: {now}")
            time.sleep(_POLL_S)


def listening_replica(server: Sandbox, acks: AcksTable, folder: Path) -> Replica:
    source = ReplicaSource(server)
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
        SandboxSpec(
            build,
            settings={**own, **_FAST, "server_id": number},
            arguments=(
                f"--relay-log={RELAY}",
                "--relay-log-purge=0",
                *(("--skip-log-bin",) if mysql and build.version >= (8, 0) else ()),
            ),
            data_root=data_root,
            adopt=adopt,
            connects=True,
        )
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


FOLDER = "replica"
"""Beside the record: the replica's data directory and the receipts."""
_DATA, _RECEIPTS = "data", "received"
_RECEIPT = struct.Struct("<QQQQ")
_SAMPLE_S = 0.001


class Receipt(NamedTuple):
    """How long a relay log was when the disk's record was at `position`."""

    position: int
    file: int
    length: int
    time_ns: int


@contextmanager
def listening(server: Sandbox, acks: AcksTable, folder: Path, position: Path) -> Iterator[Listening]:
    """`position`: 8 bytes, little endian."""
    with listening_replica(server, acks, folder) as replica, Listening(replica, position) as listener:
        yield listener


class Listening:
    def __init__(self, replica: Replica, position: Path) -> None:
        self._replica, self._position = replica, position
        self._receipts: list[Receipt] = []
        self._over = Event()
        self._failed: OSError | None = None
        self._thread = Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def keep(self, record: Path) -> None:
        self._over.set()
        self._thread.join()
        if self._failed is not None:
            raise StorageError(
                f"the relay log of the replica that listened cannot be read: {self._failed}",
                hint="leave out --replica, or look at the disk that holds flushlab's data directories",
            ) from self._failed
        self._replica.stop_listening()
        self._replica.server.stop()
        folder = record / FOLDER
        folder.mkdir(mode=0o700)
        self._replica.server.move_datadir(folder / _DATA)
        (folder / _RECEIPTS).write_bytes(b"".join(_RECEIPT.pack(*one) for one in self._receipts))

    def _sample(self) -> None:
        datadir, number, last = self._replica.server.datadir, 1, (0, 0)
        try:
            with self._position.open("rb", buffering=0) as position:
                while not self._over.wait(_SAMPLE_S):
                    while _file(datadir, number + 1).exists():
                        number += 1
                    file = _file(datadir, number)
                    seen = number, file.stat().st_size if file.exists() else 0
                    if seen != last:
                        at = int.from_bytes(os.pread(position.fileno(), 8, 0), "little")
                        self._receipts.append(Receipt(at, *seen, time.monotonic_ns()))
                        last = seen
        except OSError as error:
            self._failed = error


class Received:
    def __init__(self, record: Path) -> None:
        folder = record / FOLDER
        self.datadir = folder / _DATA
        try:
            content = (folder / _RECEIPTS).read_bytes()
            self._receipts = [Receipt(*one) for one in _RECEIPT.iter_unpack(content)]
            self._ends = transaction_ends(self.datadir)
        except (OSError, struct.error, recovered_server.Unreadable) as error:
            raise StorageError(
                f"what the replica of {record} has received cannot be read: {error}", hint="record again"
            ) from error

    @classmethod
    def find(cls, record: Path) -> Self | None:
        return cls(record) if (record / FOLDER / _RECEIPTS).exists() else None

    def before(self, at: int, moment_ns: int | None = None) -> LogPosition | None:
        known = [
            one
            for one in self._receipts
            if one.position <= at and (moment_ns is None or one.time_ns <= moment_ns)
        ]
        return _last(self._ends, known[-1].file, known[-1].length) if known else None


def transaction_ends(datadir: Path) -> Mapping[int, list[int]]:
    files = (file for file in datadir.glob(f"{RELAY}.*") if file.suffix[1:].isdigit())
    return {int(file.suffix[1:]): recovered_server.ends_in(file) for file in sorted(files)}


def all_received(datadir: Path) -> LogPosition | None:
    ends = transaction_ends(datadir)
    return _last(ends, max(ends, default=0), 1 << 62)


def _last(ends: Mapping[int, list[int]], file: int, length: int) -> LogPosition | None:
    for number in sorted((one for one in ends if one <= file), reverse=True):
        whole = bisect_right(ends[number], length) if number == file else len(ends[number])
        if whole:
            return LogPosition(_file(Path(), number).name, ends[number][whole - 1])
    return None


def _file(datadir: Path, number: int) -> Path:
    return datadir / f"{RELAY}.{number:06d}"


Commit = tuple[int, int]
"""Connection and counter."""


def of_crash_image(
    server: Sandbox,
    acks: AcksTable | None,
    received: Received | None,
    at: int,
    work: Path,
    moment_ns: int | None = None,
) -> tuple[ReplicaState, ReplicaState] | tuple[None, None]:
    if received is None or acks is None or not server.alive():
        return None, None
    try:
        with passing_folder(work, "replica", mode=0o711) as folder:
            copy_tree(received.datadir, folder / "data")
            root = DataRoot.open(work)
            with (
                Replica.adopt(server.build, server.settings, folder / "data", root) as old,
                Replica.start(server.build, server.settings, acks, root, number=3) as new,
            ):
                old.apply(received.before(at, moment_ns))
                return attach(server, acks, old, new)
    except (FlushlabError, OSError) as error:
        return unknown_replica(str(error)), unknown_replica(str(error))


def of_killed(
    server: Sandbox, acks: AcksTable, old: Replica, folder: Path
) -> tuple[ReplicaState, ReplicaState] | tuple[None, None]:
    if not server.alive():
        return None, None
    try:
        with Replica.start(server.build, server.settings, acks, DataRoot.open(folder), number=3) as new:
            old.apply(all_received(old.server.datadir))
            return attach(server, acks, old, new)
    except (FlushlabError, Unreadable, OSError) as error:
        return unknown_replica(str(error)), unknown_replica(str(error))


def attach(server: Sandbox, acks: AcksTable, old: Replica, new: Replica) -> tuple[ReplicaState, ReplicaState]:
    source = ReplicaSource(server)
    there = acked_rows(server, acks)
    ahead = len(acked_rows(old.server, acks).keys() - there.keys())
    old.follow(source)
    new.follow(source)
    _go_on(server, acks, there)
    states = [replica.await_all(source) for replica in (old, new)]
    there = acked_rows(server, acks)
    found = [acked_rows(replica.server, acks) for replica in (old, new)]
    of_old, of_new = (
        judge_replica(there, one, status.error, status.said)
        for one, status in zip(found, states, strict=True)
    )
    return msgspec.structs.replace(of_old, ahead=ahead), of_new


def judge_replica(
    source: Mapping[Commit, object], replica: Mapping[Commit, object], error: int = 0, words: str = ""
) -> ReplicaState:
    goes_on: ReplicaOutcome = "follows" if source == replica else "diverged"
    return ReplicaState(
        outcome="stopped" if error else goes_on,
        lacks=len(source.keys() - replica.keys()),
        error=error,
        said=said(words) if words else "",
    )


def unknown_replica(why: str) -> ReplicaState:
    return ReplicaState(outcome="unknown", said=said(why))


def acked_rows(server: Sandbox, acks: AcksTable) -> Mapping[Commit, tuple[int, int]]:
    found: Sequence[tuple[int, int, int, int]] = server.query(
        "SELECT c, n, COUNT(*), BIT_XOR(CRC32(CONCAT(part, ' ', pad)))"
        f" FROM {acks.database}.{ACKS_TABLE} GROUP BY c, n"
    )
    return {(int(c), int(n)): (int(count), int(total)) for c, n, count, total in found}


def _go_on(server: Sandbox, acks: AcksTable, there: Mapping[Commit, object]) -> None:
    last: dict[int, int] = {}
    for connection, counter in there:
        last[connection] = max(last.get(connection, 0), counter)
    for connection, counter in (last or {1: 0}).items():
        values = ", ".join(
            f"({connection}, {counter + 1}, {part}, 'after the crash')" for part in range(1, acks.rows + 1)
        )
        server.query(f"INSERT INTO {acks.database}.{ACKS_TABLE} (c, n, part, pad) VALUES {values}")
