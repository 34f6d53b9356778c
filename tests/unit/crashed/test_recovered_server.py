"""What a server says when it does not start."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flushlab.crashed import recovered_server
from flushlab.crashed.judge import ACKS_TABLE, AckNote, Commits, RecoveredServer, judge
from flushlab.crashed.measured import counts
from flushlab.crashed.recovered_server import (
    AcksTable,
    SeenTables,
    Unreadable,
    as_one,
    commits_in,
    counted_mariadb,
    counted_mysql,
    ends_in,
    said,
    see,
    way_back,
)
from flushlab.errors import NoSpace, ServerDied, ServerError
from flushlab.record import Crash, CrashNode, CrashPoint
from flushlab.server.control import StatementFailed


def test_the_first_errors_of_a_log_are_told_and_no_dump_of_a_page() -> None:
    log = """the server did not become ready; its log says:
2026-11-22T22:46:02.1Z 0 [System] [MY-013576] [InnoDB] InnoDB initialization has started.
2026-11-22T22:46:02.2Z 0 [ERROR] [MY-011906] [InnoDB] Database page corruption on disk
 len 16384; hex c8cfc015000000eb [ERROR]
2026-11-22 22:46:03 0 [ERROR] InnoDB: Plugin initialization aborted
2026-11-22 22:46:04 0 [ERROR] Aborting"""
    assert said(log) == (
        "2026-11-22T22:46:02.2Z 0 [ERROR] [MY-011906] [InnoDB] Database page corruption on disk"
        " / 2026-11-22 22:46:03 0 [ERROR] InnoDB: Plugin initialization aborted"
    )


def test_without_an_error_the_last_line_is_told() -> None:
    assert said("it was killed\nby signal 9\n") == "by signal 9"


def test_gtids_are_counted_as_the_servers_write_them() -> None:
    one, other = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
    assert counted_mysql("") == 0
    assert counted_mysql(f"{one}:1-5:7:11-18,\n{other}:1") == 15
    assert counted_mariadb("") == 0
    assert counted_mariadb("0-1-1234") == 1234
    assert counted_mariadb("0-1-12,1-1-3") == 15


class Silent:
    """A server that answers nothing."""

    def __init__(self, error: ServerError, *, dies: bool = False, was_killed: bool = False) -> None:
        self.error, self.dies, self.was_killed = error, dies, was_killed

    def query(self, _sql: str) -> object:
        raise self.error

    def alive(self) -> bool:
        return not self.dies


def test_a_server_that_lives_and_does_not_answer_in_time_has_lost_nothing_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovered_server, "_DYING_S", 0.0)
    silent: Any = Silent(ServerError("the server s1 does not answer within 900 s"))
    with pytest.raises(ServerError, match="within 900 s"):
        recovered_server.ask(silent, None)
    assert silent.answer_s == 900.0


@pytest.mark.parametrize("errno", [1021, 1037, 1040, 1041])
def test_a_server_that_lacks_memory_space_or_a_connection_has_lost_nothing_that_is_known(errno: int) -> None:
    silent: Any = Silent(StatementFailed(errno, "Out of memory", "SELECT 1"))
    with pytest.raises(StatementFailed, match="Out of memory"):
        recovered_server.ask(silent, None)


def test_a_server_that_the_kernel_kills_has_lost_nothing_that_is_known() -> None:
    silent: Any = Silent(ServerDied("it is no longer running"), dies=True, was_killed=True)
    with pytest.raises(NoSpace, match="SIGKILL"):
        recovered_server.ask(silent, None)


@pytest.mark.parametrize("killed_by_the_kernel", [True, False])
def test_a_server_that_the_kernel_kills_after_its_second_start_has_lost_nothing_that_is_known(
    monkeypatch: pytest.MonkeyPatch, killed_by_the_kernel: bool
) -> None:
    monkeypatch.setattr(recovered_server, "look", lambda *_: RecoveredServer({}))
    died = ServerDied("it is no longer running; its log ends with:\n[ERROR] page 4")
    server: Any = Silent(died, dies=True, was_killed=killed_by_the_kernel)
    server.kill = server.start_again = lambda: None
    if killed_by_the_kernel:
        with pytest.raises(NoSpace, match="SIGKILL"):
            recovered_server.ask(server, AcksTable("d", 1))
    else:
        assert recovered_server.ask(server, AcksTable("d", 1)).not_again == "[ERROR] page 4"


@pytest.mark.parametrize(
    ("error", "dies"),
    [
        (ServerError("it does not answer"), True),
        (ServerDied("it is no longer running"), True),
        (StatementFailed(1034, "Incorrect key file", "SELECT 1"), False),
    ],
)
def test_a_server_that_dies_of_a_question_or_refuses_it_cannot_read_its_tables(
    error: ServerError, dies: bool
) -> None:
    silent: Any = Silent(error, dies=dies)
    assert recovered_server.ask(silent, None).extra == (f"its tables cannot be read: {error}",)


QUERY, FORMAT, XID, TABLE_MAP, WRITE_V1, WRITE_V2, ANONYMOUS, MARIADB_GTID = 2, 15, 16, 19, 23, 30, 34, 162


def event(kind: int, body: bytes) -> bytes:
    """With its checksum, as both servers write it by default."""
    size = 19 + len(body) + 4
    whole = struct.pack("<IBIIIH", 0, kind, 1, size, 0, 0) + body
    return whole + struct.pack("<I", zlib.crc32(whole))


def query(text: str) -> bytes:
    return event(QUERY, struct.pack("<IIBHH", 1, 0, 1, 0, 3) + b"abc" + b"d\0" + text.encode())


def table_map(table: str = ACKS_TABLE) -> bytes:
    """Three BIGINTs and a CHAR(60) in utf8mb4."""
    name = table.encode()
    columns = b"\4" + b"\x08\x08\x08\xfe" + b"\2\xfe\xf0" + b"\0"
    return b"\7" + bytes(5) + b"\1\0" + b"\1d\0" + bytes([len(name)]) + name + b"\0" + columns


def row(connection: int, counter: int, kind: int = WRITE_V2, table: str = ACKS_TABLE) -> bytes:
    mapped = table_map(table)
    head = b"\7" + bytes(5) + b"\1\0" + (b"\2\0" if kind == WRITE_V2 else b"")
    values = b"\4\xff\xf0" + struct.pack("<qqq", connection, counter, 1) + b"\2pa"
    return event(TABLE_MAP, mapped) + event(kind, head + values)


def transaction(connection: int, counter: int) -> bytes:
    return event(ANONYMOUS, bytes(42)) + query("BEGIN") + row(connection, counter) + event(XID, bytes(8))


def description(checksums: bool) -> bytes:
    """As MySQL 8.0 writes it, with the lengths of its events' heads."""
    lengths = bytes(
        [0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 98, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0]
    )
    lengths += bytes([10, 10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0])
    return struct.pack("<H50sIB", 4, b"8.0.44", 0, 19) + lengths + bytes([checksums])


