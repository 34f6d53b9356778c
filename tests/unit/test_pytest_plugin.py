"""The pytest plugin, without a server: what it reads from the environment, and what it asks flushlab for."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from flushlab import pytest_plugin
from flushlab.pytest_plugin import Database, ResetFailed
from tests.loading import loaded_by

pytest_plugins = ["pytester"]

TEST = "def test_it(flushlab_database): print('at', flushlab_database.port, flushlab_database.name)\n"


def environment(worker: int | None = None, port: int = 4001, reset: str = "") -> dict[str, str]:
    suffix = "" if worker is None else f"_{worker}"
    facts = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "SOCKET": "/run/s",
        "USER": "flushlab",
        "PASSWORD": "secret",
        "DATABASE": "app",
        "URL": f"mysql://flushlab:secret@127.0.0.1:{port}/app",
        "JDBC_URL": f"jdbc:mysql://127.0.0.1:{port}/app",
        "RESET_URL": reset or "http://127.0.0.1:9/x/reset/1",
    }
    return {f"FLUSHLAB_{name}{suffix}": value for name, value in facts.items()}


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if inside `flushlab test --workers 2`."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # these tests may be run by one
    for name, value in {
        **environment(),
        **environment(1),
        **environment(2, port=4002),
        "FLUSHLAB_WORKERS": "2",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv("FLUSHLAB_HOST", raising=False)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Takes flushlab's place: notes its command line, then acts as told by $STAND_IN."""
    program = tmp_path / "stand_in.py"
    program.write_text(
        "import json, os, subprocess, sys\n"
        "words = sys.argv[1:]\n"
        f"open({str(tmp_path / 'words')!r}, 'w').write(json.dumps(words))\n"
        "if os.environ['STAND_IN'] == 'fails':\n"
        "    sys.exit('error: no such build\\nhint: name another')\n"
        "own = json.loads(os.environ['STAND_IN'])\n"
        "code = subprocess.call(words[words.index('--') + 1:], env={**os.environ, **own})\n"
        f"open({str(tmp_path / 'ended')!r}, 'w').write(str(code))\n"
        "print('flushlab: mariadb in memory', file=sys.stderr)\n"
    )
    monkeypatch.setattr(pytest_plugin, "FLUSHLAB", (sys.executable, str(program)))
    monkeypatch.setenv("STAND_IN", json.dumps({**environment(), **environment(1)}))
    return tmp_path


