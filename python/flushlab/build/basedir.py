"""Sources `path` and `basedir`: servers that the system has installed, and an unpacked distribution that the
user names, by option or `$FLUSHLAB_BASEDIR`. flushlab installs nothing there."""

from __future__ import annotations

import os
from pathlib import Path

from flushlab.build.build import Build
from flushlab.build.inspect import inspect_once, server_in
from flushlab.build.source import Found, Source
from flushlab.errors import BuildNotFound, FlushlabError

VARIABLE = "FLUSHLAB_BASEDIR"
SBIN = ("/usr/local/sbin", "/usr/sbin", "/usr/libexec")


class BasedirSource(Source):
    """The distribution that `$FLUSHLAB_BASEDIR` names."""

    name = "basedir"

    def installed(self) -> Found:
        """The build in `$FLUSHLAB_BASEDIR`, if that is set."""
        folder = os.environ.get(VARIABLE)
        if not folder:
            return Found()
        try:
            return Found(builds=(build_in(Path(folder)),))
        except FlushlabError as error:
            return Found(problems=(error,))


class PathSource(Source):
    """The servers on PATH, and in the sbin directories that a plain user's PATH lacks."""

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


def places(folder: Path) -> tuple[Path, ...]:
    """Where the server may lie in an unpacked distribution."""
    return (folder / "bin", folder / "sbin", folder / "libexec", folder / "usr" / "sbin")


def build_in(folder: Path) -> Build:
    """The build in a base directory (with bin/mysqld, sbin/mysqld or libexec/mysqld).

    Libraries that the distribution brings in its `lib` are found by its own run path, as in the
    official tarballs.

    Raises:
        BuildNotFound: no such directory, or no server in it.
        LibraryMissing: the server lacks a shared library.
        ServerError: it cannot be executed.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise BuildNotFound(
            f"{folder} is not a directory", hint="give the directory that contains bin/mysqld"
        )
    mysqld = server_in(*places(folder))
    if mysqld is None:
        raise BuildNotFound(
            f"{folder} contains no server: neither bin/mariadbd nor bin/mysqld is there",
            hint="give the directory that a server's tarball was unpacked into",
        )
    return inspect_once(mysqld, source="basedir", prefix=folder)
