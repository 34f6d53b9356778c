"""Verbose help: a build's report on options, by `--verbose --help`. Starts no server, opens no data.

Build layer. The options that are asked about are given as arguments behind `--no-defaults`, so that no
option file of this machine has a say.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from flushlab.build.build import Build
from flushlab.errors import ServerError
from flushlab.machine.confinement import confine

_LIMIT_S = 60
_OF_A_PLUGIN = re.compile(r"Parsing options for plugin '\w+' failed")
"""Not fatal to `--help`; at a start the option is then unknown."""


class Answer(NamedTuple):
    """What the binary prints on standard output and on standard error, and whether it refuses an argument."""

    text: str
    complaints: str
    refuses: bool


def verbose_help(build: Build, arguments: Sequence[str] = ()) -> Answer:
    """The binary's report on its options, and on these arguments.

    The arguments come last: one that lacks its value takes none of flushlab's for it. It has an empty data
    directory, in which MySQL 9.7 tries out whether names of files differ by case.

    An answer takes a tenth of a second of a processor. A command asks the same about a file again and again.

    Raises:
        ServerError: it cannot be executed, or does not answer.
    """
    return _answer(build, tuple(arguments))


@lru_cache(maxsize=64)  # of 200 KB each
def _answer(build: Build, arguments: tuple[str, ...]) -> Answer:
    share = [f"--lc-messages-dir={build.share}"] if build.share else []
    try:
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [
                    *(*build.command, "--no-defaults", *share, f"--datadir={empty}"),
                    *("--verbose", "--help", *arguments),
                ],
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **build.environment},
                cwd="/",
                preexec_fn=partial(confine, [empty]),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_LIMIT_S,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"{build.mysqld} --verbose --help cannot be run: {error}") from error
    refuses = done.returncode != 0 or _OF_A_PLUGIN.search(done.stderr) is not None
    return Answer(done.stdout, done.stderr, refuses)


def refused(build: Build, arguments: Sequence[str]) -> dict[str, str]:
    """Those of the arguments that the binary refuses each by itself, with what it writes on standard error.

    None, if it refuses to run without any of them too: then it does not say a word of them.

    Raises:
        ServerError: as `verbose_help`.
    """
    if not arguments or verbose_help(build).refuses:
        return {}
    return _refused(build, arguments)


def _refused(build: Build, arguments: Sequence[str]) -> dict[str, str]:
    answer = verbose_help(build, arguments)
    if not answer.refuses:
        return {}
    if len(arguments) == 1:
        return {arguments[0]: answer.complaints}
    half = len(arguments) // 2
    return _refused(build, arguments[:half]) | _refused(build, arguments[half:])
