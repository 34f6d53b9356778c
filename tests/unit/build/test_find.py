from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from flushlab.build import Build, FoundBuild, Obtainable, find
from flushlab.build.find import find_build, list_builds, parse_name
from flushlab.errors import BuildNotFound, FlushlabError, LibraryMissing, UsageError
from flushlab.progress import Progress
from flushlab.record.machine import Flavor
from tests.unit.builds import build


def build_of(
    name: str, *, mark: str = "0" * 12, source: str = "path", launcher: tuple[str, ...] = ()
) -> Build:
    flavor, _, version = name.partition("@")
    return Build(
        flavor="mariadb" if flavor == "mariadb" else "mysql",
        version=tuple(int(part) for part in version.split(".")),
        version_text=version,
        source=source,
        prefix=f"/opt/{name}",
        mysqld=f"/opt/{name}/bin/mysqld",
        launcher=launcher,
        id=f"{flavor}-{version}-{mark}",
    )


class ScriptedSource:
    """A source with the builds that a test gives it."""

    name = "scripted"

    def __init__(
        self,
        here: Iterable[Build] = (),
        more: Iterable[str] = (),
        problems: Iterable[FlushlabError] = (),
        release: str = "",
    ) -> None:
        self._release = release
        self._here = tuple(here)
        self._more = [build_of(name, source=self.name) for name in more]
        self._problems = tuple(problems)
        self.fetched: list[str] = []

    def installed(self) -> FoundBuild:
        return FoundBuild(builds=self._here, problems=self._problems)

    def obtainable(self) -> Iterable[Obtainable]:
        return [
            Obtainable(
                flavor=one.flavor,
                version=one.version,
                source=self.name,
                what="a package",
                release=self._release,
            )
            for one in self._more
        ]

    def get(self, wanted: Obtainable, progress: Progress) -> Build:
        progress(f"fetching {wanted.name}")
        self.fetched.append(wanted.name)
        return next(one for one in self._more if one.version == wanted.version)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedSource]:
    scripted: list[ScriptedSource] = []
    monkeypatch.setattr(find, "SOURCES", scripted)
    return scripted


@pytest.mark.parametrize(
    ("name", "flavor", "version"),
    [
        ("mariadb", "mariadb", ()),
        ("mariadb@10.11", "mariadb", (10, 11)),
        ("MySQL@5.7", "mysql", (5, 7)),
        ("mysql@8.0.15", "mysql", (8, 0, 15)),
        ("mysql-5.7.22-11418b78308a", "", ()),
    ],
)
def test_names_are_taken_apart(name: str, flavor: str, version: tuple[int, ...]) -> None:
    wanted = parse_name(name)
    assert (wanted.flavor, wanted.version) == (flavor, version)


def test_version_numbers_are_numbers_and_no_text(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource([build_of("mariadb@10.6.21"), build_of("mariadb@10.11.19")]))
    assert find_build("mariadb").version == (10, 11, 19)
    with pytest.raises(BuildNotFound):
        find_build("mariadb@10.1")


def test_newest_of_a_series_is_taken(sources: list[ScriptedSource]) -> None:
    sources.append(
        ScriptedSource([build_of("mysql@8.0.15"), build_of("mysql@8.0.40"), build_of("mysql@5.7.22")])
    )
    assert find_build("mysql@8.0").version == (8, 0, 40)


def test_installed_build_is_not_fetched_again(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource([build_of("mariadb@10.11.18")], more=["mariadb@10.11.19"]))
    assert find_build("mariadb").version == (10, 11, 18)
    assert sources[0].fetched == []


def test_absent_build_is_fetched_and_said(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource(more=["mysql@5.7.22", "mysql@8.0.15"]))
    said: list[str] = []
    assert find_build("mysql@5.7", progress=said.append).version == (5, 7, 22)
    fetching, chosen = said
    assert fetching == "fetching mysql@5.7.22"
    assert chosen.startswith("mysql@5.7 is 5.7.22; later releases changed: ")


def test_a_name_in_full_needs_no_word_about_later_releases(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource([build_of("mysql@8.0.15")]))
    said: list[str] = []
    find_build("mysql@8.0.15", progress=said.append)
    assert said == []


def test_a_running_sandbox_is_no_build(sources: list[ScriptedSource]) -> None:
    with pytest.raises(UsageError, match="sandbox:mine is a running server"):
        find_build("sandbox:mine")


def test_what_is_installed_is_not_listed_as_to_be_fetched(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource([build_of("mysql@5.7.22")], more=["mysql@5.7.22", "mysql@8.0.15"]))
    with pytest.raises(
        BuildNotFound, match=r"installed: mysql@5.7.22 \(.*\); can be fetched: mysql@8.0.15 \(\w+\)$"
    ):
        find_build("mysql@5.6")


def test_absent_build_is_not_fetched_if_that_is_not_wanted(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource(more=["mysql@5.7.22", "mysql@8.0.15"]))
    with pytest.raises(
        BuildNotFound, match=r"'mysql', which stands for mysql@8\.0, is not installed yet"
    ) as caught:
        find_build("mysql", get=False)
    assert caught.value.hint == "run: flushlab server get mysql@8.0.15"


def test_absence_lists_what_there_is(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource([build_of("mariadb@10.11.19")], more=["mysql@5.7.22"]))
    with pytest.raises(BuildNotFound) as caught:
        find_build("mysql@5.6")
    assert caught.value.message == (
        "the build 'mysql@5.6' is not available;"
        " installed: mariadb@10.11.19 (path); can be fetched: mysql@5.7.22 (scripted)"
    )


