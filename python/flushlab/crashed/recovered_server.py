"""Recovered server: a server on what a crash has left, and what it answers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from flushlab import _core
from flushlab.crashed import judge
from flushlab.crashed.judge import ACKS_TABLE, AckNote, Commits, RecoveredServer, acks_table_sql
from flushlab.errors import MeasurementError, ServerDied, ServerError, StartFailed
from flushlab.record import Crash, CrashNode, CrashPoint, NodeWay, Value
from flushlab.server import Sandbox
from flushlab.server.control import StatementFailed
from flushlab.server.galera.cluster import Cluster
from flushlab.server.sandbox.log import killed
from flushlab.server.sql import SYSTEM_LIST

_IN_INNODB = ".ibb"
"""Of MariaDB's `binlog_storage_engine=innodb`."""
_INSERT = re.compile(r"INSERT INTO `?" + ACKS_TABLE + r"`? \(.*?\) VALUES \((\d+), ?(\d+),")


class Unreadable(Exception):
    """The file has events that the native core cannot read; the message names them."""


class _Transaction(msgspec.Struct, frozen=True):
    end: int
    inserted: list[list[int]]
    statements: list[str]


class _Log(msgspec.Struct, frozen=True):
    transactions: list[_Transaction]
    unreadable: str | None


def commits_in(files: Iterable[Path]) -> dict[int, Commits]:
    found: dict[int, set[int]] = {}
    for file in files:
        if file.suffix == _IN_INNODB:
            raise Unreadable(f"it lies in InnoDB ({file.name})")
        try:
            log = _read(file)
        except FileNotFoundError:
            continue  # its name was durable, and the file was not
        for transaction in log:
            for connection, counter in _acks(transaction):
                found.setdefault(connection, set()).add(counter)
    return {one: Commits(len(counters), max(counters)) for one, counters in found.items()}


def ends_in(file: Path) -> list[int]:
    return [transaction.end for transaction in _read(file)]


def _read(file: Path) -> list[_Transaction]:
    log = msgspec.json.decode(_core.read_binlog(str(file), ACKS_TABLE), type=_Log)
    if log.unreadable is not None:
        raise Unreadable(log.unreadable)
    return log.transactions


def _acks(transaction: _Transaction) -> Iterator[tuple[int, int]]:
    for connection, counter, *_ in transaction.inserted:
        yield connection, counter
    for statement in transaction.statements:
        if insert := _INSERT.match(statement):
            yield int(insert[1]), int(insert[2])


_MOST_SAID = 400
_ERROR = re.compile(r"\d{4}-\d\d.*\[(ERROR|FATAL)\]|.*\bAssertion\b", re.IGNORECASE)
IDLE_S = 60.0
"""A server that is not ready, and has done nothing for so long, does not start: MySQL 9.7 waits for ever for
pages that neither their place nor the doublewrite file has whole."""
_ANSWER_S = 900.0
"""Longest wait for one answer."""
CANNOT_NOW = {1021, 1037, 1038, 1040, 1041, 1047, 1205}
"""Errors that tell of no damage: no space, no memory, too many connections, no quorum, a lock."""
_DYING_S = 30.0
"""A server that ends itself writes a stack trace first, and nobody has an answer meanwhile."""
_POLL_S = 0.05


class AcksTable(NamedTuple):
    database: str
    rows: int
    alone: bool = False


def make_acks_table(server: Sandbox, acks: AcksTable) -> None:
    """Forgets also an older one in the binary log, which Galera refuses to nodes."""
    server.query(f"CREATE DATABASE IF NOT EXISTS {acks.database}")
    server.query(f"DROP TABLE IF EXISTS {acks.database}.{ACKS_TABLE}")
    server.query(acks_table_sql(acks.database, acks.rows))
    ((on,),) = server.query("SELECT @@log_bin")
    if int(on) and server.membership is None:
        mysql_8_4 = server.identity.flavor == "mysql" and server.identity.version >= (8, 4)
        server.query("RESET BINARY LOGS AND GTIDS" if mysql_8_4 else "RESET MASTER")


def ask(server: Sandbox, acks: AcksTable | None) -> RecoveredServer:
    try:
        found = look(server, acks)
    except ServerError as error:
        _require_damage(server, error, "the server")
        return RecoveredServer(None if acks is None else {}, extra=(f"its tables cannot be read: {error}",))
    try:
        server.kill()
        server.start_again()
        again = _rows(server, acks) if acks else None
    except (StartFailed, ServerDied, StatementFailed) as error:
        _require_damage(server, error, "the server")
        return found._replace(not_again=said(str(error)))
    return found._replace(again=again)


