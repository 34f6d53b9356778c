"""Database: a throwaway database for tests, in this process; the request that `flushlab test` runs on, too.

Suite layer. The template, the place in memory and the resets are those of `flushlab test`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flushlab.build import Progress, find_build, silent
from flushlab.build.build import Build
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.process import reap
from flushlab.record import ServerIdentity, Value
from flushlab.suite.environment import (
    Template,
    check_database,
    check_password,
    database_characters,
    fields_of,
)
from flushlab.suite.inputs import read_inputs
from flushlab.suite.profile import CHOICES
from flushlab.suite.servers import SuiteServer
from flushlab.suite.session import Request, Session
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
def database(
    *,
    server: str = "mariadb",
    prepare: str | None = None,
    inputs: Sequence[str] = (),
    dataset: Path | str | None = None,
    database: str | None = None,
    charset: str | None = None,
    collation: str | None = None,
    base: Path | str | None = None,
    exact: bool = False,
    settings: Mapping[str, Value] | None = None,
    clones: int | None = None,
    port: int | None = None,
    memory: bool = True,
    cache: Path | str | None = None,
    cache_size: str = "8G",
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    progress: Progress = silent,
) -> Iterator[Database]:
    """A throwaway database for tests; gone when the context ends.

    The arguments are those of `flushlab test` under the same names.

    Args:
        server: a build (`mariadb`, `mysql@5.7`), a tarball or a URL.
        prepare: a shell command that fills the database; its result is kept as a template.
        inputs: patterns of the files that it reads; they tell when the template is out of date.
        dataset: your data, which the server starts with: a dump, a dump folder or a stopped data directory.
        database: its name; that of the data, or `app`, if None.
        charset, collation: its character set and collation; the server's own if None.
        base: your option file; the settings of throwaway servers come on top, and what this machine cannot
            hold is scaled.
        exact: refuse a base that this machine cannot hold, instead of scaling it.
        settings: of the server (`--set`), on top of those of throwaway servers.
        clones: standby servers for faster resets; two after three resets, if memory allows, if None.
        port: on 127.0.0.1; a free one if None.
        memory: False: on disk in any case.
        cache: folder for compressed templates.
        cache_size: size limit of templates.
        basedir: use the server installed there.
        data_root: data directories that do not fit in memory go there.
        progress: takes a line at a time.

    Raises:
        UsageError: what makes no sense; the prepare command failed.
        FlushlabError: the server could not be had.
    """
    asked = request(
        server=server,
        words=(),
        prepare=prepare,
        inputs=inputs,
        dataset=dataset,
        database=database,
        charset=charset,
        collation=collation,
        base=base,
        exact=exact,
        settings=settings,
        clones=clones,
        port=port,
        memory=memory,
        cache=cache,
        cache_size=cache_size,
        basedir=basedir,
        data_root=data_root,
        progress=progress,
    )
    with ExitStack() as stack:
        servers = stack.enter_context(Session(asked, progress).open())
        first = servers.all[0]
        fields = fields_of(asked.build, first.endpoint, asked.database)
        yield Database(port=int(fields.pop("port")), **fields, _server=first)


def request(
    *,
    server: str,
    words: Sequence[str],
    prepare: str | None,
    inputs: Sequence[str],
    database: str | None,
    charset: str | None,
    collation: str | None,
    base: Path | str | None = None,
    exact: bool = False,
    settings: Mapping[str, Value] | None,
    port: int | None,
    memory: bool,
    cache: Path | str | None,
    cache_size: str,
    basedir: Path | str | None,
    data_root: Path | str | None,
    dataset: Path | str | None = None,
    templates: tuple[Template, ...] = (),
    workers: int = 1,
    clones: int | None = None,
    password: str | None = None,
    progress: Progress = silent,
) -> Request:
    """Everything checked before anything is started.

    Raises:
        UsageError, StorageError: what cannot be, with the way out.
    """
    if prepare is None and inputs:
        raise UsageError("--inputs needs --prepare", hint="add --prepare 'COMMAND'")
    if prepare is not None and not inputs:
        raise UsageError(
            "--prepare needs --inputs, to tell when its result is out of date",
            hint="for example --inputs 'db/migration/**'",
        )
    files = read_inputs(list(inputs), Path.cwd())
    key: Mapping[str, str] = {}
    if dataset is not None:
        from flushlab.dataset import choose_database, open_dataset  # a suite without data starts without it

        data = open_dataset(dataset)
        database, key = choose_database(data, database), data.key
    database = check_database(database or "app")
    characters = database_characters(charset, collation)
    for name in reap():
        progress(f"cleaned up after an earlier run: {name}")
    build = find_build(server, basedir=Path(basedir) if basedir else None, progress=progress)
    if settings:
        from flushlab.settings.catalog import load_catalog  # a suite without settings starts without it
        from flushlab.settings.given import parse_settings

        settings = parse_settings(settings, build.flavor, build.version, load_catalog())
    theirs: dict[str, Value] = {}
    scaled: tuple[Scaled, ...] = ()
    notes: tuple[str, ...] = ()
    if base is not None:
        root = DataRoot.open(Path(data_root) if data_root else None)
        theirs, scaled, notes = _base(Path(base), build, root, exact, progress)
    return Request(
        build=build,
        words=tuple(words),
        database=database,
        dataset=Path(dataset) if dataset else None,
        dataset_key=key,
        characters=characters,
        settings={**theirs, **(settings or {})},
        prepare=prepare or "",
        inputs=files,
        templates=templates,
        workers=workers,
        clones=clones,
        port=port,
        password=check_password(password),
        data_root=Path(data_root) if data_root else None,
        memory=memory,
        cache=check_cache(Path(cache) if cache else None),
        limit_bytes=parse_size(cache_size),
        scaled=scaled,
        base_notes=notes,
    )


def _base(
    file: Path, build: Build, root: DataRoot, exact: bool, progress: Progress
) -> tuple[dict[str, Value], tuple[Scaled, ...], tuple[str, ...]]:
    """The settings of an option file, without those that make a throwaway server fast; what was scaled of
    them, and what was left out."""
    from flushlab.server.sandbox.base_file import fit_here, read_base_file
    from flushlab.settings.fit import lines

    identity = ServerIdentity(
        flavor=build.flavor, version=build.version, version_text=build.version_text, build_id=build.id
    )
    read = read_base_file(file, build, identity)
    for note in read.notes:
        progress(f"warning: {note}")
    own = {choice.name for choice in CHOICES if choice.holds(build, "memory") or choice.holds(build, "disk")}
    found = fit_here(read.settings, identity, root, exact=exact)
    for line in lines(found, "--exact refuses it"):
        progress(line)
    settings = {name: value for name, value in found.settings.items() if name not in own}
    return settings, tuple(one for one in found.scaled if one.name in settings), read.notes
