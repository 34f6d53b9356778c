from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.server.sandbox.option_files import SandboxPaths


@pytest.mark.usefixtures("private_home")
def test_random_names_differ() -> None:
    root = DataRoot.open()
    assert SandboxPaths.choose(None, root).name != SandboxPaths.choose(None, root).name


@pytest.mark.usefixtures("private_home")
@pytest.mark.parametrize("name", ["", "..", "a/b", "Big", "x" * 41, "-x", "a b"])
def test_names_that_are_no_plain_file_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid sandbox name"):
        SandboxPaths.choose(name, DataRoot.open())


def test_path_too_long_for_a_socket_is_refused(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUSHLAB_HOME", str(private_home / ("x" * 90)))
    with pytest.raises(UsageError, match=r"has \d+ bytes; the system allows 107") as caught:
        SandboxPaths.choose("it", DataRoot.open())
    assert caught.value.hint == "set FLUSHLAB_HOME to a directory with a shorter path"