HEAD = b"\xfebin" + event(FORMAT, description(checksums=True))


def read(tmp_path: Path, *events: bytes) -> dict[int, Commits]:
    (tmp_path / "binlog.000001").write_bytes(HEAD + b"".join(events))
    return commits_in([tmp_path / "binlog.000001"])


def test_whole_transactions_are_counted_by_connection(tmp_path: Path) -> None:
    found = read(tmp_path, transaction(1, 1), transaction(2, 1), transaction(1, 2))
    assert found == {1: Commits(2, 2), 2: Commits(1, 1)}


def test_rows_of_mariadb_and_statements_count_too(tmp_path: Path) -> None:
    statement = query(f"INSERT INTO {ACKS_TABLE} (c, n, part, pad) VALUES (3, 2, 1, 'x')")
    begun = event(MARIADB_GTID, bytes(19))
    mixed = begun + statement + event(XID, bytes(8))
    rows = begun + row(3, 1, WRITE_V1) + query("COMMIT")
    assert read(tmp_path, rows, mixed) == {3: Commits(2, 2)}


def test_a_transaction_without_its_end_does_not_count(tmp_path: Path) -> None:
    torn = transaction(1, 2)
    assert read(tmp_path, transaction(1, 1), torn[:-30]) == {1: Commits(1, 1)}
    unfinished = event(ANONYMOUS, bytes(42)) + query("BEGIN") + row(1, 2)
    assert read(tmp_path, transaction(1, 1), unfinished, transaction(1, 3)) == {1: Commits(2, 3)}


def test_what_follows_a_damaged_event_does_not_count(tmp_path: Path) -> None:
    damaged = bytearray(transaction(1, 2))
    damaged[30] ^= 1
    assert read(tmp_path, transaction(1, 1), bytes(damaged), transaction(1, 3)) == {1: Commits(1, 1)}
    assert read(tmp_path, transaction(1, 1), bytes(4096)) == {1: Commits(1, 1)}


