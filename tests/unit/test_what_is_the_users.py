"""Whatever lies under a path that a flag or a variable names comes out byte for byte as it was.

Random trees, full of names that flushlab uses itself, under every such path; each use of the path ends in its
own way, by Ctrl-C in the middle, or by SIGKILL at a random one of the calls that change a file system.
`FLUSHLAB_TREES` sets the number of trees per path; `make soak` tries many.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flushlab.cli.out_folder import OutFolder
from flushlab.cli.output import require_writable, write_file
from flushlab.datadir import DataRoot, SnapshotKey, Snapshots
from flushlab.dataset import Directory, open_dataset
from flushlab.errors import FlushlabError
from flushlab.machine import home
from flushlab.probe.disk import existing, probe_folder
from flushlab.process import Guard, all_records, reap, run_folder
from flushlab.server.sandbox.base_file import content, examine
from flushlab.store import existing_store, open_store
from flushlab.suite.templates import Facts, Recipe, Templates, check_cache
from tests.trees import Tree, plant, tree, trees
from tests.unit import records
from tests.unit.builds import MARIADB
from tests.waiting import wait_until

EXAMPLES = int(os.environ.get("FLUSHLAB_TREES", "6"))
CALLS = ("mkdir", "rename", "replace", "unlink", "rmdir", "link", "chmod", "write", "open")

Use = Callable[[Path], object]
"""What flushlab does with a path."""


def as_data_root(place: Path) -> None:
    root = DataRoot.open(place)
    for name in ("mysql", "k"):
        with suppress(FlushlabError), Guard(name, [run_folder() / name, root.path / name]):
            (root.path / name / "data").mkdir()
            (root.path / name / "data/ibdata1").write_bytes(b"x")


def as_out(place: Path) -> None:
    for names in (("tune.json", "report.html", "my.cnf", "settings.sql"), ("series.json", "report.html")):
        with suppress(FlushlabError):
            folder = OutFolder(place, names)
            for name in names:
                folder.write(name, b"result")


def as_cache(place: Path) -> None:
    templates = Templates(check_cache(place), limit_bytes=1)
    data = place.parent / "data"
    for database in ("a", "b"):
        recipe = Recipe(build=MARIADB, settings={}, database=database)
        templates.find(recipe)
        templates.capture(recipe, data, Facts)


def as_probe_folder(place: Path) -> None:
    with probe_folder(existing(place)) as folder:
        (folder / "redo").write_bytes(b"x")


def as_home(place: Path) -> None:
    os.environ["FLUSHLAB_HOME"] = str(place)
    reap()
    snapshots = Snapshots(limit_bytes=0)
    for build in ("a", "b"):
        snapshots.make(SnapshotKey({"build": build}), lambda data: (data / "x").touch())
    snapshots.evict(0)
    as_data_root(home() / "run")
    use_store()


def as_home_of_an_earlier_release(place: Path) -> None:
    as_home(place)


def as_xdg(place: Path) -> None:
    """As an ordinary user's cache and state directories."""
    os.environ.pop("FLUSHLAB_HOME")
    os.environ["XDG_CACHE_HOME"] = os.environ["XDG_STATE_HOME"] = str(place)
    user = type("Os", (), {**vars(os), "geteuid": staticmethod(lambda: 1000)})
    setattr(importlib.import_module("flushlab.machine.home"), "os", user)  # noqa: B010 (a child of our own)
    with suppress(FlushlabError):
        home()
    use_store()


def use_store() -> None:
    with suppress(FlushlabError), existing_store():
        pass
    with open_store() as store:
        store.create_campaign("tune-1", "tune", b"{}")


def as_json(place: Path) -> None:
    for name in ("k.json/result.json", "mysql", "run", "flushlab"):
        target = place / name
        if not target.is_file() or target.is_symlink():  # a file that the user names is replaced
            with suppress(FlushlabError):
                require_writable(str(target))
                write_file(target, b"result", new=not os.path.lexists(target))


def as_dataset(place: Path) -> None:
    with suppress(FlushlabError):
        data = open_dataset(place)
        if isinstance(data, Directory):
            Snapshots().make(SnapshotKey(data.key), data.copy)


def as_base(place: Path) -> None:
    for file in (place, *place.glob("*")):
        with suppress(FlushlabError):
            examine(file, content(file), records.MARIADB, None)


USES: tuple[Use, ...] = (
    *(as_data_root, as_out, as_cache, as_probe_folder, as_home, as_home_of_an_earlier_release, as_xdg),
    *(as_json, as_dataset, as_base),
)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(what=trees(), ending=st.sampled_from(("own", "Ctrl-C", "SIGKILL")), moment=st.integers(1, 60))
def test_what_was_there_comes_out_as_it_was(use: Use, what: Tree, ending: str, moment: int) -> None:
    world = Path(tempfile.mkdtemp(prefix="flw-", dir="/tmp")).resolve()
    try:
        world.chmod(0o755)
        plant(world / "place", what)
        if use is as_home_of_an_earlier_release:
            plant(world / "place/builds-of-it/one", {"manifest.json": b"{}"})
        plant(world / "outside", {"file": b"precious", "k": {"file": b"precious"}})
        plant(world / "data", {"ibdata1": b"x" * 5000})
        places = ("place", "outside", "data")
        before = {name: tree(world / name) for name in places}
        in_child(use, world, ending, moment)
        in_child(lambda place: wait_until(swept, "everything left is gone"), world, "own", 0)
        after = {name: tree(world / name) for name in places}
        assert {name: {path: after[name].get(path) for path in before[name]} for name in places} == before
        if use in (as_data_root, as_probe_folder):
            assert after == before, "and nothing is left"
        in_child(use, world, "own", 0)  # what a kill has left is in nobody's way
        again = {name: tree(world / name) for name in places}
        assert {name: {path: again[name].get(path) for path in before[name]} for name in places} == before
    finally:
        os.system(f"chmod -R u+rwx {world}")
        shutil.rmtree(world)


def swept() -> bool:
    reap()
    return not all_records()


def in_child(use: Use, world: Path, ending: str, moment: int) -> None:
    """Runs it in a process of its own, with its own home, until its end or the moment."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ["FLUSHLAB_HOME"] = str(world / "home")
            if ending != "own":
                end_at(moment, ending)
            with suppress(FlushlabError, KeyboardInterrupt):
                use(world / "place")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, 9), "it ended otherwise than asked"


def end_at(moment: int, ending: str) -> None:
    """Lets the process end at its so-many-th call that may change a file system."""
    calls = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == moment:
                end(ending)
            return function(*args, **named)

        return call

    for name in CALLS:
        setattr(os, name, deadly(getattr(os, name)))


def end(ending: str) -> NoReturn:
    if ending == "SIGKILL":
        os._exit(9)
    raise KeyboardInterrupt
