"""flushlab's commands, each in a process of its own that has not to import it all again.

A process that has imported a command forks for each run of it: the run has a pid, an environment, a folder,
standard files, an end and an exit code of its own, as `python -m flushlab` has. Where the start of the
program itself matters (signals while it starts, libraries that are loaded first), tests start that.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


def flushlab(
    *words: str, code: int | None = 0, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `flushlab WORDS` to its end, which must have that exit code and no traceback; None: any."""
    with tempfile.TemporaryDirectory(prefix="flh-said-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        asked = {
            "words": words,
            "cwd": str(cwd or Path.cwd()),
            "env": {**os.environ} if env is None else {**env},
            "umask": _umask(),
            "out": str(out),
            "err": str(err),
        }
        began = _forking()
        assert began.stdin is not None and began.stdout is not None
        began.stdin.write(json.dumps(asked) + "\n")
        began.stdin.flush()
        ended = json.loads(began.stdout.readline())
        done = subprocess.CompletedProcess(["flushlab", *words], ended, out.read_text(), err.read_text())
    assert code is None or (done.returncode == code and "Traceback" not in done.stderr), done.stderr
    return done


def _umask() -> int:
    os.umask(mask := os.umask(0o077))
    return mask


@cache
def _forking() -> subprocess.Popen[str]:
    """One for all tests of this process; it ends with its standard input."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip


@cache
def _imported(command: str) -> None:
    """Imports a command, and what its functions import."""
    module = importlib.import_module(f"flushlab.cli.{command}")
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("flushlab."):
            importlib.import_module(node.module)


def _serve() -> dict[str, Any]:
    """Forks for each request; in the forked process, returns it."""
    from flushlab.cli.app import COMMANDS
    from flushlab.settings.catalog import load_catalog

    load_catalog()
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        for command in {*asked["words"][:1]} & COMMANDS.keys():
            _imported(command)
        gc.freeze()
        if (child := os.fork()) == 0:
            return asked
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps(status), flush=True)  # noqa: T201 (its whole purpose)
    os._exit(0)


def _become(asked: dict[str, Any]) -> None:
    """Takes what is its own in a process that was forked."""
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    os.umask(0o022)
    for number, path, how in (
        (0, os.devnull, os.O_RDONLY),
        (1, asked["out"], os.O_WRONLY | os.O_CREAT),
        (2, asked["err"], os.O_WRONLY | os.O_CREAT),
    ):
        file = os.open(path, how)
        os.dup2(file, number)
        os.close(file)
    os.umask(asked["umask"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (the old one has read requests)
    sys.argv[:] = ["flushlab", *asked["words"]]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as `python -m flushlab` begins


if __name__ == "__main__":
    _become(_serve())
    from flushlab.cli.main import main

    main()
