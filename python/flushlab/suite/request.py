"""Request: a run of a suite, read and checked; variables by which its command finds the server."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flushlab.build import Build, find_build
from flushlab.build.choice import Sign, caveats, choose
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.process import reap
from flushlab.progress import Progress, silent
from flushlab.record import Endpoint, ServerIdentity, Value
from flushlab.server.sandbox.option_files import client_environment
from flushlab.server.sql import quoted, require_not_system
from flushlab.spec.commands import DatabaseSpec
from flushlab.spec.parts import DEFAULT_SERVER
from flushlab.suite.profile import CHOICES, content_settings, throwaway
from flushlab.suite.templates import Recipe, check_cache, read_inputs, read_scripts, signs_in
from flushlab.units import parse_size

if TYPE_CHECKING:
    from flushlab.settings.fit import Scaled

FIELDS = ("host", "port", "socket", "user", "password", "database", "url", "jdbc_url")

_DATABASE = re.compile(r"[A-Za-z0-9_$-]{1,64}")
_PASSWORD = re.compile(r"[A-Za-z0-9._~-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_templates(assignments: Sequence[str]) -> dict[str, str]:
    templates = dict[str, str]()
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator or not _VARIABLE.fullmatch(name):
            raise UsageError(
                f"--env {assignment!r} is not NAME=TEMPLATE",
                hint="for example --env SPRING_DATASOURCE_URL='jdbc:mysql://{host}:{port}/{database}'",
            )
        try:
            named = [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
            reason = next((f"unknown field {{{field}}}" for field in named if field not in FIELDS), "")
            if not reason:
                text.format_map(dict.fromkeys(FIELDS, ""))
        except ValueError as error:
            reason = str(error)
        if reason:
            fields = " ".join(f"{{{field}}}" for field in FIELDS)
            raise UsageError(
                f"--env {assignment}: {reason}",
                hint=f"fields: {fields}; for a literal brace, write it twice",
            )
        templates[name] = text
    return templates


def check_database(name: str) -> str:
    if not _DATABASE.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid database name here", hint="use letters, digits, _, - and $, at most 64"
        )
    return require_not_system(name)


def create_database(name: str, characters: str) -> str:
    return f"CREATE DATABASE IF NOT EXISTS {quoted(name)}{characters}"


def database_characters(charset: str | None, collation: str | None) -> str:
    for flag, name, example in (("charset", charset, "utf8mb4"), ("collation", collation, "utf8mb4_bin")):
        if name is not None and not re.fullmatch(r"[A-Za-z0-9_]{1,64}", name):
            raise UsageError(f"--{flag} {name!r} is not a name", hint=f"for example --{flag} {example}")
    clauses = ((" CHARACTER SET ", charset), (" COLLATE ", collation))
    return "".join(f"{clause}{name}" for clause, name in clauses if name is not None)


def check_password(text: str | None) -> str | None:
    if text and not _PASSWORD.fullmatch(text):
        raise UsageError(
            "the password in FLUSHLAB_PASSWORD has invalid characters",
            hint="use only letters, digits and . _ ~ -, because the password is part of URLs",
        )
    return text or None


def fields_of(build: Build, endpoint: Endpoint, database: str) -> dict[str, str]:
    host, port = endpoint.host or "", str(endpoint.port)
    return {
        "host": host,
        "port": port,
        "socket": endpoint.socket or "",
        "user": endpoint.user,
        "password": endpoint.password,
        "database": database,
        "url": f"mysql://{endpoint.user}:{endpoint.password}@{host}:{port}/{database}",
        "jdbc_url": _jdbc_url(build, endpoint, database),
    }


def variables(servers: Sequence[Mapping[str, str]], templates: Mapping[str, str]) -> dict[str, str]:
    first = servers[0]
    named = client_environment(first) | {"FLUSHLAB_WORKERS": str(len(servers))}
    for suffix, fields in (("", first), *((f"_{i}", one) for i, one in enumerate(servers, 1))):
        named |= {f"FLUSHLAB_{name.upper()}{suffix}": value for name, value in fields.items()}
    return named | {name: text.format_map(first) for name, text in templates.items()}


def _jdbc_url(build: Build, endpoint: Endpoint, database: str) -> str:
    account = f"user={endpoint.user}&password={endpoint.password}"
    address = f"{endpoint.host}:{endpoint.port}/{database}"
    if build.flavor == "mariadb":
        return f"jdbc:mariadb://{address}?{account}"
    return f"jdbc:mysql://{address}?{account}&useSSL=false&allowPublicKeyRetrieval=true"


class SuiteRequest(Recipe, frozen=True, kw_only=True):
    spec: DatabaseSpec
    words: tuple[str, ...] = ()
    workers: int = 1
    pool: int | None = None
    password: str | None = None
    cache: Path | None = None
    limit_bytes: int
    scaled: tuple[Scaled, ...] = ()
    base_notes: tuple[str, ...] = ()
    signs: tuple[Sign, ...] = ()
    chosen: str = ""

    @property
    def content(self) -> Mapping[str, Value]:
        return content_settings(throwaway(self.build, "memory", self.settings))

    @property
    def dataset(self) -> Path | None:
        return Path(self.spec.dataset) if self.spec.dataset else None

    @property
    def data_root(self) -> Path | None:
        return Path(self.spec.data_root) if self.spec.data_root else None


def read_request(
    spec: DatabaseSpec, progress: Progress = silent, *, password: str | None = None
) -> SuiteRequest:
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

        settings = parse_settings(spec.settings, found.flavor, found.version)
    base, scaled, notes = _base(spec, found, progress) if spec.base else ({}, (), ())
    shape = _shape(brought, found) if brought else {}
    return SuiteRequest(
        spec=spec,
        build=found,
        prepare=spec.prepare or "",
        database=name,
        dataset_key=key,
        characters=characters,
        settings={**base, **shape, **settings},
        inputs=files,
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
    if spec.server is not None or spec.basedir is not None:
        return spec.server or DEFAULT_SERVER, ""
    if (choice := choose(signs)) is None:
        return DEFAULT_SERVER, "default; --server mysql@8.0"
    progress(choice.line)
    return choice.server, "chosen by your files; --server NAME"


def _shape(brought: Mapping[str, Value], build: Build) -> dict[str, Value]:
    """Settings such as the page size of a backup, without which the server does not start on the user's
    files."""
    from flushlab.settings.admission import admit_for
    from flushlab.settings.configuration import layout_of

    return layout_of(admit_for(brought, build.flavor, build.version)[0])


def _base(
    spec: DatabaseSpec, build: Build, progress: Progress
) -> tuple[dict[str, Value], tuple[Scaled, ...], tuple[str, ...]]:
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