def test_ambiguous_fetch_lists_what_there_is(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource(more=["mysql@8.0.15", "mysql@8.0.40"]))
    with pytest.raises(BuildNotFound, match="could mean several builds") as caught:
        find_build("mysql")
    assert caught.value.hint == "give the version, for example mysql@8.0.15"
    assert sources[0].fetched == []


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("mariadb", "10.11.19"),
        ("mariadb@10", "10.11.19"),
        ("mariadb@11", "11.8.6"),
        ("mysql", "8.0.15"),
        ("mysql@8", "8.0.15"),
        ("mysql@5", "5.7.22"),
        ("mysql@9", "9.7.4"),
    ],
)
@pytest.mark.parametrize("here", [[], ["mariadb@11.8.6"], ["mysql@5.7.22", "mysql@9.7.4"], ["mysql@8.4.9"]])
def test_a_name_without_a_series_stands_for_one_series_whatever_is_here(
    name: str, version: str, here: list[str], sources: list[ScriptedSource]
) -> None:
    every = ["mariadb@10.11.19", "mariadb@11.8.6", "mysql@5.7.22", "mysql@8.0.15", "mysql@9.7.4"]
    sources.append(ScriptedSource(map(build_of, here), more=[one for one in every if one not in here]))
    assert find_build(name).version_text == version


def test_a_series_that_cannot_be_had_is_an_error_and_not_another_series(
    sources: list[ScriptedSource],
) -> None:
    sources.append(ScriptedSource([build_of("mariadb@10.6.21")]))
    with pytest.raises(
        BuildNotFound, match=r"stands for mariadb@10\.11, is not available; installed: mariadb@10\.6"
    ):
        find_build("mariadb")


def test_two_binaries_of_one_version_are_ambiguous_until_named_by_id(sources: list[ScriptedSource]) -> None:
    one, other = build_of("mysql@8.0.15", mark="a" * 12), build_of("mysql@8.0.15", mark="b" * 12)
    sources.append(ScriptedSource([one, other]))
    with pytest.raises(BuildNotFound, match="2 different binaries of the same version"):
        find_build("mysql")
    assert find_build(other.id) == other


def test_same_binary_from_two_sources_is_one_build(sources: list[ScriptedSource]) -> None:
    sources.extend(
        [
            ScriptedSource([build_of("mysql@8.0.15")]),
            ScriptedSource([build_of("mysql@8.0.15", source="b")]),
        ]
    )
    assert [one.source for one in list_builds()] == ["path"]


def test_broken_build_is_the_error_when_there_is_no_other(sources: list[ScriptedSource]) -> None:
    problem = LibraryMissing("mysqld needs libaio.so.1")
    sources.append(ScriptedSource(problems=[problem]))
    with pytest.raises(LibraryMissing):
        find_build("mysql")


def test_broken_build_does_not_hide_the_others(sources: list[ScriptedSource]) -> None:
    sources.append(ScriptedSource(problems=[LibraryMissing("mysqld needs libaio.so.1")]))
    sources.append(ScriptedSource([build_of("mariadb@10.11.19")]))
    assert [one.name for one in list_builds()] == ["mariadb@10.11.19"]


def test_named_basedir_must_hold_what_is_asked_for(
    sources: list[ScriptedSource], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(find, "build_in", lambda folder: build_of("mysql@5.7.22"))
    assert find_build(basedir=tmp_path).name == "mysql@5.7.22"
    with pytest.raises(BuildNotFound, match=r"contains mysql@5\.7\.22, not mysql@8\.0"):
        find_build("mysql@8.0", basedir=tmp_path)


@pytest.mark.parametrize(
    ("asked", "has", "line"),
    [
        (
            (8, 0),
            (8, 0, 15),
            "mysql@8.0 is 8.0.15; later releases changed: doublewrite in files of its own (8.0.20), redo"
            " sized by innodb_redo_log_capacity (8.0.30), new InnoDB defaults (8.4)",
        ),
        ((8, 0), (8, 0, 36), "mysql@8.0 is 8.0.36; later releases changed: new InnoDB defaults (8.4)"),
        ((8, 0, 15), (8, 0, 15), ""),
        ((9,), (9, 7, 4), ""),
    ],
)
def test_a_line_tells_the_release_and_what_changed_later(
    asked: tuple[int, ...], has: tuple[int, ...], line: str
) -> None:
    assert find.chosen(asked, build("mysql", *has)) == line


def test_the_old_release_of_5_7_is_told() -> None:
    line = find.chosen((5, 7), build("mysql", 5, 7, 22))
    assert line.startswith(
        "mysql@5.7 is 5.7.22; later releases changed: O_DIRECT_NO_FSYNC syncs file metadata"
    )


def test_mariadb_has_no_such_line() -> None:
    assert find.chosen((), build("mariadb", 10, 11, 19)) == ""


def test_every_change_has_a_source() -> None:
    assert all(one.source.startswith("https://") for one in find.CHANGES)


def test_releases_that_no_source_has_are_missing() -> None:
    known: list[tuple[Flavor, tuple[int, ...]]] = [
        ("mysql", (8, 0, 15)),
        ("mysql", (9, 7, 4)),
        ("mariadb", (11, 8)),
    ]
    assert [one.name for one in find.missing_releases(known)] == [
        "mariadb@11.4",
        "mysql@8.0.30+",
        "mysql@8.4",
    ]
    assert [
        one.name for one in find.missing_releases([*known, ("mysql", (8, 0, 36)), ("mysql", (8, 4, 6))])
    ] == ["mariadb@11.4"]
