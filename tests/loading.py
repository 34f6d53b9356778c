"""Which modules a program loads, in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys

COMMAND = """
from flushlab.cli.main import main
sys.argv = ["flushlab", *{words!r}]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""


def loaded_by(code: str, **environment: str) -> tuple[set[str], str]:
    """Modules that are loaded when the code has run, and what it printed."""
    program = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split()), done.stdout


def loaded_by_command(*words: str, before: str = "", **environment: str) -> tuple[set[str], str]:
    """The same of `flushlab WORDS`, which must succeed, after some other code."""
    return loaded_by(before + COMMAND.format(words=words), **environment)
