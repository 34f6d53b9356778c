"""Installs a wheel into empty environments and runs flushlab there: part of `make release` and `make soak`.

    python3 scripts/install_check.py WHEEL [--python PYTHON …] [--tools FOLDER] [--quick]

Each environment has its own folders, and a PATH without Rust, compilers, make and git. In each, pip installs
from ready wheels alone. Then `flushlab --help`, `settings --check`, `test` with the pytest plugin, and
the main job, `tune`, run on servers that flushlab fetches. With --tools, a folder that has uv and pipx,
`uv tool install`, `uvx` and `pipx install` are tried as well. --quick runs no server. Needs the standard
library alone, so a bare container can run this file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

NAMES = ("python3.11", "python3.12", "python3.13", "python3.14", "python3.15")
ABSENT = re.compile(
    r"(.*-)?(cc|c\+\+|gcc|g\+\+|cpp|clang|clang\+\+|tcc|ld|lld|gold|as|make|gmake|cmake|ninja|git|rustc|cargo|rustup|zig)"
    r"(-?[\d.]+)?$|git-.*|cargo-.*|ld\..*"
)
MY_CNF = "[mysqld]\ninnodb_flush_log_at_trx_commit=2\n"
SUITE = """
def test_the_server_answers(flushlab_database):
    import pymysql

    of = flushlab_database
    with pymysql.connect(host=of.host, port=of.port, user=of.user, password=of.password) as server:
        with server.cursor() as cursor:
            cursor.execute("SELECT 6 * 7")
            assert cursor.fetchone() == (42,)
"""


class Failed(Exception):
    """A step that went wrong; the text has its output."""


def main() -> None:
    """Every interpreter, then the installers."""
    parser = argparse.ArgumentParser(description="Install a wheel into empty environments and run flushlab.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", action="append", help="default: all from python3.11 on that PATH has")
    parser.add_argument("--tools", type=Path, help="folder that has uv and pipx")
    parser.add_argument("--quick", action="store_true", help="run no server")
    given = parser.parse_args()
    wheel: Path = given.wheel.resolve()
    pythons = given.python or list(found())
    if not pythons:
        sys.exit("error: no Python of version 3.11 or newer\nhint: install one, or name it by --python")
    for python in pythons:
        with tempfile.TemporaryDirectory(prefix="flushlab-install-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)  # servers run as another user than root
            try:
                check(wheel, python, Path(folder), given.tools, quick=given.quick)
            except Failed as failed:
                sys.exit(f"error: {python}: {failed}")


def found() -> Iterator[str]:
    """Interpreters on PATH that start."""
    for name in NAMES:
        path = shutil.which(name)
        if (
            path
            and not subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode
        ):
            yield path


def check(wheel: Path, python: str, folder: Path, tools: Path | None, *, quick: bool) -> None:
    """One interpreter."""
    bare = bare_programs(folder / "bin")
    run([python, "-m", "venv", str(folder / "env")], folder, dict(os.environ))
    variables = {
        "PATH": f"{folder / 'env' / 'bin'}:{bare}",
        "HOME": str(folder / "home"),
        "FLUSHLAB_HOME": str(folder / "flushlab"),
        "LANG": "C.UTF-8",
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "UV_"))},
    }
    (folder / "home").mkdir()
    install = ["pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    run([*install, str(wheel), "pytest"], folder, variables)
    run(["pip", "check"], folder, variables)
    version = run(["python", "--version"], folder, variables).strip()
    said = run(["flushlab", "--version"], folder, variables).strip()
    assert "Usage: flushlab" in run(["flushlab", "--help"], folder, variables)
    (folder / "my.cnf").write_text(MY_CNF)
    words = ["flushlab", "settings", "--check", "my.cnf", "--server", "mysql@8.0", "--json", "-"]
    judged = json.loads(run(words, folder, variables))
    assert judged["settings"]["innodb_flush_log_at_trx_commit"] == 2, judged
    done = ["--help", "settings --check"]
    if not quick:
        done += servers(folder, variables)
    if tools is not None:
        done += installers(wheel, python, folder, tools.resolve(), variables)
    sys.stdout.write(f"{version}, {said}: {', '.join(done)}\n")
    sys.stdout.flush()


def servers(folder: Path, variables: Mapping[str, str]) -> list[str]:
    """What needs a server: test with the plugin, and the main job."""
    (folder / "test_server.py").write_text(SUITE)
    assert "1 passed" in run(["flushlab", "test", "--", "pytest", "-q", "test_server.py"], folder, variables)
    assert "1 passed" in run(["pytest", "-q", "--flushlab", "test_server.py"], folder, variables)
    tune = "flushlab tune --server mariadb --workload oltp_update_non_index --minutes 5 --out out"
    run(tune.split(), folder, variables)
    assert "<svg" in (folder / "out" / "report.html").read_text(), "the page has plots"
    return ["test", "pytest --flushlab", "tune"]


def installers(
    wheel: Path, python: str, folder: Path, tools: Path, variables: Mapping[str, str]
) -> list[str]:
    """uv and pipx, with all of their folders here."""
    for name in ("uv", "uvx", "pipx"):
        (folder / "bin" / name).symlink_to(tools / name)
    there = {
        **variables,
        "PATH": f"{folder / 'bin'}",
        **{
            name: str(folder / name)
            for name in ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "PIPX_HOME", "PIPX_BIN_DIR")
        },
        "UV_CACHE_DIR": str(folder / "uv-cache"),
    }
    run(["uv", "tool", "install", "-q", "--no-build", "--python", python, str(wheel)], folder, there)
    assert run([str(folder / "UV_TOOL_BIN_DIR" / "flushlab"), "--version"], folder, there)
    assert run(
        ["uvx", "-q", "--python", python, "--from", str(wheel), "flushlab", "--version"], folder, there
    )
    run(["pipx", "install", "-q", "--python", python, str(wheel)], folder, there)
    assert run([str(folder / "PIPX_BIN_DIR" / "flushlab"), "--version"], folder, there)
    return ["uv tool install", "uvx", "pipx install"]


def bare_programs(into: Path) -> str:
    """A folder with links to the system's programs, but none to tools that build."""
    into.mkdir()
    for place in ("/usr/local/sbin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for program in sorted(Path(place).glob("*")):
            if not ABSENT.fullmatch(program.name) and not (into / program.name).is_symlink():
                (into / program.name).symlink_to(program)
    for name in ("cc", "gcc", "make", "git", "rustc", "cargo"):
        assert shutil.which(name, path=str(into)) is None, name
    return str(into)


def run(words: list[str], folder: Path, variables: Mapping[str, str]) -> str:
    """The output of a command; the program comes from PATH of the variables."""
    program = shutil.which(words[0], path=variables["PATH"])
    if program is None:
        raise Failed(f"no program {words[0]}")
    done = subprocess.run(
        [program, *words[1:]], cwd=folder, env=dict(variables), capture_output=True, text=True, timeout=1800
    )
    if done.returncode:
        raise Failed(f"{' '.join(words)} ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
