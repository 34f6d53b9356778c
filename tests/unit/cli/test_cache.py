"""`flushlab cache` on snapshots of a home."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from flushlab.cli.app import make_app
from flushlab.datadir import SnapshotKey, Snapshots
from flushlab.fleet.received import make_part
from flushlab.machine import home_part


def run(*words: str) -> None:
    make_app()(["cache", *words], standalone_mode=False)


def fill(data: Path) -> None:
    (data / "ibdata1").write_bytes(b"x" * 10_000)


@pytest.fixture
def snapshots(private_home: Path) -> Snapshots:
    del private_home
    snapshots = Snapshots()
    for build in ("mariadb-10.11.19", "mysql-5.7.22"):
        snapshots.make(
            SnapshotKey({"what": "initialised data directory", "build": build}),
            fill,
        )
    return snapshots


def test_what_is_kept_is_listed_with_its_size(
    snapshots: Snapshots, capsys: pytest.CaptureFixture[str]
) -> None:
    run("list")
    said = capsys.readouterr().out
    assert "initialised data directory · mariadb-10.11.19" in said
    assert "2 kept" in said
    run("list", "--json", "-")
    document = msgspec.json.decode(capsys.readouterr().out)
    assert document["schema"] == "flushlab.cache-list/1"
    assert {entry["kind"] for entry in document["entries"]} == {"snapshot"}
    assert all(entry["bytes"] > 10_000 for entry in document["entries"])
    assert all(entry["in_use"] for entry in document["entries"]), "this process made them"


def test_prune_makes_room_and_tells_what_it_removed(
    snapshots: Snapshots, capsys: pytest.CaptureFixture[str]
) -> None:
    run("prune", "--json", "-")
    assert msgspec.json.decode(capsys.readouterr().out)["removed"] == [], "it is within its limit"
    run("prune", "--size", "0")
    assert capsys.readouterr().out.startswith("removed 2, ")
    assert snapshots.list() == []


def test_content_from_another_machine_is_listed_and_pruned_too(
    private_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = home_part("content") / "data-0123456789abcdef"
    make_part(folder, "shop.sql")
    (folder / "shop.sql").write_bytes(b"x" * 10_000)
    (private_home / "content" / "mine").mkdir()
    run("list", "--json", "-")
    (entry,) = msgspec.json.decode(capsys.readouterr().out)["entries"]
    assert (entry["kind"], entry["id"], entry["what"]) == ("content", "0123456789ab", "data · shop.sql")
    assert entry["bytes"] >= 10_000
    assert not entry["in_use"]
    run("prune", "--size", "0")
    assert capsys.readouterr().out.startswith("removed 1, ")
    assert not folder.exists()
    assert (private_home / "content" / "mine").is_dir(), "flushlab did not make it"


def test_an_empty_cache_is_no_error(private_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del private_home
    run("list")
    run("prune")
    assert "0 kept" in capsys.readouterr().out