def test_without_checksums_an_event_that_cannot_be_read_ends_its_file(tmp_path: Path) -> None:
    def bare(kind: int, body: bytes) -> bytes:
        return struct.pack("<IBIIIH", 0, kind, 1, 19 + len(body), 0, 0) + body

    short = b"\7" + bytes(5) + b"\1\0" + b"\2\0" + b"\4\xff\xf0" + b"\1"
    head = b"\xfebin" + bare(FORMAT, description(checksums=False) + bytes(4))
    (file := tmp_path / "binlog.000001").write_bytes(
        head + bare(TABLE_MAP, table_map()) + bare(WRITE_V2, short)
    )
    (last := tmp_path / "binlog.000002").write_bytes(HEAD + transaction(1, 1))
    assert commits_in([file, last]) == {1: Commits(1, 1)}


def test_rows_of_other_tables_do_not_count(tmp_path: Path) -> None:
    other = event(ANONYMOUS, bytes(42)) + row(9, 9, table="sbtest1") + event(XID, bytes(8))
    assert read(tmp_path, other, transaction(1, 1)) == {1: Commits(1, 1)}


def payload(compression: int, *events: bytes) -> bytes:
    """A transaction's events, which have no checksums there."""
    content = b"".join(one[:9] + struct.pack("<I", len(one) - 4) + one[13:-4] for one in events)
    fields = ((1, len(content)), (2, compression), (3, len(content)))
    head = b"".join(struct.pack("<BBBQ", field, 9, 0xFE, value) for field, value in fields)
    return event(ANONYMOUS, bytes(42)) + event(40, head + b"\0" + content)


def inserted(connection: int, counter: int) -> tuple[bytes, ...]:
    one = row(connection, counter)
    (size,) = struct.unpack_from("<I", one, 9)
    return query("BEGIN"), one[:size], one[size:], event(XID, bytes(8))


def test_a_compressed_transaction_is_read_inside(tmp_path: Path) -> None:
    stored = 255  # the method that compresses nothing
    found = read(
        tmp_path, payload(stored, *inserted(1, 1)), transaction(2, 1), payload(stored, *inserted(1, 2))
    )
    assert found == {1: Commits(2, 2), 2: Commits(1, 1)}


def test_a_transaction_that_is_compressed_in_an_unknown_way_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="the compression 7, which is unknown"):
        read(tmp_path, payload(7, *inserted(1, 1)))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xfdbin" + bytes(508), "it is encrypted"),
        (HEAD + event(164, bytes(17)) + b"\x7f" * 40, "it is encrypted"),
        (b"\xfe\xfe\x0d\x01" + bytes(4092), "its format is not known"),
    ],
    ids=["mysql", "mariadb", "other"],
)
def test_what_is_encrypted_or_in_another_format_is_not_read(tmp_path: Path, content: bytes, why: str) -> None:
    (file := tmp_path / "binlog.000001").write_bytes(content)
    with pytest.raises(Unreadable, match=why):
        commits_in([file])
    with pytest.raises(Unreadable, match=why):
        ends_in(file)


def test_a_binary_log_in_innodb_is_not_read_even_where_nothing_of_it_was_written(tmp_path: Path) -> None:
    (file := tmp_path / "binlog-000000.ibb").write_bytes(bytes(4096))
    with pytest.raises(Unreadable, match=r"in InnoDB \(binlog-000000.ibb\)"):
        commits_in([file])


def test_a_file_that_the_index_names_and_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    (first := tmp_path / "binlog.000001").write_bytes(HEAD + transaction(1, 1))
    assert commits_in([first, tmp_path / "binlog.000002"]) == {1: Commits(1, 1)}


@pytest.mark.parametrize("length", [0, 2, 4])
def test_a_file_that_ends_within_its_first_bytes_has_nothing(tmp_path: Path, length: int) -> None:
    (file := tmp_path / "binlog.000001").write_bytes(HEAD[:length])
    assert commits_in([file]) == {}


def test_a_file_that_was_cut_to_nothing_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes(bytes(100))
    assert commits_in([tmp_path / "binlog.000001"]) == {}


def test_whole_transactions_end_with_their_commit(tmp_path: Path) -> None:
    def ends(content: bytes) -> list[int]:
        (file := tmp_path / "binlog.000001").write_bytes(content)
        return ends_in(file)

    first, second = HEAD + transaction(1, 1), HEAD + transaction(1, 1) + transaction(2, 1)
    assert ends(second) == [len(first), len(second)]
    assert ends(second[:-1]) == [len(first)]
    assert ends(HEAD + query("BEGIN") + row(1, 1)) == []


POINT = CrashPoint(at=0, kind="random", seed=1)
NOTES = [AckNote(1, counter, 0, counter * 1_000_000_000) for counter in range(1, 6)]
"""Five acknowledged commits of one connection."""


