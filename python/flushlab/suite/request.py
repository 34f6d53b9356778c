"""Request: a run of a suite, read and checked before anything is started. Sits in `suite`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flushlab.build import Build, Progress, find_build, silent
from flushlab.build.choice import Sign, caveats, choose
from flushlab.datadir import DataRoot
from flushlab.process import reap
from flushlab.record import ServerIdentity, Value
from flushlab.spec.commands import DatabaseSpec
from flushlab.spec.parts import DEFAULT_SERVER
from flushlab.suite.environment import Template, check_database, check_password, database_characters
from flushlab.suite.inputs import Input, read_inputs, read_scripts, signs_in
from flushlab.suite.profile import CHOICES
from flushlab.suite.templates import check_cache
from flushlab.units import parse_size

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
        dataset_key: key of the content of the user's data, if any.
        inputs: files that the prepare command reads.
        templates: variables of the command's environment.
        workers: number of servers.
        pool: most servers that tests may take besides; None: nobody said.
        password: of flushlab's account; random if None.
        cache: folder of compressed templates, or None.
        limit_bytes: of templates, here and in the cache.
        scaled: settings of the option file that this machine cannot hold; base_notes: settings left out.
        scripts: files that the prepare command names.
        signs: what the user's files say about servers.
        chosen: who chose the server, and how to choose another; empty: the user did.
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
    pool: int | None = None
    password: str | None = None
    cache: Path | None = None
    limit_bytes: int
    dataset_key: Mapping[str, str] = {}
    scaled: tuple[Scaled, ...] = ()
    base_notes: tuple[str, ...] = ()
    scripts: tuple[Input, ...] = ()
    signs: tuple[Sign, ...] = ()
    chosen: str = ""

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


def read_request(
    spec: DatabaseSpec,
    progress: Progress = silent,
    *,
    words: Sequence[str] = (),
    templates: tuple[Template, ...] = (),
    workers: int = 1,
    pool: int | None = None,
    password: str | None = None,
) -> SuiteRequest:
    """A run of a suite, checked before anything is started; arguments as the attributes of `SuiteRequest`.

    Raises:
        UsageError, StorageError: an invalid value, with a hint.
    """
    folder = Path.cwd()
    files, scripts = read_inputs(list(spec.inputs), folder), read_scripts(spec.prepare or "", folder)
    signs = list(signs_in((*scripts, *files), spec.prepare or "", folder))
    key, brought = dict[str, str](), dict[str, Value]()
    name = spec.database
    if spec.dataset is not None:
        from flushlab.dataset import choose_database, open_dataset  # a suite without data starts without it

        data = open_dataset(spec.dataset)
        name, key, brought = choose_database(data, name), dict(data.key), data.settings()
        signs += data.signs()
    characters = database_characters(spec.charset, spec.collation)
    name = check_database(name or "app")
    for reaped in reap():
        progress(f"cleaned up after an earlier run: {reaped}")
    if spec.base:
        from flushlab.server.sandbox.base_file import signs as signs_of

        signs += signs_of(Path(spec.base))
    server, chosen = server_of(spec, signs, progress)
    found = find_build(server, basedir=Path(spec.basedir) if spec.basedir else None, progress=progress)
    for caveat in caveats(signs, found):
        progress(f"warning: {caveat}")
    settings: Mapping[str, Value] = {}
    if spec.settings:
        from flushlab.settings.admission import parse_settings
        from flushlab.settings.catalog import load_catalog  # a suite without settings starts without it

        settings = parse_settings(spec.settings, found.flavor, found.version, load_catalog())
    base, scaled, notes = _base(spec, found, progress) if spec.base else ({}, (), ())
    shape = _shape(brought, found) if brought else {}
    return SuiteRequest(
        spec=spec,
        build=found,
        words=tuple(words),
        database=name,
        dataset_key=key,
        characters=characters,
        settings={**base, **shape, **settings},
        inputs=files,
        templates=templates,
        workers=workers,
        pool=pool,
        password=check_password(password),
        cache=check_cache(Path(spec.cache) if spec.cache else None),
        limit_bytes=parse_size(spec.cache_size),
        scaled=scaled,
        base_notes=notes,
        scripts=scripts,
        signs=tuple(signs),
        chosen=chosen,
    )


def server_of(spec: DatabaseSpec, signs: Sequence[Sign], progress: Progress) -> tuple[str, str]:
    """The server's name, and who chose it; tells of a choice."""
    if spec.server is not None or spec.basedir is not None:
        return spec.server or DEFAULT_SERVER, ""
    if (choice := choose(signs)) is None:
        return DEFAULT_SERVER, "default; --server mysql@8.0"
    progress(choice.line)
    return choice.server, "chosen by your files; --server NAME"


def _shape(brought: Mapping[str, Value], build: Build) -> dict[str, Value]:
    """What shapes the files of the user's data directory, such as the page size of a backup; the server does
    not start on it otherwise."""
    from flushlab.settings.admission import admit_for
    from flushlab.settings.catalog import load_catalog
    from flushlab.settings.configuration import layout_of

    return layout_of(admit_for(brought, build.flavor, build.version).settings, load_catalog())


def _base(
    spec: DatabaseSpec, build: Build, progress: Progress
) -> tuple[dict[str, Value], tuple[Scaled, ...], tuple[str, ...]]:
    """The settings of the option file, without the ones that make a sandbox for tests fast; the scaled
    settings, and notes on the omitted ones."""
    from flushlab.server.sandbox.base_file import fit_here, read_base_file
    from flushlab.settings.fit import lines

    assert spec.base is not None, "there is an option file"
    root = DataRoot.open(Path(spec.data_root) if spec.data_root else None)
    identity = ServerIdentity(
        flavor=build.flavor, version=build.version, version_text=build.version_text, build_id=build.id
    )
    read = read_base_file(Path(spec.base), build, identity)
    for note in read.notes:
        progress(f"warning: {note}")
    own = {choice.name for choice in CHOICES if choice.holds(build, "memory") or choice.holds(build, "disk")}
    found = fit_here(read.settings, identity, root, exact=spec.no_scale)
    for line in lines(found, "--no-scale refuses it"):
        progress(line)
    settings = {name: value for name, value in found.settings.items() if name not in own}
    return settings, tuple(one for one in found.scaled if one.name in settings), read.notes
