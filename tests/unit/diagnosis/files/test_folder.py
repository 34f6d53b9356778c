"""Reading of files: what is one, what is none, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flushlab.diagnosis.files import folder
from flushlab.diagnosis.files.folder import read, tell
from flushlab.errors import StorageError, UsageError
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import MYSQL80_INNODB, SCRAPE, VARIABLES, box, tabs


def write(where: Path, **texts: str) -> Path:
    where.mkdir(exist_ok=True)
    for name, text in texts.items():
        (where / name.replace("__", "-")).write_text(text)
    return where


def names(path: Path) -> list[str]:
    return [*read(path).files]


def test_files_are_known_by_what_is_in_them(tmp_path: Path) -> None:
    write(tmp_path, a=box(outputs.status()), b=tabs(VARIABLES), c=MYSQL80_INNODB, d=SCRAPE, notes="hello\n")
    assert [(name, [*sources]) for name, sources in read(tmp_path).files.items()] == [
        ("a", ["SHOW GLOBAL STATUS"]),
        ("b", ["SHOW GLOBAL VARIABLES"]),
        ("c", ["SHOW ENGINE INNODB STATUS"]),
        ("d", ["mysqld_exporter"]),
    ]


def test_a_single_file_is_enough(tmp_path: Path) -> None:
    write(tmp_path, a=box(outputs.status()))
    assert names(tmp_path / "a") == ["a"]


@pytest.mark.parametrize(
    "given",
    [
        ["mysql-status", "mysql-status-defer"],
        ["status-2.txt", "status-10.txt"],
        ["before.txt", "after.txt"],
        ["start", "end"],
        ["status-first", "status-last"],
    ],
)
def test_names_tell_the_order(tmp_path: Path, given: list[str]) -> None:
    for name in reversed(given):
        (tmp_path / name).write_text(box(outputs.status()))
    assert names(tmp_path) == given


def test_of_several_samples_of_pt_stalk_the_last_is_taken_or_the_one_that_is_named(tmp_path: Path) -> None:
    for at in ("2026_01_01_00_00_00", "2026_01_02_00_00_00"):
        (tmp_path / f"{at}-mysqladmin").write_text(box(outputs.status()))
        (tmp_path / f"{at}-tcpdump").write_bytes(b"\xd4\xc3\xb2\xa1\0\0")
    assert names(tmp_path) == ["2026_01_02_00_00_00-mysqladmin"]
    assert names(tmp_path / "2026_01_01_00_00_00") == ["2026_01_01_00_00_00-mysqladmin"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marks_of_encodings_are_known(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a").write_bytes(box(outputs.status()).encode(encoding))
    assert len(read(tmp_path).files["a"]["SHOW GLOBAL STATUS"].statuses) == 1


def test_bytes_of_statements_are_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(box(outputs.status()).encode() + b"\xff\xfa\xfb\n")
    assert names(tmp_path) == ["a"]


def refusal(path: Path, kind: type[UsageError] | type[StorageError]) -> str:
    with pytest.raises(kind) as caught:
        read(path)
    assert caught.value.hint
    return caught.value.message


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "x", StorageError).endswith("x cannot be read: No such file or directory")
    assert refusal(tmp_path / "x" / "y", StorageError).endswith("y cannot be read: No such file or directory")
    assert refusal(Path("/dev/null"), StorageError).endswith("it is neither a file nor a folder")
    assert refusal(tmp_path, UsageError).endswith("has no files")


def test_what_is_not_known_is_refused_with_its_names(tmp_path: Path) -> None:
    write(tmp_path, a="hello\n", b="{}")
    assert refusal(tmp_path, UsageError).endswith("tells of a server: a: not known; b: not known")
    write(tmp_path, c="MemTotal:       4000000 kB\n")  # of a machine, and of no server
    assert refusal(tmp_path, UsageError).endswith("a: not known; b: not known; c: /proc/meminfo")
    assert refusal(tmp_path / "a", UsageError).endswith("a tells nothing of a server: not known")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[mysqld]\nsync_binlog=1\n", "looks like an option file: flushlab settings --check FILE judges it"),
        ("# Time: 2026\n# Query_time: 3.1  Lock_time: 0\nSELECT 1;\n", "looks like a slow query log"),
        ("2026-01-01T00:00:00Z 0 [Warning] [MY-010055] [Server] IP\n", "looks like an error log"),
        ("mysql  Ver 8.0.40 for Linux on x86_64\n", "looks like the version of a client, not of the server"),
        (
            "ERROR 1227 (42000) at line 1: Access denied; you need PROCESS\n",
            "looks like an error of the client",
        ),
        ("", "empty"),
    ],
)
def test_what_is_no_output_of_a_server_is_named_as_what_it_is(text: str, says: str, tmp_path: Path) -> None:
    write(tmp_path, a=text)
    assert refusal(tmp_path / "a", UsageError).endswith(f"tells nothing of a server: {says}")


@pytest.mark.parametrize("mark", ["> ", "    "])
@pytest.mark.parametrize("form", [box, tabs])
def test_what_is_quoted_or_indented_is_read(mark: str, form: Callable[[dict[str, str]], str]) -> None:
    quoted = "".join(f"{mark}{line}\n" for line in form(outputs.status()).splitlines())
    (status,) = tell(quoted)["SHOW GLOBAL STATUS"].statuses
    assert status["uptime"] == "1000"


def test_files_that_tell_nothing_are_kept_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, a=box(outputs.status()), b="hello\n")
    (tmp_path / "c").write_bytes(b"\x1f\x8b\x08\0")
    (tmp_path / "2026_01_01_00_00_00-top").write_text("top - 00:00:00 up 1 day\n")
    assert read(tmp_path).left_out == (
        "b: not known",
        "c: is compressed",
        "2026_01_01_00_00_00-top: no finding takes it",
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("8.0.40\n", "8.0.40"),
        ("10.11.6-MariaDB-0+deb12u1-log", "10.11.6-MariaDB-0+deb12u1-log"),
        ("VERSION()\n8.0.32-24\n", "8.0.32-24"),
        ("+-----------+\n| @@version |\n+-----------+\n| 9.7.0     |\n+-----------+\n", "9.7.0"),
        ("/usr/sbin/mysqld  Ver 8.0.40 for Linux on x86_64 (MySQL Community Server - GPL)\n", "8.0.40"),
        ("Connection id: 8\nServer version:\t\t5.7.44-log MySQL Community Server (GPL)\n", "5.7.44-log"),
        ("mysql  Ver 8.0.40 for Linux on x86_64 (MySQL Community Server - GPL)\n", ""),
        ("the server is 8.0.40, I think\n", ""),
    ],
)
def test_a_file_with_the_version_alone_tells_it(text: str, version: str) -> None:
    told = tell(text)
    assert (told["version"].version if told else "") == version


def test_a_single_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    for name, content, says in (
        ("packed", b"\x1f\x8b\x08\0", "is compressed"),
        ("binary", b"\x7fELF\0\0", "is no text but binary"),
        ("torn", b"\xff\xfea", "begins as UTF-16 and is not"),
    ):
        (tmp_path / name).write_bytes(content)
        assert says in refusal(tmp_path / name, StorageError)


def test_a_status_that_was_cut_is_judged_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, a=box(outputs.status()).partition("| Threads_connected")[0])
    assert names(tmp_path) == ["a"]


def test_a_large_file_is_refused_and_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.write(b" " * folder.HEAD_BYTES)
        file.truncate(folder.MOST_BYTES + 1)
    assert "more than 64 MiB" in refusal(tmp_path, StorageError)


def test_a_folder_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_FILES", 2)
    write(tmp_path, a="", b="", c="")
    assert "3 files, more than 2" in refusal(tmp_path, UsageError)


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a=box(outputs.status()))

    def denied(*_given: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert refusal(tmp_path, StorageError).endswith("a cannot be read: Permission denied")
