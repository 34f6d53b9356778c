"""Database: a throwaway database for tests, in this process; the request that `flushlab test` runs on, too.

Suite layer. The template, the place in memory and the resets are those of `flushlab test`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flushlab.build import Progress, find_build, silent
from flushlab.build.build import Build
from flushlab.datadir import DataRoot
from flushlab.process import reap
from flushlab.record import ServerIdentity, Value
from flushlab.spec.build import build
from flushlab.spec.commands import DatabaseSpec
from flushlab.spec.sugar import taking
from flushlab.suite.environment import (
    Template,
    check_database,
    check_password,
    database_characters,
    fields_of,
)
from flushlab.suite.inputs import read_inputs
from flushlab.suite.profile import CHOICES
from flushlab.suite.request import SuiteRequest
from flushlab.suite.servers import SuiteServer
from flushlab.suite.session import Session
from flushlab.suite.templates import check_cache
from flushlab.units import parse_size

if TYPE_CHECKING:
    from flushlab.settings.fit import Scaled


@dataclass(frozen=True, kw_only=True)
class Database:
    """Where a throwaway database is.

    Attributes:
        host, port: on loopback.
        socket: path of its unix socket.
        user, password: of an account with all privileges.
        database: its name.
        url: `mysql://user:password@host:port/database`.
        jdbc_url: the same for JDBC.
    """

    host: str
    port: int
    socket: str
    user: str
    password: str = field(repr=False)
    database: str
    url: str = field(repr=False)
    jdbc_url: str = field(repr=False)
    _server: SuiteServer = field(repr=False)

    def reset(self) -> float:
        """Makes it what it was when it was started, at the same address; the seconds that it took.

        Connections are cut.

        Raises:
            ServerError, StorageError: it could not; the server may be gone then.
        """
        return self._server.reset()


@contextmanager
@taking(DatabaseSpec, progress="Takes a line at a time.")
def database(*, progress: Progress = silent, **given: Any) -> Iterator[Database]:
    """A throwaway database for tests; gone when the context ends.

    The arguments are those of `flushlab test` under the same names.

    Raises:
        UsageError: an argument makes no sense, or the prepare command failed.
        FlushlabError: the server could not be started.
    """
    asked = request(build(DatabaseSpec, given), progress)
    with ExitStack() as stack:
        servers = stack.enter_context(Session(asked, progress).open())
        first = servers.all[0]
        fields = fields_of(asked.build, first.endpoint, asked.database)
        yield Database(port=int(fields.pop("port")), **fields, _server=first)


def request(
    spec: DatabaseSpec,
    progress: Progress = silent,
    *,
    words: Sequence[str] = (),
    templates: tuple[Template, ...] = (),
    workers: int = 1,
    password: str | None = None,
) -> SuiteRequest:
    """A run of a suite, checked before anything is started.

    Args:
        spec: the database.
        progress: takes a line at a time.
        words: the suite's command.
        templates: variables of the command's environment.
        workers: number of servers.
        password: of flushlab's account; random if None.

    Raises:
        UsageError, StorageError: a value that cannot work, with the way out.
    """
    files = read_inputs(list(spec.inputs), Path.cwd())
    key: Mapping[str, str] = {}
    name = spec.database
    if spec.dataset is not None:
        from flushlab.dataset import choose_database, open_dataset  # a suite without data starts without it

        data = open_dataset(spec.dataset)
        name, key = choose_database(data, name), data.key
    characters = database_characters(spec.charset, spec.collation)
    name = check_database(name or "app")
    for reaped in reap():
        progress(f"cleaned up after an earlier run: {reaped}")
    found = find_build(spec.server, basedir=Path(spec.basedir) if spec.basedir else None, progress=progress)
    settings: Mapping[str, Value] = {}
    if spec.settings:
        from flushlab.settings.admission import parse_settings
        from flushlab.settings.catalog import load_catalog  # a suite without settings starts without it

        settings = parse_settings(spec.settings, found.flavor, found.version, load_catalog())
    base, scaled, notes = _base(spec, found, progress) if spec.base else ({}, (), ())
    return SuiteRequest(
        spec=spec,
        build=found,
        words=tuple(words),
        database=name,
        dataset_key=key,
        characters=characters,
        settings={**base, **settings},
        inputs=files,
        templates=templates,
        workers=workers,
        password=check_password(password),
        cache=check_cache(Path(spec.cache) if spec.cache else None),
        limit_bytes=parse_size(spec.cache_size),
        scaled=scaled,
        base_notes=notes,
    )


def _base(
    spec: DatabaseSpec, build: Build, progress: Progress
) -> tuple[dict[str, Value], tuple[Scaled, ...], tuple[str, ...]]:
    """The settings of the option file, without those that make a throwaway server fast; the settings that
    were scaled, and notes on those that were left out."""
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
    found = fit_here(read.settings, identity, root, exact=spec.exact)
    for line in lines(found, "--exact refuses it"):
        progress(line)
    settings = {name: value for name, value in found.settings.items() if name not in own}
    return settings, tuple(one for one in found.scaled if one.name in settings), read.notes
