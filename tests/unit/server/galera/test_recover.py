"""How a node's recovery ends, and what that says of its data."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from flushlab.errors import NoSpace, StartFailed
from flushlab.record import Endpoint
from flushlab.server.galera import bootstrap as recovering
from flushlab.server.sandbox.node import State
from tests.unit.builds import MARIADB
from tests.unit.server.sandbox.test_grastate import GROUP, RECOVERED
from tests.unit.server.sandbox.test_log import MARIADB_SPACE


def node(folder: Path) -> Any:
    (folder / "ibdata1").touch()
    return SimpleNamespace(
        name="trio-2",
        build=MARIADB,
        datadir=folder,
        folder=folder,
        folders=(folder,),
        log=folder / "server.err",
        endpoint=Endpoint(user="root", password=""),
        settings={},
        membership=SimpleNamespace(environment=lambda _: {}),
    )


def ends(monkeypatch: pytest.MonkeyPatch, code: int | None, said: str = "") -> None:
    """Recovery ends with this exit code, or not at all, after it has written this."""

    class Guard:
        def __init__(self, name: str) -> None:
            self.name = name

        def spawn(self, _: object, *, log: Path, **__: object) -> Any:
            log.write_text(said)
            return SimpleNamespace(wait=lambda _: code)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(recovering, "Guard", Guard)


def test_the_position_of_a_killed_node_is_what_its_recovery_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends(monkeypatch, 0, RECOVERED)
    assert recovering.recover(node(tmp_path)) == State(GROUP, 105, recovered=True)


def test_a_recovery_that_the_kernel_kills_or_that_has_no_space_says_nothing_of_the_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends(monkeypatch, -9)
    with pytest.raises(NoSpace, match="was killed by SIGKILL while it recovered trio-2"):
        recovering.recover(node(tmp_path))
    ends(monkeypatch, 1, MARIADB_SPACE)
    with pytest.raises(NoSpace, match=r"could not recover trio-2 \(exit code 1\)"):
        recovering.recover(node(tmp_path))


def test_a_recovery_that_fails_and_one_that_takes_too_long_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends(monkeypatch, 1, "[ERROR] InnoDB: page 7 is torn\n")
    with pytest.raises(StartFailed, match="page 7 is torn") as failed:
        recovering.recover(node(tmp_path))
    assert not failed.value.unfinished
    assert f"empty {tmp_path} and start the cluster again" in (failed.value.hint or "")
    ends(monkeypatch, None)
    with pytest.raises(StartFailed, match="had not recovered trio-2 after 900 s") as slow:
        recovering.recover(node(tmp_path))
    assert slow.value.unfinished
