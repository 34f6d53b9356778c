"""`--fleet` and `flushlab fleet` where Ray is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.fleet import connect
from tests.unit.cli.inside import flushlab

TWO = ("sync_binlog=0", "sync_binlog=1")


@pytest.mark.parametrize(
    "words",
    [
        ("fleet", "start"),
        ("fleet", "join", "127.0.0.1", "--key", "-"),
        ("fleet", "status"),
        ("compare", *TWO, "--fleet", "127.0.0.1"),
        ("compare", *TWO, "--fleet", "127.0.0.1", "--dry-run"),
        ("compare", *TWO, "--fleet", "127.0.0.1", "--client", "load1"),
        ("series", "insert-on-duplicate", "--fleet", "127.0.0.1"),
        ("tune", "--minutes", "10", "--fleet", "127.0.0.1"),
        ("bench", "--fleet", "127.0.0.1", "--client", "load1"),
    ],
    ids=" ".join,
)
def test_without_ray_the_extra_is_named_and_nothing_is_begun(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, private_home: Path
) -> None:
    monkeypatch.setattr(connect, "find_spec", lambda name: None)
    done = flushlab(*words, home=private_home)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.splitlines() == [
        "error: a fleet needs Ray, which is not installed",
        "hint: install it: pip install 'flushlab[fleet]'",
    ]
    assert not (private_home / "fleet" / "key").exists()
    assert not (private_home / "run").exists()