@pytest.fixture
def resets() -> Iterator[tuple[str, list[str]]]:
    """An address that answers resets, and what was asked of it: all succeed but those of /broken."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(500 if self.path == "/broken" else 200)
            self.end_headers()
            answer = {"error": "the server is gone"} if self.path == "/broken" else {"seconds": 0.05}
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def test_the_stock_server_of_a_comparison_has_a_database_that_cannot_be_reset() -> None:
    stock = {name: value for name, value in environment().items() if name != "FLUSHLAB_RESET_URL"}
    found = Database.of(stock)
    assert found.name == "app"
    with pytest.raises(ResetFailed, match="stock server of flushlab test --compare cannot be reset"):
        found.reset()


def test_a_database_knows_how_to_be_reached_and_keeps_its_password_out_of_logs() -> None:
    found = Database.of(environment())
    assert (found.host, found.port, found.socket, found.user) == ("127.0.0.1", 4001, "/run/s", "flushlab")
    assert (found.password, found.name) == ("secret", "app")
    assert found.url == "mysql://flushlab:secret@127.0.0.1:4001/app"
    assert repr(found) == "Database('app' at 127.0.0.1:4001)"


def test_a_reset_posts_and_tells_its_seconds(resets: tuple[str, list[str]]) -> None:
    url, asked = resets
    assert Database.of(environment(reset=f"{url}/x/reset/1")).reset() == 0.05
    assert asked == ["/x/reset/1"]


def test_a_reset_that_fails_says_why(resets: tuple[str, list[str]]) -> None:
    with pytest.raises(ResetFailed, match="the server is gone"):
        Database.of(environment(reset=f"{resets[0]}/broken")).reset()


def test_a_reset_without_flushlab_says_so() -> None:
    with pytest.raises(ResetFailed, match="flushlab does not answer"):
        Database.of(environment(reset="http://127.0.0.1:1/x/reset/1")).reset()


def test_inside_flushlab_test_its_server_is_taken(pytester: pytest.Pytester, inside: None) -> None:
    pytester.makepyfile(TEST)
    done = pytester.runpytest_inprocess("-s", "--flushlab", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*at 4001 app*"])


def test_a_test_on_a_clean_database_has_it_reset_before_and_after(
    pytester: pytest.Pytester,
    inside: None,
    monkeypatch: pytest.MonkeyPatch,
    resets: tuple[str, list[str]],
) -> None:
    url, asked = resets
    monkeypatch.setenv("FLUSHLAB_RESET_URL", f"{url}/x/reset/1")
    pytester.makepyfile(
        "import urllib.request\n"
        "def test_it(flushlab_clean, flushlab_database):\n"
        "    assert flushlab_clean is flushlab_database\n"
        f"    urllib.request.urlopen('{url}/test', b'')\n"
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    assert asked == ["/x/reset/1", "/test", "/x/reset/1"]


@pytest.mark.parametrize(("worker", "port"), [("gw0", 4001), ("gw1", 4002)])
def test_each_worker_of_xdist_has_its_own(
    pytester: pytest.Pytester, inside: None, monkeypatch: pytest.MonkeyPatch, worker: str, port: int
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    pytester.makepyfile(TEST)
    done = pytester.runpytest_inprocess("-s", "-p", "no:cacheprovider")
    done.stdout.fnmatch_lines([f"*at {port} app*"])


def test_a_worker_without_a_server_says_how_many_there_are(
    pytester: pytest.Pytester, inside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw2")
    pytester.makepyfile(TEST)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*worker 3 of pytest-xdist has no server of its own: there are 2*"])


def test_without_a_server_the_fixture_says_how_to_get_one(pytester: pytest.Pytester, outside: None) -> None:
    pytester.makepyfile(TEST)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*hint: pytest --flushlab, or flushlab test -- pytest*"])


def test_the_option_starts_flushlab_test_and_ends_it_with_the_session(
    pytester: pytest.Pytester, outside: None, stand_in: Path
) -> None:
    pytester.makepyfile(TEST)
    done = pytester.runpytest_inprocess(
        "-s",
        "--flushlab",
        "--flushlab-server=mysql@5.7",
        "--flushlab-prepare=./migrate.sh",
        "--flushlab-inputs=a/*",
        "--flushlab-inputs=b/*",
        "--flushlab-clones=4",
        "-p",
        "no:cacheprovider",
    )
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*at 4001 app*", "flushlab: mariadb in memory"])
    words = json.loads((stand_in / "words").read_text())
    asked = "test --server mysql@5.7 --database app --prepare ./migrate.sh --inputs a/* --inputs b/*"
    assert words[: words.index("--")] == [*asked.split(), "--clones", "4", "--workers", "1"]
    assert (stand_in / "ended").read_text() == "0", "its command saw pytest's end and ended by itself"


def test_pytests_own_environment_is_as_before_afterwards(
    pytester: pytest.Pytester, outside: None, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(TEST)
    pytester.runpytest_inprocess("--flushlab", "-p", "no:cacheprovider").assert_outcomes(passed=1)
    assert pytest_plugin.HOST not in os.environ


def test_what_flushlab_complains_about_ends_the_session(
    pytester: pytest.Pytester, outside: None, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "fails")
    pytester.makepyfile(TEST)
    done = pytester.runpytest_inprocess("--flushlab", "-p", "no:cacheprovider")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*flushlab test ended with 1*", "*no such build*", "*hint: name another*"])


def test_collecting_starts_nothing(pytester: pytest.Pytester, outside: None, stand_in: Path) -> None:
    pytester.makepyfile(TEST)
    pytester.runpytest_inprocess("--flushlab", "--collect-only", "-p", "no:cacheprovider")
    assert not (stand_in / "words").exists()


def test_a_run_without_the_option_loads_nothing_of_flushlab() -> None:
    loaded, _ = loaded_by("import flushlab.pytest_plugin")
    own = {one for one in loaded if one.startswith("flushlab.")}
    assert own == {"flushlab.version", "flushlab.pytest_plugin"}
