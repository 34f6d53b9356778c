"""Files with their hashes, and the same files on another machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flushlab.errors import StorageError, UsageError
from flushlab.fleet import content
from flushlab.fleet.content import ContentManifest, FileEntry, manifest_of


def made(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def copied(manifest: ContentManifest, source: Path, target: Path) -> None:
    """What is missing arrives."""
    target.mkdir()
    content.prepare(manifest, target)
    for entry in content.missing(manifest, target):
        (target / entry.path).write_bytes((source / entry.path).read_bytes())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(min_size=1, max_size=200), at=st.integers(0), turn=st.integers(1, 255))
def test_a_byte_that_differs_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int, turn: int
) -> None:
    source = made(tmp_path_factory.mktemp("transfer") / "source", {"a": data, "b": b"whole"})
    manifest = manifest_of("data", "it", source, [source])
    assert not content.missing(manifest, source)
    turned = bytearray(data)
    turned[at % len(data)] ^= turn
    (source / "a").write_bytes(turned)
    assert [entry.path for entry in content.missing(manifest, source)] == ["a"]


def test_a_build_keeps_its_links_modes_and_times(tmp_path: Path) -> None:
    source = made(tmp_path / "source", {"program": b"x" * 100})
    (source / "program").chmod(0o755)
    os.utime(source / "program", ns=(5, 7))
    (source / "lib").mkdir(mode=0o711)
    (source / "lib" / "link").symlink_to("../program")
    manifest, target = manifest_of("build", "it", source, [source]), tmp_path / "target"
    copied(manifest, source, target)
    content.seal(manifest, target)
    status = (target / "program").stat()
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o755, 7)
    assert (target / "lib" / "link").readlink() == Path("../program")


def test_the_digest_changes_with_names_modes_and_content_but_not_with_times(tmp_path: Path) -> None:
    source = made(tmp_path / "source", {"a": b"1"})

    def digest() -> str:
        return manifest_of("data", "it", source, [source]).digest

    found = [digest()]
    (source / "a").write_bytes(b"2")
    found.append(digest())
    (source / "a").chmod(0o600)
    found.append(digest())
    (source / "a").rename(source / "b")
    found.append(digest())
    assert len(set(found)) == 4
    os.utime(source / "b", ns=(5, 7))
    assert digest() == found[-1]


def test_a_file_that_stays_is_compared_without_its_passwords(tmp_path: Path) -> None:
    here = made(tmp_path / "here", {"load.sh": b"MYSQL_PWD=one ./load\n"})
    there = made(tmp_path / "there", {"load.sh": b"MYSQL_PWD=two ./load\n"})
    manifest = manifest_of("files", "it", here, [here], stays=lambda _: "a password")
    (entry,) = manifest.files
    assert not content.missing(manifest, tmp_path / "nowhere"), "it is never sent"
    assert content.is_alike(entry, there / "load.sh")
    (there / "load.sh").write_text("MYSQL_PWD=two ./other\n")
    assert not content.is_alike(entry, there / "load.sh")


def test_a_copy_follows_a_password_that_has_changed(tmp_path: Path) -> None:
    here = made(tmp_path / "here", {"load.sh": b"MYSQL_PWD=one ./load\n"})
    there = made(tmp_path / "there", {"load.sh": b"MYSQL_PWD=new ./load\n"})
    copy = made(tmp_path / "copy", {"load.sh": b"MYSQL_PWD=old ./load\n"})
    manifest = manifest_of("files", "it", here, [here], stays=lambda _: "a password")
    content.copy_staying(manifest, there, copy)
    assert (copy / "load.sh").read_bytes() == b"MYSQL_PWD=new ./load\n"


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a/../../b"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    manifest = ContentManifest(kind="data", name="it", root="/", entries=(FileEntry(path=path),))
    with pytest.raises(UsageError, match="leads out"):
        manifest.require_inside()


def test_a_name_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    source = made(tmp_path / "source", {})
    Path(os.fsdecode(bytes(source) + b"/\xff")).write_text("x")
    with pytest.raises(StorageError, match="UTF-8"):
        manifest_of("data", "it", source, [source])