def seen(number: int, commits: int, checksum: int = 1) -> SeenTables:
    return SeenTables(number, RecoveredServer({1: Commits(commits, commits)}), checksum)


def judged(*nodes: SeenTables, others: tuple[Crash, ...] = ()) -> Crash:
    known = [CrashNode(number=one.number, crashed=True, way="ist", outcome="unknown") for one in nodes]
    return as_one(POINT, NOTES, 6_000_000_000, nodes, known, others)


def test_a_cluster_whose_nodes_all_have_everything_kept_it() -> None:
    crash = judged(seen(1, 5), seen(2, 5))
    assert (crash.outcome, crash.lost, crash.reasons) == ("kept", 0, ())
    assert [(node.number, node.outcome) for node in crash.nodes] == [(1, "kept"), (2, "kept")]


def test_a_cluster_whose_nodes_agree_on_less_has_lost_the_rest() -> None:
    crash = judged(seen(1, 3), seen(2, 3))
    assert (crash.outcome, crash.lost, crash.lost_s) == ("lost", 2, 2.0)


@pytest.mark.parametrize("other", [seen(2, 4), seen(2, 5, checksum=2)])
def test_nodes_that_differ_are_inconsistent_whatever_one_of_them_has(other: SeenTables) -> None:
    crash = judged(seen(1, 5), other)
    assert crash.outcome == "inconsistent"
    assert crash.reasons[0].startswith("the nodes differ: node 1 has 5 commits, node 2 has")


def test_what_a_node_that_stayed_lacked_is_lost_even_if_a_node_that_came_back_had_it() -> None:
    before = judge(POINT, NOTES, 6_000_000_000, RecoveredServer({1: Commits(4, 4)}))
    crash = judged(seen(1, 5), seen(2, 5), others=(before,))
    assert (crash.outcome, crash.lost) == ("lost", 1)


@pytest.mark.parametrize(
    ("said", "way"),
    [
        ("WSREP: State transfer required:\nWSREP_SST: [INFO] rsync IST completed on joiner (2026)", "ist"),
        ("WSREP: State transfer required:\nWSREP_SST: [INFO] rsync SST completed on joiner (2026)", "sst"),
        ("WSREP: Member 0.0 (c-1) synced with group.", "none"),
    ],
)
def test_how_a_node_came_back_is_in_its_log(said: str, way: str) -> None:
    assert way_back(said) == way


def cluster_that_answers(monkeypatch: pytest.MonkeyPatch, error: Exception, *, killed: bool = False) -> Any:
    """Two nodes; the second one answers with an error."""
    one, two = (SimpleNamespace(was_killed=killed, query=lambda _: [("", 1)]) for _ in range(2))

    def look(node: Any, _: AcksTable) -> RecoveredServer:
        if node is two:
            raise error
        return RecoveredServer({1: Commits(5, 5)})

    monkeypatch.setattr(recovered_server, "look", look)
    monkeypatch.setattr(recovered_server, "dies", lambda _: "dying" in str(error))
    return SimpleNamespace(nodes=[one, two], settled=lambda: None)


ACKS = AcksTable("flushlab_crash", 1)


@pytest.mark.parametrize(
    "error",
    [
        StatementFailed(1034, "Index for table 'flushlab_acks' is corrupt", "SELECT c"),
        ServerDied("its log says:\n2026-11-25  2:00:00 0 [ERROR] InnoDB: the index is corrupt"),
        ServerError("no answer from a server that is dying: corrupt"),
    ],
)
def test_a_node_that_cannot_read_its_tables_is_inconsistent_and_counts(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    crash = judged(*see(cluster_that_answers(monkeypatch, error), ACKS))
    assert crash.outcome == "inconsistent"
    (reason,) = crash.reasons
    assert reason.startswith("node 2 cannot read its tables: ")
    assert "corrupt" in reason
    assert [node.outcome for node in crash.nodes] == ["kept", "inconsistent"]
    assert counts([crash]).bound_95 == 1


@pytest.mark.parametrize(
    ("error", "killed", "kind"),
    [
        (StatementFailed(1021, "Disk full", "SELECT c"), False, StatementFailed),
        (StatementFailed(1047, "WSREP has not yet prepared node", "SELECT c"), False, StatementFailed),
        (ServerError("the server does not answer within 600 s"), False, ServerError),
        (NoSpace("the disk is full"), False, NoSpace),
        (ServerDied("gone"), True, NoSpace),
    ],
)
def test_a_node_that_cannot_be_asked_says_nothing_of_its_data(
    monkeypatch: pytest.MonkeyPatch, error: Exception, killed: bool, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        see(cluster_that_answers(monkeypatch, error, killed=killed), ACKS)
