"""Verbose help: what a build says of options, by `--verbose --help`. Starts no server, opens no data.

Build layer. The options that are asked about are given as arguments behind `--no-defaults`, so that no
option file of this machine has a say.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence

from flushlab.build.build import Build
from flushlab.errors import ServerError
from flushlab.settings.helptext import read_ignored

_LIMIT_S = 60


def verbose_help(build: Build, arguments: Sequence[str] = ()) -> tuple[str, str]:
    """What the binary prints on standard output and on standard error, whatever its exit code.

    Raises:
        ServerError: it cannot be executed, or does not answer.
    """
    share = [f"--lc-messages-dir={build.share}"] if build.share else []
    try:
        done = subprocess.run(
            [*build.command, "--no-defaults", *share, *arguments, "--verbose", "--help"],
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **build.environment},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"{build.mysqld} --verbose --help cannot be run: {error}") from error
    return done.stdout, done.stderr


def ask_ignored(build: Build, names: Iterable[str]) -> frozenset[str]:
    """Those of the names that the build takes as options and does nothing with; only MariaDB has such.

    Raises:
        ServerError: as `verbose_help`.
    """
    if build.flavor != "mariadb":
        return frozenset()
    _, complaints = verbose_help(build, [f"--loose-{name.replace('_', '-')}=1" for name in sorted(names)])
    return read_ignored(complaints) & frozenset(names)
