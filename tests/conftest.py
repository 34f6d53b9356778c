"""Fixtures: real servers, with their logs shown on failure and absent builds reported."""

from __future__ import annotations

import importlib.machinery
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.assertion import rewrite
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, settings
from hypothesis.internal.constants_ast import constants_from_module

import flushlab
from flushlab.build import Build, find_build
from flushlab.build.galera import Galera, galera_for
from flushlab.errors import FlushlabError
from flushlab.machine import home, home_part
from flushlab.record import Value
from flushlab.server import Sandbox, SandboxSpec
from flushlab.undo import undo_all
from tests.left import kill_left

REQUIRED = {name for name in os.environ.get("FLUSHLAB_REQUIRE_BUILDS", "").split(",") if name}

os.environ.setdefault("FLUSHLAB_QUIET_CHECK", "off")
"""Tests run beside each other, and their campaigns need not begin with three seconds of looking around."""

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""numpy's threads wait in loops, and here each test has a processor at most."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's `make test &`; tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

SECONDS = "flushlab/seconds"
"""Name in pytest's cache: seconds that each test file took when it last ran. `scripts/quick.py` reads it."""

_usual_home = os.environ.get("FLUSHLAB_HOME")
_builds: dict[str, Build | FlushlabError] = {}
_galeras: dict[str, Galera | FlushlabError] = {}
_told_absent: set[str] = set()
_seconds = defaultdict[str, float](float)
_running = pytest.StashKey[list[Sandbox]]()

StartSandbox = Callable[..., Sandbox]


@contextmanager
def usual_home() -> Iterator[None]:
    """The home that the tests were called with, whatever the test at hand has made its own."""
    with pytest.MonkeyPatch.context() as environment:
        if _usual_home is None:
            environment.delenv("FLUSHLAB_HOME", raising=False)
        else:
            environment.setenv("FLUSHLAB_HOME", _usual_home)
        yield


def require_build(name: str) -> Build:
    """The build, obtained if need be; absent, it skips the test, or fails it if it is required.

    It is remembered for later tests, so it must not lie in the private home of the first.
    """
    if name not in _builds:
        try:
            with usual_home():
                _builds[name] = find_build(name)
        except FlushlabError as error:
            _builds[name] = error
    found = _builds[name]
    if isinstance(found, Build):
        return found
    reason = f"the build {name} is absent: {found.message}"
    if name in REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_galera(name: str = "mariadb@10.11") -> tuple[Build, Galera]:
    """A build and what makes nodes of a cluster of it, obtained if need be; skips or fails as above."""
    build = require_build(name)
    if "galera" not in _galeras:
        try:
            with usual_home():
                _galeras["galera"] = galera_for(build)
        except FlushlabError as error:
            _galeras["galera"] = error
    found = _galeras["galera"]
    if isinstance(found, Galera):
        return build, found
    reason = f"Galera for {name} is absent: {found.message}"
    if "galera" in REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def flavors(*servers: str | tuple[object, ...], first: int = 1) -> list[ParameterSet]:
    """Parameters for a test that proves the same for several servers: `parametrize("name", flavors(…))`.

    The `first` of them always run, the others only with FLUSHLAB_EVERY_FLAVOR=1, as in `make soak`. The
    code under test decides how many are first: one, or one of each kind if it differs between them.
    """
    return [
        pytest.param(
            *(server if isinstance(server, tuple) else (server,)),
            marks=() if place < first else pytest.mark.every_flavor,
        )
        for place, server in enumerate(servers)
    ]


@pytest.fixture(scope="session")
def build() -> Callable[[str], Build]:
    """A build by its name: `build("mysql@5.7")`."""
    return require_build


