"""`flushlab binlog check` on files that are whole, torn, damaged, absent and none at all."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flushlab import _core
from flushlab.cli.app import make_app
from flushlab.errors import BinlogDamaged, BinlogUnchecked, FlushlabError, NotWritable, StorageError

app = make_app()

EVENT_CUT = 7


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files or more of a log that is still in use."""
    _core.write_sample_binlog(str(tmp_path), "9.7.4", "t", 50, 100_000, False)
    return sorted(tmp_path.glob("binlog.0*"))


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["binlog", "check", *map(str, arguments)], catch_exceptions=True)


def report(*arguments: object) -> tuple[Result, list[dict[str, Any]]]:
    result = invoke(*arguments, "--json", "-")
    document = json.loads(result.stdout)
    assert document["schema"] == "flushlab.binlog-check/1"
    return result, document["files"]


def refusal(result: Result) -> FlushlabError:
    assert isinstance(result.exception, FlushlabError)
    return result.exception


def test_whole_files_are_counted(files: list[Path]) -> None:
    result, reports = report(*files)
    assert result.exit_code == 0
    assert [one["verdict"] for one in reports] == ["whole"] * len(files)
    assert sum(one["transactions"] for one in reports) == 54
    assert reports[-1]["in_use"]
    assert not reports[0]["in_use"]
    assert reports[0]["event_types"]["FORMAT_DESCRIPTION"] == 1
    text = invoke(*files).stdout
    assert f"{files[-1]}: whole (mysql 9.7.4, in use)" in text
    assert "GTIDs up to its end: 666c7573-686c-6162-2d73-616d706c6521:1-54" in text


def test_a_torn_tail_in_use_is_what_a_crash_leaves(files: list[Path]) -> None:
    files[-1].write_bytes(files[-1].read_bytes()[:-EVENT_CUT])
    result, reports = report(*files)
    error = refusal(result)
    assert (error.slug, error.exit_code) == ("binlog-damaged", 1)
    tail = reports[-1]["tail"]
    assert f"is torn at {tail['offset']}" in error.message
    assert "--crashed" in str(error.hint)
    assert tail["offset"] + tail["bytes"] == files[-1].stat().st_size
    accepted = invoke(*files, "--crashed")
    assert accepted.exit_code == 0
    assert "its writer crashed" in accepted.stdout


def test_a_crash_leaves_its_tail_in_the_last_file_only(files: list[Path]) -> None:
    content = bytearray(files[0].read_bytes()[:-EVENT_CUT])
    content[21] |= 1
    files[0].write_bytes(content)
    assert isinstance(refusal(invoke(*files, "--crashed")), BinlogDamaged)


def test_damage_is_named_with_its_place_and_what_is_whole_ends_before_it(files: list[Path]) -> None:
    content = bytearray(files[-1].read_bytes())
    middle = len(content) // 2
    content[middle] ^= 1
    files[-1].write_bytes(content)
    result, reports = report(*files)
    error = refusal(result)
    problem, whole_until = reports[-1]["problems"][0], reports[-1]["whole_until"]
    assert problem["rule"] == "checksum"
    assert f"{files[-1]} is damaged at {problem['offset']}" in error.message
    assert middle - 1000 < whole_until <= problem["offset"] <= middle
    assert f"whole up to {whole_until};" in str(error.hint)
    assert f"GTIDs up to {whole_until}: " in invoke(files[-1]).stdout


def test_a_file_that_is_left_out_is_noticed(files: list[Path]) -> None:
    result, reports = report(files[0], *files[2:])
    assert {problem["rule"] for problem in reports[1]["problems"]} == {"series"}
    assert reports[1]["verdict"] == "misplaced"
    error = refusal(result)
    assert (error.slug, error.exit_code) == ("binlog-misplaced", 1)
    assert "does not continue the file before it" in error.message
    assert "damaged" not in error.message


