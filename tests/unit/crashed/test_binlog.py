"""The acknowledgement table in binary logs, in events as the servers write them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from flushlab.crashed.judge import ACKS_TABLE, Commits
from flushlab.crashed.recovered_server import Unreadable, commits_in, ends_in

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
