from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flushlab.process import short_lived_name, sweep

OF_THE_DEAD = "from flushlab.process import short_lived_name; print(short_lived_name('it'))"


@pytest.fixture
def name_of_the_dead() -> str:
    done = subprocess.run([sys.executable, "-c", OF_THE_DEAD], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_what_the_dead_left_is_swept(tmp_path: Path, name_of_the_dead: str) -> None:
    (tmp_path / name_of_the_dead).write_text("half")
    (tmp_path / name_of_the_dead.replace(".it.", ".folder.")).mkdir()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_the_living_need_is_left(tmp_path: Path) -> None:
    (tmp_path / short_lived_name("it")).touch()
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_what_another_container_made_is_left(tmp_path: Path, name_of_the_dead: str) -> None:
    _, stem, namespace, *rest = name_of_the_dead.split(".")
    (tmp_path / ".".join(["", stem, f"{namespace}0", *rest])).touch()
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", [".short-lived", ".x.short-lived", ".a.b.c.d.short-lived", "file"])
def test_what_is_named_otherwise_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    sweep(tmp_path)
    assert (tmp_path / name).is_file()
