"""Settings check: the meaning of an option file, or of a server's variables, and the words of its build.

Sits in `server`, on `settings.check` and `settings.in_force`; `flushlab settings --check` and `--dsn`. Which
release a name stands for does not depend on what happens to be fetched: `mysql@8.0` is always the same one. A
running server is only read. Its host cannot be seen: whether syncs reach the disk is unknown, and no fault of
the settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from flushlab.build import Build, find_build, list_builds
from flushlab.build.choice import SERVERS, BuildChoice, choose
from flushlab.build.find import parse_name, resolved
from flushlab.datadir import DataRoot, storage_of
from flushlab.errors import BuildNotFound, StartFailed, UsageError
from flushlab.machine import confinement, is_open_to_all, memory_bytes
from flushlab.progress import Progress, silent
from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.record.machine import Flavor
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.remote.login import Address
from flushlab.server.remote.server import CONNECT_S, RemoteServer
from flushlab.server.sandbox.base_file import (
    examine,
    fit_here,
    nothing_read,
    reason,
    refusals,
    require_option_file,
    signs,
    text_of,
    whole,
)
from flushlab.server.sql import all_variables, redo_enabled
from flushlab.settings.admission import A_PATH, LeftOut, admit, barred, inside
from flushlab.settings.check import CheckedFile, at_risk, below, in_reading_order, too_large
from flushlab.settings.durability import described, guarantees, level, meets
from flushlab.settings.durability.files import LOCATIONS
from flushlab.settings.fit import Fit
from flushlab.settings.floor import Floor
from flushlab.settings.in_force import identity_of, in_force, read_dump
from flushlab.settings.optionfile import Remark
from flushlab.spec.commands import SettingsSpec
from flushlab.units import parse_size

DEFAULT = "mariadb"

_RELEASES: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {
    ("mysql", (5, 7)): (5, 7, 44),
    ("mysql", (8, 0)): (8, 0, 46),
    ("mysql", (8, 4)): (8, 4, 9),
    ("mysql", (9, 7)): (9, 7, 4),
    ("mariadb", (10, 6)): (10, 6, 26),
    ("mariadb", (10, 11)): (10, 11, 19),
    ("mariadb", (11, 4)): (11, 4, 11),
    ("mariadb", (11, 8)): (11, 8, 9),
    ("mariadb", (12, 3)): (12, 3, 2),
}
"""The release that a series stands for: a late one, as servers that are kept are."""

_LATE: tuple[tuple[Flavor, tuple[int, ...]], ...] = tuple(
    (flavor, _RELEASES.get((flavor, version[:2]), version))
    for flavor, version in (*SERVERS, ("mysql", (8, 4)))
)
_LOG_LINE = re.compile(r"\[(?:ERROR|Warning)\].*")
_DIGITS = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")
_SAID_AT_MOST = 12
_UNSEEN, _USUAL = Storage(visible=False), Launch()


class Started(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    refusal: str
    without: tuple[str, ...]
    ran: bool
    said: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    moved: tuple[str, ...]
    confined: bool
    scaled: Fit


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    server: ServerIdentity
    assumed: bool = False
    asked: bool = False
    checked: CheckedFile
    findings: tuple[Remark, ...]
    floor: Floor
    wanted: Floor | None
    meets: bool | None
    guarantees: dict[str, str]
    in_force: bool = False
    started: Started | None = None

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def starts(self) -> bool:
        return not any(finding.fatal for finding in self.findings)


def judge_file(file: Path, request: SettingsSpec, *, progress: Progress = silent) -> Judged:
    text = text_of(file)  # once: a pipe gives it only once
    dump = read_dump(text)
    if dump is None:
        return _judge_options(file, text, request, progress)
    for name, given in (
        ("--start", request.start),
        ("--defaults-group-suffix", request.defaults_group_suffix),
        ("--basedir", request.basedir),
    ):
        if given:
            raise UsageError(
                f"{name} is for option files, but {file} has a server's variables", hint="remove it"
            )
    identity, assumed = identity_of(dump.variables), False
    if identity is None:
        identity, _, assumed = server_of(request.server, None)
    elif request.server is not None:
        _require_same(identity, request.server, file)
    checked = in_force(dump.variables, identity, path=str(file), lines=dump.lines)
    return _judged(checked, identity, str(file), request, assumed=assumed, in_force=True)


def judge_server(address: Address, request: SettingsSpec) -> Judged:
    with RemoteServer(address, connect_s=CONNECT_S) as server:
        identity = server.identity
        checked = in_force(all_variables(server.query), identity, path=address.name)
        launch = Launch(redo_enabled=redo_enabled(server.query, identity))
    return _judged(checked, identity, address.name, request, running=(_UNSEEN, launch), in_force=True)


def _judge_options(file: Path, text: str, request: SettingsSpec, progress: Progress) -> Judged:
    require_option_file(text, file)
    basedir = Path(request.basedir) if request.basedir else None
    if request.server is None and basedir is None:
        choice = choose(signs(file), () if request.start else _LATE) or BuildChoice(DEFAULT)
        request = msgspec.structs.replace(request, server=choice.server)
        progress(choice.line)
    if request.start:
        build: Build | None = find_build(request.server or DEFAULT, basedir=basedir, progress=progress)
        assert build is not None
        identity, assumed = build.identity, False
    else:
        identity, build, assumed = server_of(request.server, basedir)
    asked = None if request.static else build
    checked = examine(file, text, identity, asked, suffix=request.defaults_group_suffix or "")
    ignored = _ignored(file)
    judged = _judged(
        checked,
        identity,
        str(file),
        request,
        running=(Storage(in_memory_files=_in_memory(checked)), _USUAL),
        memory_bytes=memory_bytes(),
        further=ignored or nothing_read(file, checked),
        assumed=assumed,
        asked=asked is not None,
    )
    if not request.start or build is None:
        return judged
    started = _start(build, checked, request.host_memory, progress)
    known = {finding.name for finding in judged.findings if finding.fatal}
    told = {name: started.refusal for name in started.without if name not in known}
    found = in_reading_order([*judged.findings, *refusals(checked, told)])
    return msgspec.structs.replace(judged, findings=found, started=started)


def _judged(
    checked: CheckedFile,
    identity: ServerIdentity,
    path: str,
    request: SettingsSpec,
    *,
    running: tuple[Storage, Launch] = (_UNSEEN, _USUAL),
    memory_bytes: int | None = None,
    further: Iterable[Remark] = (),
    **rest: Any,
) -> Judged:
    (storage, launch), floor, found = running, request.floor, [*further, *checked.findings]
    if memory := parse_size(request.host_memory) if request.host_memory else memory_bytes:
        found += too_large(checked, path, identity, memory, named=request.host_memory is not None)
    if floor is not None:
        found += below(checked, path, identity, storage, floor)
    else:
        found += at_risk(checked, path, identity, storage)
    if not launch.redo_enabled:
        says = "the redo log is disabled: after a crash the server may not start again"
        found.append(Remark("at-risk", "error", "", path, 0, says, "ALTER INSTANCE ENABLE INNODB REDO_LOG"))
    kept = guarantees(checked.given, identity, storage, launch)
    return Judged(
        server=identity,
        checked=checked,
        findings=in_reading_order(found),
        floor=level(kept),
        wanted=floor,
        meets=None if floor is None else meets(kept, floor),
        guarantees=described(checked.given, identity, storage, launch),
        **rest,
    )


def _require_same(identity: ServerIdentity, server: str, file: Path) -> None:
    wanted = parse_name(server)
    if (
        wanted.flavor not in ("", identity.flavor)
        or wanted.version != identity.version[: len(wanted.version)]
    ):
        raise UsageError(
            f"{file} has the variables of {identity.name}, not of {server}", hint="remove --server"
        )


def server_of(name: str | None, basedir: Path | None) -> tuple[ServerIdentity, Build | None, bool]:
    if name is not None and name.startswith("sandbox:"):
        raise UsageError(
            f"--check takes a build or flavor@version, not {name}", hint="for example --server mysql@8.0"
        )
    wanted = resolved(parse_name(name or DEFAULT))
    if basedir is None and wanted.flavor:
        exact = len(wanted.version) >= 3
        version = wanted.version if exact else _RELEASES.get((wanted.flavor, wanted.version))
        if version is None:
            raise BuildNotFound(
                f"{name} stands for no release that flushlab knows",
                hint="name one in full, such as mysql@8.0.36",
            )
        flavor: Flavor = "mariadb" if wanted.flavor == "mariadb" else "mysql"
        text = ".".join(map(str, version))
        identity = ServerIdentity(flavor=flavor, version=version, version_text=text)
        here = (one for one in list_builds() if (one.flavor, one.version) == (flavor, version))
        return identity, next(here, None) if exact else None, not exact  # the build of exactly this release
    build = find_build(name or DEFAULT, basedir=basedir, get=False)
    return build.identity, build, False


def _start(build: Build, checked: CheckedFile, memory: str | None, progress: Progress) -> Started:
    admitted, left_out = admit({**checked.others, **checked.settings})
    root = DataRoot.open()
    fitted = fit_here(admitted, build.identity, root, memory=memory)
    usual = _start_once(build, {}, (), root, progress)
    settings = dict(fitted.settings)
    stops = [*checked.rejected, *(one.name for one in checked.findings if one.kind == "refused")]
    without = list(dict.fromkeys(stops))
    words = _as_written(checked, fitted, build)
    outcome = _start_once(build, settings, words, root, progress)
    refusal = "" if outcome.ran else outcome.said[0]
    while not outcome.ran:
        named = [*without, *outcome.names]
        if not (words or settings.keys() & set(named)):
            break
        words, without = (), list(dict.fromkeys(named))
        settings = {name: value for name, value in settings.items() if name not in named}
        outcome = _start_once(build, settings, (), root, progress)
    shapes = {_DIGITS.sub("", line) for line in usual.said}
    said = [line for line in outcome.said if _DIGITS.sub("", line) not in shapes]
    return Started(
        server=build.name,
        refusal=refusal,
        without=tuple(without) if refusal else (),
        ran=outcome.ran,
        said=tuple(said[:_SAID_AT_MOST]),
        left_out=left_out,
        moved=("log_bin",) if A_PATH.search(checked.binlog_path) else (),
        confined=confinement.available(),
        scaled=fitted,
    )


def _as_written(checked: CheckedFile, fitted: Fit, build: Build) -> tuple[str, ...]:
    """The user's lines as arguments; where a server reads a line otherwise than flushlab does, it says so."""
    scaled = {one.name for one in fitted.scaled}
    taken = {name: checked.written.get(name) for name in fitted.settings if name not in scaled}
    words = (inside(word) for word in ({**taken, **checked.rejected}).values() if word)
    return tuple(word for word in words if not barred(word, build.flavor, build.version))


