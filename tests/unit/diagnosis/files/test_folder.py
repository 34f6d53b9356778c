"""Reading of files: what is one, what is none, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.diagnosis.files import folder
from flushlab.diagnosis.files.folder import read
from flushlab.errors import StorageError, UsageError
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import MYSQL80_INNODB, SCRAPE, VARIABLES, box, tabs


def write(where: Path, **texts: str) -> Path:
    where.mkdir(exist_ok=True)
    for name, text in texts.items():
        (where / name.replace("__", "-")).write_text(text)
    return where


def names(path: Path) -> list[str]:
    return [one.name for one in read(path).files]


def test_files_are_known_by_what_is_in_them(tmp_path: Path) -> None:
    write(tmp_path, a=box(outputs.status()), b=tabs(VARIABLES), c=MYSQL80_INNODB, d=SCRAPE, notes="hello\n")
    assert [(one.name, [*one.told]) for one in read(tmp_path).files] == [
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
    found = read(tmp_path)
    assert [one.name for one in found.files] == ["2026_01_02_00_00_00-mysqladmin"]
    assert (found.sample, found.samples) == ("2026_01_02_00_00_00", 2)
    assert names(tmp_path / "2026_01_01_00_00_00") == ["2026_01_01_00_00_00-mysqladmin"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marks_of_encodings_are_known(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a").write_bytes(box(outputs.status()).encode(encoding))
    assert len(read(tmp_path).files[0].told["SHOW GLOBAL STATUS"].statuses) == 1


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
    assert refusal(tmp_path, UsageError).endswith("is one that doctor knows: a, b")
    write(tmp_path, c="MemTotal:       4000000 kB\n")  # of a machine, and of no server
    assert refusal(tmp_path, UsageError).endswith("is one that doctor knows: a, b, c")
    assert refusal(tmp_path / "a", UsageError).endswith("a is no output that doctor knows")


def test_a_single_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    for name, content, says in (
        ("packed", b"\x1f\x8b\x08\0", "is compressed"),
        ("binary", b"\x7fELF\0\0", "is no text but binary"),
        ("torn", b"\xff\xfea", "begins as UTF-16 and is not"),
    ):
        (tmp_path / name).write_bytes(content)
        assert says in refusal(tmp_path / name, StorageError)


def test_a_status_that_was_cut_is_refused_where_there_is_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, a=box(outputs.status()).partition("| Threads_connected")[0])
    assert refusal(tmp_path, StorageError) == "a is cut short: it ends before Uptime"
    write(tmp_path, b=tabs(VARIABLES))
    assert names(tmp_path) == ["a", "b"]


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