def _sandboxes(request: pytest.FixtureRequest) -> Iterator[StartSandbox]:
    started: list[Sandbox] = request.node.stash.setdefault(_running, [])

    def start(
        build: str = "mariadb@10.11", /, *, settings: Mapping[str, Value] | None = None, **more: Any
    ) -> Sandbox:
        server = Sandbox.start(SandboxSpec(require_build(build), settings=settings or {}, **more))
        started.append(server)
        return server

    yield start
    try:
        undo_all(
            step
            for server in started
            for step in ((server.remove, server.close) if server.kept else (server.close,))
        )
    finally:
        started.clear()


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Iterator[StartSandbox]:
    """Starts sandboxes: `sandbox("mariadb@10.11", settings={…})`; all are ended with the test."""
    yield from _sandboxes(request)


@pytest.fixture(scope="module")
def shared_sandbox(request: pytest.FixtureRequest) -> Iterator[StartSandbox]:
    """The same for sandboxes that the tests of a module share; all are ended with the module."""
    yield from _sandboxes(request)


@pytest.fixture(scope="session", autouse=True)
def fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Plots look for their fonts once, not in every home that a test makes, nor in one that is gone."""
    os.environ["MPLCONFIGDIR"] = str(tmp_path_factory.mktemp("matplotlib"))


def _private_home(environment: pytest.MonkeyPatch) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="flh-", dir="/tmp")).resolve()
    home.chmod(0o755)
    environment.setenv("FLUSHLAB_HOME", str(home))
    yield home
    kill_left(home)
    subprocess.run(["/bin/chmod", "-R", "u+w", str(home)], check=True)  # snapshots are sealed
    shutil.rmtree(home)


@pytest.fixture
def private_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home for flushlab that the servers' user can reach, with a short path; builds are shared."""
    yield from _private_home(monkeypatch)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A temporary folder that every user may enter; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="flushlab-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


@pytest.fixture
def strict_umask() -> Iterator[None]:
    """What this process makes is closed to other users, the servers' among them."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def _bring_builds(home_folder: Path) -> Path:
    with usual_home():
        usual = home_part("builds")  # on a new machine they are still being fetched
    home()  # marks it as flushlab's while it is empty
    (home_folder / "builds").symlink_to(usual)
    return home_folder


@pytest.fixture
def private_home_with_builds(private_home: Path) -> Path:
    """The same, with the builds of the usual home in it."""
    return _bring_builds(private_home)


def _bring_snapshots(home_folder: Path) -> Path:
    with usual_home():
        usual = home_part("snapshots")  # on a new machine there are none yet
    (home_folder / "snapshots").symlink_to(usual)
    return home_folder


@pytest.fixture
def furnished_home(private_home_with_builds: Path) -> Path:
    """The same, with the snapshots of the usual home: for tests of what comes after data were made."""
    return _bring_snapshots(private_home_with_builds)


@pytest.fixture(scope="module")
def shared_furnished_home() -> Iterator[Path]:
    """The same for the tests of a module, which share what is in it."""
    with pytest.MonkeyPatch.context() as environment:
        for folder in _private_home(environment):
            yield _bring_snapshots(_bring_builds(folder))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker of xdist compiles its share first, because all of them import all the tests."""
    worker = getattr(session.config, "workerinput", None)
    folders = [folder for word in session.config.args if (folder := Path(word)).is_dir()]
    if worker is None or not folders or sys.dont_write_bytecode:
        return
    share = slice(int(worker["workerid"].removeprefix("gw")), None, worker["workercount"])
    for file in _by_size(Path(flushlab.__file__).parent.rglob("*.py"))[share]:
        module = ModuleType(file.stem)
        module.__file__ = str(file)
        importlib.machinery.SourceFileLoader(file.stem, str(file)).get_code(file.stem)
        constants_from_module(module)  # what hypothesis keeps of it
    for file in _by_size(file for folder in folders for file in folder.rglob("test_*.py"))[share]:
        _compile_test(file, session.config)


def _by_size(files: Iterable[Path]) -> list[Path]:
    return sorted(files, key=lambda file: (file.stat().st_size, file))


