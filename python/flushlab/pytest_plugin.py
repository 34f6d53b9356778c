"""pytest plugin: `pytest --flushlab` gives tests a fast sandbox.

Beside the layers: every pytest run loads the plugin, so it imports nothing of flushlab. It starts the command
`flushlab test` around a child that waits for the end of pytest. Inside `flushlab test`, the plugin uses the
server that runs already. With pytest-xdist, worker i has its own server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

import pytest

HOST = "FLUSHLAB_HOST"
FLUSHLAB = (sys.executable, "-m", "flushlab")
RESET_LIMIT_S = 120.0
_END_LIMIT_S = 60.0

_HOLD = """
import json, os, sys
print(json.dumps(dict(os.environ)), flush=True)
sys.stdin.read()
"""
"""What `flushlab test` runs: tells its environment and waits until pytest closes the pipe, or is gone."""

_hold = pytest.StashKey["Held"]()
_said = pytest.StashKey[str]()
_before = pytest.StashKey[Mapping[str, str]]()


class ResetFailed(Exception):
    """The database could not be reset to the template."""


@dataclass(frozen=True)
class Database:
    """A throwaway database, of one pytest worker.

    Attributes:
        host, port, socket: its server, by TCP and by unix socket.
        user, password: an account with all rights.
        name: of the database.
        url: `mysql://user:password@host:port/database`.
        jdbc_url: the same for the driver of this server.
        reset_url: where `reset` posts; empty on the stock server of `flushlab test --compare`.
    """

    host: str
    port: int
    socket: str
    user: str
    password: str
    name: str
    url: str
    jdbc_url: str
    reset_url: str

    @classmethod
    def of(cls, environment: Mapping[str, str], worker: int | None = None) -> Database:
        """The database that `flushlab test` put into an environment.

        Args:
            environment: with FLUSHLAB_HOST and the others.
            worker: whose, from 1; None for the only one.

        Raises:
            KeyError: it has none for that worker.
        """
        suffix = "" if worker is None else f"_{worker}"
        names = ("host", "port", "socket", "user", "password", "database", "url", "jdbc_url")
        found = {name: environment[f"FLUSHLAB_{name.upper()}{suffix}"] for name in names}
        found["reset_url"] = environment.get(f"FLUSHLAB_RESET_URL{suffix}", "")
        return cls(port=int(found.pop("port")), name=found.pop("database"), **found)

    def __repr__(self) -> str:
        """Never shows the password."""
        return f"Database({self.name!r} at {self.host}:{self.port})"

    def reset(self) -> float:
        """Resets the database to the template; connections stay where that is undone row by row.

        Returns:
            Seconds of the reset.

        Raises:
            ResetFailed: the reset failed.
        """
        import urllib.error  # they load much, and few sessions reset
        import urllib.request

        if not self.reset_url:
            kept = os.environ.get("FLUSHLAB_NAME")
            raise ResetFailed(
                f"nothing resets this server for a suite; run: flushlab server reset {kept}"
                if kept
                else "the stock server of flushlab test --compare cannot be reset"
            )
        request = urllib.request.Request(self.reset_url, method="POST")
        try:
            # No proxy of the environment: it is this machine.
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with direct.open(request, timeout=RESET_LIMIT_S) as answer:
                return float(json.load(answer)["seconds"])
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            with suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["error"]
            raise ResetFailed(text) from error
        except OSError as error:
            raise ResetFailed(f"flushlab does not answer: {error}") from error


class Held:
    def __init__(self, options: Sequence[str]) -> None:
        self._said = ""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [*FLUSHLAB, "test", *options, "--", sys.executable, "-I", "-S", "-c", _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is pytest's: fixtures still need the server
        )

    def environment(self) -> dict[str, str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise pytest.UsageError(f"--flushlab: flushlab test ended with {code}:\n{self.end()}")
        found: dict[str, str] = json.loads(line)
        return found

    def end(self, *, now: bool = False) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        if now:
            self._process.terminate()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its guard ends the servers
            self._process.wait()
        self._process.stdout.close()
        if not self._errors.closed:
            self._errors.seek(0)
            self._said = self._errors.read().decode(errors="replace").strip()
            self._errors.close()
        return self._said


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("flushlab", "sandboxes of MySQL and MariaDB")
    group.addoption(
        "--flushlab",
        action="store_true",
        help="run the tests on a sandbox (MySQL or MariaDB)",
    )
    prepare = "a shell command that fills the database; the result is kept as a template"
    inputs = "files that --flushlab-prepare reads; repeatable"
    clones = "standby servers per worker, for resets that cannot be undone; default: 1 after three of them"
    group.addoption(
        "--flushlab-server", metavar="NAME", default="mariadb", help="mysql@5.7, mariadb@10.11, …"
    )
    group.addoption("--flushlab-database", metavar="NAME", default="app", help="database to create first")
    group.addoption("--flushlab-prepare", metavar="COMMAND", help=prepare)
    group.addoption("--flushlab-inputs", metavar="PATTERN", action="append", default=[], help=inputs)
    group.addoption("--flushlab-clones", metavar="N", type=int, help=clones)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if not config.getoption("flushlab") or HOST in os.environ or config.getoption("collectonly"):
        return
    config.get_terminal_writer().line(f"flushlab: starting {config.getoption('flushlab_server')}")
    held = Held(_options(config))
    try:
        environment = held.environment()
    except BaseException:
        held.end(now=True)
        raise
    config.stash[_hold] = held
    config.stash[_before] = dict(os.environ)
    os.environ.update(environment)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    held = session.config.stash.get(_hold, None)
    if held is not None:
        session.config.stash[_said] = held.end()
        before = session.config.stash[_before]
        os.environ.clear()
        os.environ.update(before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_said, "").splitlines():
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def flushlab_database(pytestconfig: pytest.Config) -> Database:
    """The throwaway database of `pytest --flushlab` or of the `flushlab test` around pytest."""
    if HOST not in os.environ:
        pytest.fail(
            "flushlab_database needs a server\nhint: pytest --flushlab, or flushlab test -- pytest",
            pytrace=False,
        )
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return Database.of(os.environ)
    number = int(worker.removeprefix("gw")) + 1
    try:
        return Database.of(os.environ, number)
    except KeyError:
        servers = os.environ.get("FLUSHLAB_WORKERS", "1")
        pytest.fail(
            f"worker {number} of pytest-xdist has no server of its own: there are {servers}\n"
            "hint: flushlab test --workers N, with N as in pytest -n N",
            pytrace=False,
        )


@pytest.fixture
def flushlab_clean(flushlab_database: Database) -> Iterator[Database]:
    """The worker's database as the template has it, and again behind the test; its connections stay."""
    flushlab_database.reset()
    yield flushlab_database
    flushlab_database.reset()


def _options(config: pytest.Config) -> list[str]:
    words = []
    for name in ("server", "database", "prepare", "inputs", "clones"):
        given = config.getoption(f"flushlab_{name}")
        for value in given if isinstance(given, list) else [given]:
            words += [f"--{name}", str(value)] if value not in (None, "") else []
    workers = getattr(config.option, "numprocesses", None) or 1  # pytest-xdist's, or this process
    return [*words, "--workers", str(workers)]