def _require_damage(server: Sandbox, error: ServerError, name: str) -> None:
    if isinstance(error, StartFailed):
        if error.unfinished:
            raise error
    elif isinstance(error, StatementFailed):
        if error.errno in CANNOT_NOW:
            raise error
    elif not isinstance(error, ServerDied) and not dies(server):
        raise error
    if server.was_killed:
        raise killed(name) from error


def dies(server: Sandbox) -> bool:
    until = time.monotonic() + _DYING_S
    while server.alive():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True


def unfinished(error: StartFailed) -> str:
    return error.message.splitlines()[0].removesuffix("; its log says:")


def not_ready(point: CrashPoint, notes: Sequence[AckNote], error: StartFailed) -> Crash:
    if error.unfinished:
        return judge.unknown(point, notes, unfinished(error))
    return judge.not_started(point, notes, said(error.message))


def said(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return " / ".join(errors[:2] or lines[-1:])[:_MOST_SAID]


def look(server: Sandbox, acks: AcksTable | None) -> RecoveredServer:
    server.answer_s = _ANSWER_S
    commits = _rows(server, acks) if acks else None
    broken: Sequence[tuple[int, int]] = ()
    events: Mapping[int, Commits] | str | None = None
    gtids: int | None = None
    if acks:
        broken = [
            (int(connection), int(counter))
            for connection, counter in server.query(
                f"SELECT c, n FROM {acks.database}.{ACKS_TABLE} GROUP BY c, n HAVING COUNT(*) <> {acks.rows}"
            )
        ]
        events = _binlog(server)
        if acks.alone:
            gtids = _gtids(server)
    damaged = _damaged(server)
    return RecoveredServer(commits, broken=broken, damaged=damaged, binlog=events, gtids=gtids)


def _rows(server: Sandbox, acks: AcksTable) -> dict[int, Commits]:
    table = f"{acks.database}.{ACKS_TABLE}"
    rows = server.query(f"SELECT c, COUNT(DISTINCT n), MAX(n) FROM {table} GROUP BY c")
    return {int(connection): Commits(int(count), int(last)) for connection, count, last in rows}


def _binlog(server: Sandbox) -> Mapping[int, Commits] | str | None:
    ((on, base),) = server.query("SELECT @@log_bin, @@log_bin_basename")
    if not int(on):
        return None
    folder = (server.datadir / str(base)).parent
    files = [folder / str(row[0]) for row in server.query("SHOW BINARY LOGS")]
    try:
        return commits_in(files)
    except (Unreadable, OSError) as error:
        return str(error)


def _gtids(server: Sandbox) -> int | None:
    if server.identity.flavor == "mariadb":
        ((on, state),) = server.query("SELECT @@log_bin, @@gtid_binlog_state")
        return counted_mariadb(str(state)) if int(on) else None
    ((mode, executed),) = server.query("SELECT @@gtid_mode, @@gtid_executed")
    return counted_mysql(str(executed)) if mode == "ON" else None


def counted_mariadb(state: str) -> int:
    """Transactions of a `gtid_binlog_state` that was empty once: `DOMAIN-SERVER-NUMBER`, the last of each."""
    return sum(int(one.rsplit("-", 1)[1]) for one in state.split(",") if one.strip())


def counted_mysql(executed: str) -> int:
    """Transactions of a set of GTIDs: `UUID:1-5:7`."""
    count = 0
    for one in executed.split(","):
        for interval in one.strip().split(":")[1:]:
            first, _, last = interval.partition("-")
            count += int(last or first) - int(first) + 1
    return count


def _damaged(server: Sandbox) -> list[str]:
    tables = server.query(
        "SELECT table_schema, table_name FROM information_schema.tables"
        f" WHERE table_type = 'BASE TABLE' AND table_schema NOT IN {SYSTEM_LIST}"
    )
    if not tables:
        return []
    listed = ", ".join(f"`{schema}`.`{name}`" for schema, name in tables)
    said = [row for row in server.query(f"CHECK TABLE {listed}") if row[2] != "note"]  # it cannot be checked
    return [f"CHECK TABLE {row[0]}: {row[3]}" for row in said if row[2] != "status" or row[3] != "OK"]


_TOGETHER_S = 60.0
_TOLD = 3
_STATUS = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_state_comment', 'wsrep_cluster_status',"
    " 'wsrep_cluster_size', 'wsrep_local_recv_queue')"
)
_TRANSFERS: Mapping[str, NodeWay] = {
    "IST completed on joiner": "ist",
    "SST completed on joiner": "sst",
    "State transfer required": "sst",
}
"""What the joiner's log says, the first one that it does; the scripts of all methods word it like that."""


