"""The sources of builds: one line each. Earlier ones win when two hold the very same binary."""

from __future__ import annotations

from flushlab.build.basedir import BasedirSource
from flushlab.build.debian import DebianSource
from flushlab.build.maven import MavenSource
from flushlab.build.path import PathSource
from flushlab.build.source import Source
from flushlab.build.tarball import TarballSource

SOURCES: tuple[Source, ...] = (
    BasedirSource(),
    PathSource(),
    DebianSource(),
    MavenSource(),
    TarballSource(),
)
