"""`flushlab server list|get` with builds that tests make up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from flushlab.build import Build, FoundBuild, Obtainable, find
from flushlab.cli import consoles, server
from flushlab.cli.main import main
from flushlab.progress import Progress

LONG = "/home/somebody/.cache/flushlab/builds/debian-sid-mysql-9.7.4-2-c73891678258/usr/sbin/mysqld"


class Shelf:
    """A source with one build here and two to fetch."""

    name = "debian"

    def installed(self) -> FoundBuild:
        return FoundBuild(
            builds=(
                Build(
                    flavor="mysql",
                    version=(9, 7, 4),
                    version_text="9.7.4-2",
                    source=self.name,
                    prefix=str(Path(LONG).parents[2]),
                    mysqld=LONG,
                    id="mysql-9.7.4-cffc252cb8b8",
                ),
            )
        )

    def obtainable(self) -> Iterable[Obtainable]:
        what = "package mariadb-server-core"
        return (
            Obtainable(flavor="mariadb", version=(10, 11, 19), source=self.name, what=what),
            Obtainable(flavor="mysql", version=(9, 7), source=self.name, what="here already"),
            Obtainable(
                flavor="mariadb",
                version=(11, 8),
                source=self.name,
                what=f"{what} of Debian trixie",
                release="trixie",
            ),
        )

    def get(self, wanted: Obtainable, progress: Progress) -> Build:
        raise AssertionError("nothing is fetched here")


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch, private_home: Path) -> None:
    monkeypatch.setattr(find, "SOURCES", [Shelf()])


def run(monkeypatch: pytest.MonkeyPatch, *words: str, columns: int = 80) -> int:
    for console in (consoles.stdout, consoles.console):
        monkeypatch.setattr(console, "_width", columns)
    monkeypatch.setattr("sys.argv", ["flushlab", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("shelf")
def test_list_fits_80_columns_and_says_what_is_here_and_what_is_to_get(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "server", "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split(maxsplit=2) for line in lines] == [
        ["build", "state", "where"],
        ["mysql@9.7.4", "installed", "/home/somebody/.cache/flu…891678258/usr/sbin/mysqld"],
        ["mariadb@10.11.19", "available", "package mariadb-server-core"],
        ["mariadb@11.8", "available", "package mariadb-server-core of Debian trixie"],
        ["mariadb@11.4", "missing", "give a tarball (path or URL), or --basedir"],
        ["mysql@8.0.30+", "missing", "give a tarball (path or URL), or --basedir"],
        ["mysql@8.4", "missing", "give a tarball (path or URL), or --basedir"],
    ]


@pytest.mark.usefixtures("shelf")
def test_list_shows_whole_paths_where_there_is_room_and_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "server", "list", columns=200)
    assert LONG in capsys.readouterr().out
    run(monkeypatch, "server", "list", "--json", "-")
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "flushlab.server-list/1"
    assert document["builds"][0]["mysqld"] == LONG
    assert [one["name"] for one in document["obtainable"]] == ["mariadb@10.11.19", "mariadb@11.8"]
    assert [one["name"] for one in document["missing"]] == ["mariadb@11.4", "mysql@8.0.30+", "mysql@8.4"]


@pytest.mark.usefixtures("shelf")
def test_unknown_version_lists_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "server", "get", "mysql@5.6", columns=400) == 2
    said = capsys.readouterr()
    assert "the build 'mysql@5.6' is not available; installed: mysql@9.7.4 (debian)" in said.err
    assert "can be fetched: mariadb@10.11.19 (debian)" in said.err
    assert said.out == ""


@pytest.mark.usefixtures("shelf")
def test_list_names_what_flushlab_has_unpacked_by_its_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("flushlab.machine.home", lambda: Path(LONG).parents[4])
    assert run(monkeypatch, "server", "list") == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[-1] == "debian-sid-mysql-9.7.4-2-c73891678258"
    assert f"are in {Path(LONG).parents[3]}" in said.err


def test_what_is_cut_keeps_both_ends() -> None:
    assert server._cut("abcdefghij", 10) == "abcdefghij"
    assert server._cut("abcdefghij", 5) == "ab…ij"