class NotBack(Exception):
    """A cluster does not come back; in the servers' words."""


def require_alike(cluster: Cluster, settings: Mapping[str, Value]) -> None:
    if different := cluster.differences(settings):
        raise MeasurementError(f"the nodes' settings differ: {different[0]}")


class SeenTables(msgspec.Struct, frozen=True):
    number: int
    recovered: RecoveredServer
    checksum: int | None


def way_back(said: str) -> NodeWay:
    return next((way for words, way in _TRANSFERS.items() if words in said), "none")


def await_together(nodes: Sequence[Sandbox]) -> None:
    deadline = time.monotonic() + _TOGETHER_S
    while apart := [why for node in nodes if (why := _apart(node, len(nodes)))]:
        if time.monotonic() > deadline:
            raise ServerError(f"the remaining nodes did not form a cluster: {'; '.join(apart)}")
        time.sleep(_POLL_S)


def _apart(node: Sandbox, size: int) -> str:
    facts = {str(name).lower(): str(value) for name, value in node.query(_STATUS, answer_s=_TOGETHER_S)}
    if facts["wsrep_cluster_status"] != "Primary":
        return f"{node.name} has no quorum"
    if int(facts["wsrep_cluster_size"]) != size:
        return f"{node.name} sees {facts['wsrep_cluster_size']} nodes"
    if facts["wsrep_local_state_comment"] != "Synced" or int(facts["wsrep_local_recv_queue"]):
        return f"{node.name} is behind"
    return ""


def see(cluster: Cluster, acks: AcksTable, *, only: Sequence[int] = ()) -> list[SeenTables]:
    if not only:
        with suppress(ServerDied):  # which one it is shows when it is asked
            cluster.settled()
    return [
        _seen(number, node, acks)
        for number, node in enumerate(cluster.nodes, 1)
        if not only or number in only
    ]


def _seen(number: int, node: Sandbox, acks: AcksTable) -> SeenTables:
    try:
        recovered = look(node, acks)._replace(binlog=None)
        ((_, checksum),) = node.query(f"CHECKSUM TABLE {acks.database}.{ACKS_TABLE} EXTENDED")
        return SeenTables(number, recovered, None if checksum is None else int(checksum))
    except ServerError as error:
        _require_damage(node, error, f"node {number}")
        text = said(error.message) if isinstance(error, ServerDied) else error.message
        unread = RecoveredServer(None, extra=[f"node {number} cannot read its tables: {text}"])
        return SeenTables(number, unread, None)


def as_one(
    point: CrashPoint,
    notes: Sequence[AckNote],
    crashed_ns: int,
    seen: Sequence[SeenTables],
    nodes: Sequence[CrashNode],
    others: Sequence[Crash] = (),
) -> Crash:
    judged = [judge.judge(point, notes, crashed_ns, one.recovered) for one in seen]
    found = max(judged, key=lambda crash: (crash.outcome == "inconsistent", crash.lost))
    reasons = list(found.reasons)
    read = [one for one in seen if one.recovered.commits is not None]
    essences = {(tuple(sorted((one.recovered.commits or {}).items())), one.checksum) for one in read}
    if differ := len(essences) > 1:
        totals = {
            one.number: sum(commits.number for commits in (one.recovered.commits or {}).values())
            for one in read
        }
        told = ", ".join(f"node {number} has {total} commits" for number, total in totals.items())
        reasons.append(f"the nodes differ: {told}")
    reasons += [reason for other in others for reason in other.reasons][:_TOLD]
    worse = [other for other in others if other.outcome != "kept"]
    inconsistent = differ or any(crash.outcome == "inconsistent" for crash in (*judged, *worse))
    lost = max(crash.lost for crash in (*judged, *worse))
    return msgspec.structs.replace(
        found,
        outcome="inconsistent" if inconsistent else "lost" if lost else "kept",
        lost=lost,
        lost_s=max(crash.lost_s for crash in (*judged, *worse)),
        reasons=tuple(reasons),
        nodes=tuple(
            msgspec.structs.replace(node, outcome=crash.outcome, lost=crash.lost)
            for node, crash in zip(nodes, judged, strict=True)
        ),
    )
