"""Source `path`: the server on PATH, or in the sbin directories that a plain user's PATH lacks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from flushlab.build.build import Build
from flushlab.build.inspect import inspect_once, server_in
from flushlab.build.progress import Progress
from flushlab.build.source import Found, Obtainable
from flushlab.errors import FlushlabError, ServerError

SBIN = ("/usr/local/sbin", "/usr/sbin", "/usr/libexec")


class PathSource:
    """Servers that the system has installed."""

    name = "path"

    def installed(self) -> Found:
        """Every distinct server binary on PATH."""
        builds: dict[str, Build] = {}
        problems: list[FlushlabError] = []
        for folder in (*os.environ.get("PATH", os.defpath).split(os.pathsep), *SBIN):
            mysqld = server_in(Path(folder)) if folder else None
            if mysqld is None or str(mysqld.resolve()) in builds:
                continue
            try:
                real = mysqld.resolve()
                builds[str(real)] = inspect_once(real, source=self.name, prefix=real.parent.parent)
            except FlushlabError as error:
                problems.append(error)
        return Found(builds=tuple(builds.values()), problems=tuple(problems))

    def obtainable(self) -> Iterable[Obtainable]:
        """Nothing: flushlab installs nothing into the system."""
        return ()

    def get(self, wanted: Obtainable, progress: Progress) -> Build:
        """Never called: nothing is obtainable."""
        raise ServerError(f"{wanted.name} cannot be fetched from {self.name}")
