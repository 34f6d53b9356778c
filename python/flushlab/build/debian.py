"""Source `debian`: MariaDB from the packages of this Debian (or Ubuntu) release, in a private prefix.

Debian 12 has MariaDB 10.11, Debian 13 has 11.8. The packages `mariadb-server-core` and
`mariadb-client-core` hold everything that a server needs, and neither starts anything when unpacked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from flushlab.build import apt
from flushlab.build.build import Build
from flushlab.build.inspect import inspect
from flushlab.build.prefix import prefixes, publish
from flushlab.build.progress import Progress
from flushlab.build.source import Found, Obtainable
from flushlab.errors import ServerError

SERVER = "mariadb-server-core"
CLIENT = "mariadb-client-core"

# What the releases are known to carry; only used while this system has no package lists.
_SERIES = {"debian 12": (10, 11), "debian 13": (11, 8)}


class DebianSource:
    """MariaDB from this release's packages."""

    name = "debian"

    def installed(self) -> Found:
        """Prefixes that were unpacked earlier."""
        return Found(builds=tuple(prefixes(self.name)))

    def obtainable(self) -> Iterable[Obtainable]:
        """The one version that this release has."""
        if not apt.available():
            return ()
        version = apt.candidate_version(SERVER)
        numbers = upstream_version(version) if version else _SERIES.get(_release(), ())
        if not version and not numbers:
            return ()
        return (Obtainable(flavor="mariadb", version=numbers, source=self.name, what=f"package {SERVER}"),)

    def get(self, wanted: Obtainable, progress: Progress) -> Build:
        """Downloads and unpacks it, with the shared libraries that are missing here."""
        if apt.candidate_version(SERVER) is None:
            apt.refresh_lists(progress)
        version = apt.candidate_version(SERVER)
        if version is None:
            raise ServerError(
                f"the package {SERVER} is not in this release's package lists",
                hint="check the sources under /etc/apt, or name a server with --basedir",
            )

        def fill(prefix: Path) -> tuple[Build, list[apt.Package]]:
            origin = apt.unpack([SERVER, CLIENT], prefix, progress)
            usr = prefix / "usr"
            binaries = [usr / "sbin" / "mariadbd", *sorted((usr / "bin").iterdir())]
            origin += apt.complete_libraries(binaries, prefix, progress)
            libraries = apt.library_folders(prefix)
            return inspect(binaries[0], source=self.name, prefix=prefix, library_path=libraries), origin

        return publish(f"{self.name}-mariadb-{re.sub(r'[^0-9A-Za-z.+~-]', '-', version)}", fill)


def upstream_version(version: str) -> tuple[int, ...]:
    """Numbers of a Debian version: `1:10.11.19-0+deb12u1` is (10, 11, 19)."""
    match = re.fullmatch(r"(?:\d+:)?(\d+(?:\.\d+)*).*", version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _release() -> str:
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return ""
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    return f"{fields.get('ID', '')} {fields.get('VERSION_ID', '')}"
