"""Request: a run of a suite, checked before anything is started. Sits in `suite`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flushlab.build import Build
from flushlab.record import Value
from flushlab.spec.commands import DatabaseSpec
from flushlab.suite.environment import Template
from flushlab.suite.inputs import Input

if TYPE_CHECKING:
    from flushlab.settings.fit import Scaled


class SuiteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a suite, checked.

    Attributes:
        spec: the database as the user asked for it.
        build: the server.
        words: the suite's command.
        database: name, created before anything else.
        characters: its character set and collation, as CREATE DATABASE spells them; empty for the server's.
        settings: the user's own, on top of the profile.
        dataset_key: content of the user's data, if any.
        inputs: files that the prepare command reads.
        templates: variables of the command's environment.
        workers: number of servers.
        password: of flushlab's account; random if None.
        cache: folder of compressed templates, or None.
        limit_bytes: of templates, here and in the cache.
        scaled: settings of the option file that this machine cannot hold; base_notes: settings left out.
    """

    spec: DatabaseSpec
    build: Build
    words: tuple[str, ...]
    database: str
    characters: str = ""
    settings: Mapping[str, Value] = {}
    inputs: tuple[Input, ...] = ()
    templates: tuple[Template, ...] = ()
    workers: int = 1
    password: str | None = None
    cache: Path | None = None
    limit_bytes: int
    dataset_key: Mapping[str, str] = {}
    scaled: tuple[Scaled, ...] = ()
    base_notes: tuple[str, ...] = ()

    @property
    def prepare(self) -> str:
        """The shell command that fills the database; empty for none."""
        return self.spec.prepare or ""

    @property
    def dataset(self) -> Path | None:
        """Path of the user's data."""
        return Path(self.spec.dataset) if self.spec.dataset else None

    @property
    def data_root(self) -> Path | None:
        """Parent of data directories on disk."""
        return Path(self.spec.data_root) if self.spec.data_root else None