class _Outcome(NamedTuple):
    ran: bool
    said: tuple[str, ...]
    names: tuple[str, ...] = ()


def _start_once(
    build: Build, settings: Mapping[str, Value], words: tuple[str, ...], root: DataRoot, progress: Progress
) -> _Outcome:
    try:
        with Sandbox.start(
            SandboxSpec(build, settings=settings, written=words, data_root=root), progress
        ) as sandbox:
            lines = map(_LOG_LINE.search, sandbox.said_since_start().splitlines())
            return _Outcome(True, tuple(dict.fromkeys(line[0].strip() for line in lines if line)))
    except StartFailed as error:
        why = reason(error.refusal) if error.refusal else error.message
        patterns = {name: rf"(?<![\w-]){name.replace('_', '[-_]')}(?![\w-])" for name in settings}
        named = [name for name, pattern in patterns.items() if re.search(pattern, error.refusal or "")]
        return _Outcome(False, (why,), tuple(named[:1]))


def _in_memory(checked: CheckedFile) -> tuple[str, ...]:
    places = {name: Path(str(place)) for name in LOCATIONS if (place := checked.given.get(name))}
    seen = {name: place if place.is_dir() else place.parent for name, place in places.items()}
    return tuple(
        name
        for name, place in seen.items()
        if place.is_absolute() and place.is_dir() and storage_of(place).in_memory
    )


def _ignored(file: Path) -> tuple[Remark, ...]:
    """Files that anybody may write to, included ones among them, are not read by the servers."""
    return tuple(
        Remark(
            "ignored-file",
            "error",
            "",
            path,
            0,
            "the file is world-writable: the server ignores it",
            f"chmod o-w {path}",
        )
        for path in (whole(file) if file.is_file() else ())
        if is_open_to_all(Path(path))
    )
