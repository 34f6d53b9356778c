import os
from pathlib import Path

import pytest

from flushlab.errors import NotWritable
from flushlab.machine import home, home_part, home_path, ownership, state_path
from flushlab.machine.home import ROOT_HOME, ROOT_STATE
from tests.trees import tree

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root only: servers run as another user only then")


def test_home_is_created_where_the_environment_says(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(reachable / "a/b"))
    assert home() == reachable / "a/b"
    assert home().is_dir()


@pytest.mark.usefixtures("strict_umask")
def test_home_and_what_is_above_and_in_it_are_open_to_enter_whatever_the_umask(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(reachable / "above" / "home"))
    part = home_part("builds")
    assert {one.stat().st_mode & 0o777 for one in (part, part.parent, part.parent.parent)} == {0o755}


def test_part_of_a_home_that_an_umask_has_closed_is_opened(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(reachable / "home"))
    home_part("builds").chmod(0o700)
    assert home_part("builds").stat().st_mode & 0o777 == 0o755


def test_home_that_is_a_file_is_refused_with_a_way_out(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (reachable / "file").write_text("")
    monkeypatch.setenv("FLUSHLAB_HOME", str(reachable / "file"))
    with pytest.raises(NotWritable, match="is not a directory") as raised:
        home()
    assert raised.value.hint is not None
    assert "FLUSHLAB_HOME" in raised.value.hint


def test_relative_cache_directory_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSHLAB_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert home_path() == Path("/home/ann/.cache/flushlab")


def test_cache_directory_of_the_platform_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSHLAB_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast/cache")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert home_path() == Path("/fast/cache/flushlab")


def test_root_gets_a_home_outside_its_closed_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSHLAB_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert home_path() == ROOT_HOME


@as_root
def test_home_below_a_closed_folder_names_that_folder(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (reachable / "closed").mkdir(mode=0o700)
    monkeypatch.setenv("FLUSHLAB_HOME", str(reachable / "closed/home"))
    with pytest.raises(NotWritable, match=f"it may not enter {reachable / 'closed'}"):
        home()
    assert not (reachable / "closed/home").exists()


@pytest.fixture
def chosen(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (reachable / "home").mkdir()
    monkeypatch.setenv("FLUSHLAB_HOME", str(reachable / "home"))
    return reachable / "home"


@pytest.mark.parametrize("there", ["file", "builds", "run", ".flushlab-x", "store.sqlite", "manifest.json"])
def test_folder_with_files_of_somebody_elses_is_no_home_and_stays_as_it_is(chosen: Path, there: str) -> None:
    (chosen / there).mkdir()
    (chosen / there / "mine").write_text("precious")
    before = tree(chosen)
    with pytest.raises(NotWritable, match="holds files that flushlab did not make") as raised:
        home()
    assert raised.value.hint == "set FLUSHLAB_HOME to a folder that is empty or does not exist yet"
    assert tree(chosen) == before


def test_home_that_is_ours_may_get_other_files_later(chosen: Path) -> None:
    home()
    (chosen / "notes").write_text("mine")
    assert home() == chosen


def test_a_home_that_another_flushlab_marks_and_fills_meanwhile_is_ours(
    chosen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, seen = os.path.lexists, list[object]()

    def lexists(path: Path) -> bool:
        seen.append(path)
        if seen == [chosen / ownership.MARK]:  # it is not there yet when this one looks for it
            home()
            home_part("builds")
            return False
        return really(path)

    monkeypatch.setattr(os.path, "lexists", lexists)
    assert home() == chosen
    assert len(seen) > 2


def test_empty_file_system_is_a_home(chosen: Path) -> None:
    (chosen / "lost+found").mkdir()
    assert home() == chosen


def test_results_lie_in_the_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSHLAB_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert state_path() == Path("/home/ann/.local/state/flushlab")
    monkeypatch.setenv("XDG_STATE_HOME", "/fast/state")
    assert state_path() == Path("/fast/state/flushlab")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert state_path() == Path("/home/ann/.local/state/flushlab")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_path() == ROOT_STATE
    monkeypatch.setenv("FLUSHLAB_HOME", "/one/for/all")
    assert state_path() == home_path() == Path("/one/for/all")
