"""Source: where builds come from, and what each source has here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from flushlab.build.build import Build, Progress
from flushlab.build.prefix import prefixes
from flushlab.errors import FlushlabError, ServerError
from flushlab.record.server import Flavor


class Obtainable(msgspec.Struct, frozen=True, kw_only=True):
    """A build that is not here and can be fetched.

    Attributes:
        flavor: `mysql` or `mariadb`.
        version: as far as it is known before fetching: (10, 11, 19), (10, 11) or ().
        source: name of the source that fetches it.
        what: the package or artifact, for people.
        release: the other Debian release that it comes from, with its libraries; empty for builds that run
            with this system's.
    """

    flavor: Flavor
    version: tuple[int, ...]
    source: str
    what: str
    release: str = ""

    @property
    def name(self) -> str:
        """`mysql@5.7.22`, or `mariadb` while the version is not known."""
        return f"{self.flavor}@{'.'.join(map(str, self.version))}" if self.version else self.flavor


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one source has here.

    Attributes:
        builds: ready to start.
        problems: why others cannot be.
    """

    builds: tuple[Build, ...] = ()
    problems: tuple[FlushlabError, ...] = ()


class Source:
    """Where builds come from: a class that says what it does otherwise, and one line in `find.SOURCES`."""

    name: ClassVar[str]
    """Stands in `Build.source`."""

    def installed(self) -> Found:
        """Builds of this source that are here. Quick, no network, raises nothing for a broken build."""
        return Found(builds=tuple(prefixes(self.name)))

    def obtainable(self) -> Iterable[Obtainable]:
        """Builds that `get` can fetch on this machine. Quick, no network."""
        return ()

    def get(self, wanted: Obtainable, progress: Progress) -> Build:
        """Fetches a build into flushlab's home, or finds it there.

        Raises:
            ServerError: it could not be fetched or does not run here.
        """
        raise ServerError(f"{wanted.name} cannot be fetched from {self.name}")