@pytest.mark.parametrize(
    ("content", "words", "hint"),
    [
        (b"", "it is empty", "so does a failed copy"),
        (b"\xfebin\0\0\0\0\x0f\1\0\0\0\x79", "ends before its first event is whole", "so does a failed copy"),
        (b"SQLite format 3", "not a binlog", "not their index"),
        (b"\xfd7zXZ\0", "packed with xz", "neither gzip nor zstd"),
        (b"\xfdbin1234", "encrypted", "--read-from-remote-server"),
    ],
)
def test_a_file_that_cannot_be_followed_is_not_called_damaged(
    content: bytes, words: str, hint: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    error = refusal(invoke(file, "--crashed"))
    assert isinstance(error, BinlogUnchecked)
    assert words in error.message
    assert hint in str(error.hint)
    assert "damaged" not in error.message
    assert "backup" not in str(error.hint)


def test_packed_files_are_read_as_the_binlogs_inside(files: list[Path]) -> None:
    packed = files[0].with_name(f"{files[0].name}.gz")
    packed.write_bytes(gzip.compress(files[0].read_bytes()))
    result, reports = report(packed, *files[1:])
    assert result.exit_code == 0
    assert (reports[0]["packing"], reports[0]["bytes"]) == ("gzip", files[0].stat().st_size)
    assert " bytes unpacked from gzip, " in invoke(packed).stdout
    packed.write_bytes(packed.read_bytes()[:-9])
    error = refusal(invoke(packed))
    assert type(error) is StorageError
    assert f"{packed} cannot be unpacked" in error.message


def test_mariadbs_gtid_indexes_are_left_out(files: list[Path]) -> None:
    index = files[0].with_name(f"{files[0].name}.idx")
    index.write_bytes(b"\xfe\xfe\x0c\x01\x01\0\0\0")
    result, reports = report(files[0], index, *files[1:])
    assert (result.exit_code, [one["name"] for one in reports]) == (0, [str(file) for file in files])
    assert "a GTID index of MariaDB" in refusal(invoke(index)).message


def test_a_relay_log_does_not_show_whether_it_is_in_use(files: list[Path]) -> None:
    content = bytearray(files[0].read_bytes())
    content[21] |= 0x40
    size = 4 + struct.unpack_from("<I", content, 13)[0]
    struct.pack_into("<I", content, size - 4, zlib.crc32(content[4 : size - 4]))
    files[0].write_bytes(content)
    result = invoke(files[0])
    assert result.exit_code == 0
    assert "(mysql 9.7.4, relay log)" in result.stdout
    assert "transactions;" not in result.stdout
    files[0].write_bytes(content[:-EVENT_CUT])
    error = refusal(invoke(files[0], "--crashed"))
    assert "the file ends inside an event" in error.message
    assert "relay_log_recovery" in str(error.hint)


def event(content: bytes, kind: int, body: bytes) -> bytes:
    """An event as servers without checksums write it behind `content`."""
    size = 19 + len(body)
    return struct.pack("<IBIIIH", 1_375_210_956, kind, 101, size, len(content) + size, 0) + body


def file_of_mysql_5_5() -> bytes:
    """What MySQL 5.5 writes for one statement: no checksums, no GTID events."""
    lengths = bytes([56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 84, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0])
    content = b"\xfebin"
    content += event(content, 15, struct.pack("<H50sIB", 4, b"5.5.27-log", 0, 19) + lengths)
    content += event(content, 2, bytes(8) + b"\x04\0\0\0\0shop\0CREATE TABLE t (a INT)")
    return content + event(content, 3, b"")


def test_a_file_of_an_unsupported_version_is_named_as_one_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "binlog.000001"
    file.write_bytes(file_of_mysql_5_5())
    result = invoke(file)
    assert result.exit_code == 0
    assert f"{file}: whole (mysql 5.5.27-log, closed)" in result.stdout
    assert "MySQL 5.5.27-log is not a supported version" in result.stdout
    assert "no checksums" in result.stdout
    _, [one] = report(file)
    assert [limit["kind"] for limit in one["limits"]] == ["version", "checksums"]


def test_a_pre_release_is_left_to_the_mysqlbinlog_of_its_version(tmp_path: Path) -> None:
    file = tmp_path / "binlog.000001"
    file.write_bytes(file_of_mysql_5_5().replace(b"5.5.27-log", b"5.1.17-log"))
    error = refusal(invoke(file))
    assert "pre-release 5.1.17-log" in error.message
    assert "mysqlbinlog of the version that wrote it" in str(error.hint)


def test_a_file_that_was_cut_while_closed_is_not_called_damaged(tmp_path: Path) -> None:
    file = tmp_path / "binlog.000001"
    file.write_bytes(file_of_mysql_5_5()[:-1])
    result, [one] = report(file)
    assert one["verdict"] == "cut"
    error = refusal(result)
    assert "is cut at" in error.message
    assert "mysqlbinlog --raw" in str(error.hint)


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_cannot_be_read_is_a_storage_error(name: str, tmp_path: Path) -> None:
    error = refusal(invoke(tmp_path / name))
    assert type(error) is StorageError
    assert error.exit_code == 5
    assert str(tmp_path / name) in error.message


def test_json_that_cannot_be_written_is_said_before_the_files_are_read(tmp_path: Path) -> None:
    assert isinstance(refusal(invoke(tmp_path / "absent", "--json", tmp_path / "no" / "file")), NotWritable)


def test_unknown_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        _core.CoreError, match=r"no binlogs are written for the server version \"5.7.22\""
    ) as caught:
        _core.write_sample_binlog(str(tmp_path), "5.7.22", "t", 1, 1, True)
    assert caught.value.kind == "usage"
    assert list(tmp_path.iterdir()) == []