def _compile_test(file: Path, config: pytest.Config) -> None:
    """Keeps the test's module with explained assertions where pytest looks for it."""
    kept = rewrite.get_cache_dir(file) / (file.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(file, kept) is None and rewrite.try_makedirs(kept.parent):
        status, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, status, kept)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests with fixtures of their module's or folder's scope share servers: they run on one worker.

    Those that are marked `long` come first, then groups, so that none of them is alone at the end. Those
    that only `make soak` runs are left out: no run without it counts them as skipped.
    """
    if left_out := [item for item in items if _left_to_soak(item)]:
        items[:] = [item for item in items if not _left_to_soak(item)]
        config.hook.pytest_deselected(items=left_out)
    if hasattr(config, "workerinput"):
        _interleave(items)
    for item in items:
        if isinstance(item, pytest.Function) and (group := _sharers(item)):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """When a test is started: early or late."""
    if item.get_closest_marker("long"):
        return 0
    return 2 - (item.get_closest_marker("xdist_group") is not None)


def _left_to_soak(item: pytest.Item) -> bool:
    """Whether the variable that asks for the test is not set: `every_flavor`, `soak(VARIABLE)`."""
    if item.get_closest_marker("every_flavor") and os.environ.get("FLUSHLAB_EVERY_FLAVOR", "0") != "1":
        return True
    return any(not os.environ.get(*mark.args) for mark in item.iter_markers("soak"))


def _interleave(items: list[pytest.Item]) -> None:
    """Spreads the tests with real servers, which wait half of their time, evenly among the others.

    The last tests are short ones, so that the workers end together.
    """
    place: dict[pytest.Item, float] = {}
    for waits, end in ((True, 0.9), (False, 1.0)):
        alike = [item for item in items if waits is bool({"contract", "integration"} & {*item.path.parts})]
        place.update((item, end * number / len(alike)) for number, item in enumerate(alike))
    items.sort(key=place.__getitem__)


def _sharers(test: pytest.Function) -> str:
    """The folder or module whose tests share fixtures with this one; empty if there is none, or if the test
    is in a group already."""
    if test.get_closest_marker("xdist_group"):
        return ""
    used = test._fixtureinfo.name2fixturedefs.values()
    scopes = {definition.scope for definitions in used for definition in definitions}
    module = test.nodeid.partition("::")[0]
    return module.rpartition("/")[0] if "package" in scopes else module if "module" in scopes else ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.server(NAME)`: the test needs that build."""
    for mark in item.iter_markers("server"):
        require_build(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the servers' logs with a failure."""
    report = yield
    if report.when == "call" and report.failed:
        module = item.getparent(pytest.Module)
        shared = module.stash.get(_running, []) if module is not None else []
        for server in [*item.stash.get(_running, []), *shared]:
            report.sections.append((f"log of {server.name} ({server.build.name})", server.log_tail(60)))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up how long each file's tests take, for the choice of `make quick`."""
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist reports the absent builds to the controller, which keeps the files' seconds."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["absent"] = _absent()
    elif (cache := getattr(session.config, "cache", None)) is not None:
        known = cache.get(SECONDS, {})
        cache.set(SECONDS, known | {file: round(_seconds[file], 3) for file in _seconds})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes what a worker tells."""
    _told_absent.update(getattr(node, "workeroutput", {}).get("absent", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts skipped tests per reason and lists absent builds, so that a green run never hides them."""
    for line in _skips(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line)
    absent = _told_absent.union(_absent())
    if absent:
        terminalreporter.write_line(f"absent builds, whose tests did not run: {', '.join(sorted(absent))}")


def _skips(reports: Iterable[pytest.TestReport]) -> list[str]:
    """How many tests each reason kept from running, most first."""
    counts = Counter(_reason(report) for report in reports)
    total = f"{sum(counts.values())} tests skipped:"
    return [total, *(f"{count:5}  {reason}" for reason, count in counts.most_common())] if counts else []


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return " ".join(text.removeprefix("Skipped: ").split())


def _absent() -> list[str]:
    absent = [name for name, found in _builds.items() if not isinstance(found, Build)]
    return absent + [name for name, found in _galeras.items() if not isinstance(found, Galera)]
