"""Source `debian`: servers from Debian's packages, unpacked into a private prefix.

Those of this system's own release (Debian or Ubuntu) run with its libraries. Other releases of Debian bring
theirs along: see `release`. The `-core` packages hold all that a server needs, and none starts anything when
it is unpacked. A release's versions move: a name promises a series, no exact version. The packages'
hashes tell whether two builds are the same. They are in the prefix's `build.json`, and shape its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from flushlab.atomic import locked_by_one
from flushlab.build import apt, release
from flushlab.build.apt import Package
from flushlab.build.build import Build
from flushlab.build.inspect import inspect
from flushlab.build.prefix import Obtainable, Source, publish
from flushlab.errors import ServerError
from flushlab.progress import Progress
from flushlab.record.machine import Flavor, server_name

SERVER = "mariadb-server-core"
CLIENT = "mariadb-client-core"


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A series of a server, and the Debian release that carries it.

    Attributes:
        numbers: of the series; what a release has stands in its lists, this is known before they are fetched.
    """

    flavor: Flavor
    numbers: tuple[int, int]
    suite: str
    packages: tuple[str, ...]


SERIES = (
    Series(flavor="mariadb", numbers=(10, 11), suite="bookworm", packages=(SERVER, CLIENT)),
    Series(flavor="mariadb", numbers=(11, 8), suite="trixie", packages=(SERVER, CLIENT)),
    Series(flavor="mysql", numbers=(9, 7), suite="sid", packages=("mysql-server-core", "mysql-client-core")),
)


class DebianSource(Source):
    name = "debian"

    def obtainable(self) -> Iterable[Obtainable]:
        if not apt.available():
            return
        own = self._own()
        if own is not None:
            yield own
        if not release.available():
            return
        for one in SERIES:
            known = release.known_version(one.suite, one.packages[0])
            numbers = upstream_version(known) if known else one.numbers
            if own is not None and (own.flavor, own.version[:2]) == (one.flavor, numbers[:2]):
                continue
            yield Obtainable(
                flavor=one.flavor,
                version=numbers,
                source=self.name,
                what=f"package {one.packages[0]} of Debian {one.suite}",
                release=one.suite,
            )

    def get(self, wanted: Obtainable, progress: Progress) -> Build:
        """Downloads and unpacks it, with the shared libraries that are missing here."""
        if not wanted.release:
            return self._get_own(progress)
        one = next(one for one in SERIES if (one.flavor, one.suite) == (wanted.flavor, wanted.release))
        with locked_by_one(release.folder_of(one.suite) / "lock"):
            return self._get_of_release(one, wanted, progress)

    def _own(self) -> Obtainable | None:
        version = apt.candidate_version(SERVER)
        fields = release.os_release()
        known = {one.suite: one.numbers for one in SERIES if one.packages[0] == SERVER}
        guessed = known.get(fields.get("VERSION_CODENAME", "")) if fields.get("ID") == "debian" else None
        numbers = upstream_version(version) if version else guessed
        if numbers is None:
            return None
        return Obtainable(flavor="mariadb", version=numbers, source=self.name, what=f"package {SERVER}")

    def _get_own(self, progress: Progress) -> Build:
        if apt.candidate_version(SERVER) is None:
            apt.refresh_lists(progress)
        version = apt.candidate_version(SERVER)
        if version is None:
            raise ServerError(
                f"the package {SERVER} is not in this release's package lists",
                hint="check the sources under /etc/apt, or use a server with --basedir",
            )

        def fill(prefix: Path) -> tuple[Build, list[Package]]:
            origin = apt.unpack([SERVER, CLIENT], prefix, progress)
            usr = prefix / "usr"
            binaries = [usr / "sbin" / "mariadbd", *sorted((usr / "bin").iterdir())]
            origin += apt.complete_libraries(binaries, prefix, progress)
            libraries = apt.library_folders(prefix)
            return inspect(binaries[0], source=self.name, prefix=prefix, library_path=libraries), origin

        return publish(f"{self.name}-mariadb-{_file_name(version)}", fill)

    def _get_of_release(self, one: Series, wanted: Obtainable, progress: Progress) -> Build:
        release.refresh_lists(one.suite, progress)
        version = release.candidate_version(one.suite, one.packages[0])
        if version is None:
            raise ServerError(
                f"Debian {one.suite} currently has no package {one.packages[0]}",
                hint="use another build; `flushlab server list` lists them",
            )
        numbers = upstream_version(version)
        if numbers[:2] != wanted.version[:2]:
            there_is = server_name(one.flavor, numbers[:2])
            raise ServerError(
                f"Debian {one.suite} has moved on to {there_is} ({version})"
                f" and no longer has {server_name(one.flavor, wanted.version[:2])}",
                hint=f"use {there_is}, or a tarball of the other version by path or URL",
            )

        files = release.resolve(one.suite, one.packages)

        def fill(prefix: Path) -> tuple[Build, list[Package]]:
            release.unpack(one.suite, one.packages, files, prefix, progress)
            return _launched(prefix, one.flavor), files

        digest = hashlib.sha256("\n".join(file.sha256 for file in files).encode()).hexdigest()
        plain = version.rpartition(":")[2]
        key = f"{self.name}-{one.suite}-{one.flavor}-{_file_name(plain)}-{digest[:12]}"
        return publish(key, fill)


def upstream_version(version: str) -> tuple[int, ...]:
    """Numbers of a Debian version: `1:10.11.19-0+deb12u1` is (10, 11, 19)."""
    match = re.fullmatch(r"(?:\d+:)?(\d+(?:\.\d+)*).*", version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _launched(prefix: Path, flavor: Flavor) -> Build:
    program = "mariadbd" if flavor == "mariadb" else "mysqld"
    found = inspect(
        prefix / "usr" / "sbin" / program,
        source=DebianSource.name,
        prefix=prefix,
        launcher=release.launcher(prefix),
    )
    base = release.make_launchers(prefix)
    return msgspec.structs.replace(
        found,
        client=str(base / "bin" / Path(found.client).name) if found.client else None,
        install_db=str(base / "bin" / Path(found.install_db).name) if found.install_db else None,
    )


def _file_name(version: str) -> str:
    return re.sub(r"[^0-9A-Za-z.+~-]", "-", version)
