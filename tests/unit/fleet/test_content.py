from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flushlab.errors import StorageError, UsageError
from flushlab.fleet import content
from flushlab.fleet.content import Entry, Manifest, manifest_of

SMALL = 64
"""Bytes of a chunk in these tests."""

FILES = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.binary(max_size=3 * SMALL + 5), min_size=1, max_size=5
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "CHUNK_BYTES", SMALL)


def made(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def received(manifest: Manifest, source: Path, target: Path, wanted: dict[str, None]) -> None:
    places = manifest.places()
    for digest in wanted:
        entry, offset = places[digest][0]
        piece = (source / entry.path).read_bytes()[offset : offset + SMALL]
        assert content.unpack(content.pack(piece)) == piece
        content.write(places[digest], target, piece)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(files=FILES, arrived=st.integers(0, 20))
def test_a_transfer_that_was_interrupted_goes_on_with_the_missing_chunks(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], arrived: int
) -> None:
    root = tmp_path_factory.mktemp("transfer")
    source, target = made(root / "source", files), root / "target"
    target.mkdir()
    manifest = manifest_of("data", "it", source, [source])
    content.prepare(manifest, target)
    lacking = content.missing(manifest, target)
    first = dict.fromkeys([*lacking][:arrived])
    received(manifest, source, target, first)
    content.prepare(manifest, target)  # as after a kill
    rest = content.missing(manifest, target)
    assert {*rest} == {*lacking} - {*first}
    received(manifest, source, target, rest)
    assert not content.missing(manifest, target)
    assert {one.name: one.read_bytes() for one in target.iterdir()} == files


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(min_size=1, max_size=3 * SMALL), at=st.integers(0), turn=st.integers(1, 255))
def test_a_byte_that_differs_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int, turn: int
) -> None:
    source = made(tmp_path_factory.mktemp("transfer") / "source", {"a": data})
    manifest = manifest_of("data", "it", source, [source])
    turned = bytearray(data)
    turned[at % len(data)] ^= turn
    (source / "a").write_bytes(turned)
    (entry,) = content.differing(manifest, source)
    assert entry.path == "a"
    assert [*content.missing(manifest, source)] == [entry.chunks[at % len(data) // SMALL]]


@pytest.mark.parametrize("packed", [b"", b"no frame", content.pack(b"x")[:-1]])
def test_what_is_no_chunk_unpacks_to_nothing(packed: bytes) -> None:
    assert content.unpack(packed) == b""


def test_a_frame_that_is_larger_than_a_chunk_is_not_unpacked() -> None:
    assert content.unpack(content.pack(b"x" * (SMALL + 1))) == b""


def test_a_build_keeps_its_links_modes_and_times(tmp_path: Path) -> None:
    source = made(tmp_path / "source", {"program": b"x" * 100})
    (source / "program").chmod(0o755)
    os.utime(source / "program", ns=(5, 7))
    (source / "lib").mkdir(mode=0o711)
    (source / "lib" / "link").symlink_to("../program")
    manifest = manifest_of("build", "it", source, [source])
    target = tmp_path / "target"
    target.mkdir()
    content.prepare(manifest, target)
    received(manifest, source, target, content.missing(manifest, target))
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
    assert not manifest.places()
    assert not [*content.differing(manifest, there)]
    (there / "load.sh").write_text("MYSQL_PWD=two ./other\n")
    assert [one.path for one in content.differing(manifest, there)] == ["load.sh"]


def test_a_copy_follows_a_password_that_has_changed(tmp_path: Path) -> None:
    here = made(tmp_path / "here", {"load.sh": b"MYSQL_PWD=one ./load\n"})
    there = made(tmp_path / "there", {"load.sh": b"MYSQL_PWD=new ./load\n"})
    copy = made(tmp_path / "copy", {"load.sh": b"MYSQL_PWD=old ./load\n"})
    manifest = manifest_of("files", "it", here, [here], stays=lambda _: "a password")
    content.renew_staying(manifest, there, copy)
    assert (copy / "load.sh").read_bytes() == b"MYSQL_PWD=new ./load\n"


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a/../../b"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    manifest = Manifest(kind="data", name="it", root="/", entries=(Entry(path=path),))
    with pytest.raises(UsageError, match="leads out"):
        manifest.require_inside()


def test_a_name_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    source = made(tmp_path / "source", {})
    Path(os.fsdecode(bytes(source) + b"/\xff")).write_text("x")
    with pytest.raises(StorageError, match="UTF-8"):
        manifest_of("data", "it", source, [source])
