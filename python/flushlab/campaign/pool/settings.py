"""Settings of the servers that a campaign runs on: which they have, take, and may be given. Sits in
`campaign.pool`.

A pool hands out one `ServerSettings`. `SandboxSettings` are of servers that flushlab starts for an arm,
`OwnServerSettings` of the user's running server: whatever needs a restart is out there, with its reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec

from flushlab.build.build import Build
from flushlab.build.choice import Sign, caveats
from flushlab.build.inspect import verbose_help
from flushlab.campaign.data import Data, bytes_of
from flushlab.campaign.facts import EXTERNAL
from flushlab.campaign.watcher import Watcher
from flushlab.datadir import DataRoot
from flushlab.errors import BelowFloor, ServerError, StartFailed, UsageError
from flushlab.machine import available_memory_bytes
from flushlab.plan.plan import Plan
from flushlab.record import Launch, ServerIdentity, SourceText, Storage, Value, Warning
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.remote.server import RemoteGroup, require_alike
from flushlab.server.sandbox.base_file import fit_here, read_base_file, require_taken, whole
from flushlab.server.sandbox.log import refusal
from flushlab.server.sql import persisted
from flushlab.settings.admission import admit_for, describe_left_out, parse_settings
from flushlab.settings.candidates import Candidate, raise_to_floor
from flushlab.settings.catalog import canonical, load_catalog
from flushlab.settings.configuration import Configuration
from flushlab.settings.fit import Fit, Scaled, Shrunk, as_warnings, lines
from flushlab.settings.floor import Floor
from flushlab.settings.option_names import read_help
from flushlab.spec.parts import FileSpec
from flushlab.trial.runner import restart_settings
from flushlab.units import format_latency, parse_size
from flushlab.workload.parse import source_text

HOW_TO_SCALE = "--memory changes it, --no-scale refuses it"
_RESTART = "needs a restart, and your own server is never restarted"
_SPARE_CONNECTIONS = 50
_DEFAULT_MAX_CONNECTIONS = 151

Settings = Mapping[str, Value]
Propose = Callable[..., tuple[Candidate, ...]]
Candidates = tuple[tuple[Candidate, ...], tuple[Warning, ...]]


class UserSettings(NamedTuple):
    original: Mapping[str, Value] = {}
    here: Mapping[str, Value] = {}
    scaled: tuple[Scaled, ...] = ()
    warnings: tuple[Warning, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ServerSettings(ABC):
    """`key`: a campaign that is resumed must find the same; `folder`: where this machine's disk is
    watched."""

    identity: ServerIdentity
    key: str
    storage: Storage
    folder: Path

    restarts: ClassVar[bool] = True
    """Servers may be restarted, killed or exchanged for an arm: then windows may also outlast the redo log,
    and recovery may be measured."""

    def launch(self, each: int, together: int) -> Launch:
        return Launch()

    def parse(self, settings: Settings) -> dict[str, Value]:
        here = self.identity
        return parse_settings(settings, here.flavor, here.version, nodes=here.nodes)

    def require_taken(self, settings: Settings) -> None:
        return

    def hidden_options(self, names: Iterable[str], values: Settings) -> frozenset[str]:
        return frozenset()

    def of_files(
        self,
        files: Sequence[Path | None],
        asked: FileSpec,
        data: Data | None,
        connections: int,
        watcher: Watcher,
        server: str | None = None,
    ) -> Mapping[Path | None, UserSettings]:
        """`files`: None: no option file; `server`: its name in messages; None: files are not named either.
        A UsageError or StorageError if a file cannot be read, or does not fit and must not be scaled."""
        return dict.fromkeys(files, UserSettings())

    def of_base(self, asked: FileSpec, data: Data | None, connections: int, watcher: Watcher) -> UserSettings:
        path = Path(asked.base) if asked.base else None
        return self.of_files((path,), asked, data, connections, watcher)[path]

    @abstractmethod
    def read(
        self, base: Settings, launch: Launch, watcher: Watcher, also: Iterable[str] = ()
    ) -> dict[str, Value]:
        """All catalogued settings as a server with this base has them, and further ones by name; a UsageError
        if the server refuses the base."""

    def has(self, also: Iterable[str] = ()) -> dict[str, Value]:
        return {}

    def persisted(self) -> Mapping[str, str] | None:
        return None

    def guarding(self, given: Iterable[str]) -> dict[str, Value]:
        catalog, out = load_catalog(), {*given}
        return {
            name: value
            for name, value in self.has().items()
            if name not in out and name in catalog and catalog.setting(name).durability
        }

    def raise_to_floor(
        self, settings: Settings, floor: Floor, keep: Iterable[str], launch: Launch
    ) -> tuple[dict[str, Value], tuple[str, ...]]:
        """BelowFloor if nothing does, or only a restart of a server that must not be restarted."""
        return raise_to_floor(
            settings, floor, identity=self.identity, storage=self.storage, launch=launch, keep=keep
        )

    def lowest(self, floor: Floor, offer: Floor | None) -> Floor:
        """A server of the user's own never runs below its floor: a UsageError if that was asked for."""
        if offer is None:
            offer = Floor.SECOND if self.restarts else floor
        if not offer.at_least(floor) and not self.restarts:
            raise UsageError(
                f"--offer {offer} is below --floor {floor}: flushlab sets nothing below the floor there",
                hint=f"accept less with --floor {offer}, or measure the offer on a sandbox, without --dsn",
            )
        return floor if offer.at_least(floor) else offer

    def may_be_below(self, given: Settings) -> bool:
        has, same = self.has(given), Configuration({}, self.identity).same
        return self.restarts or all(name in has and same(name, has[name], given[name]) for name in given)

    @abstractmethod
    def candidates(
        self, propose: Propose, base: Settings, seen: Settings, keep: Sequence[str], memory: str | None
    ) -> Candidates:
        """What may be tried.

        Args:
            propose: from settings, bytes of memory and settings to keep, all that is worth trying.
            base: settings of the base, raised to the floor.
            seen: settings that a server with the base has.
            keep: settings that stay as they are.
            memory: that the server may use, such as `2G`.
        """

    def reduced(self, plan: Plan, values: Settings) -> tuple[Plan, tuple[Warning, ...]]:
        return plan, ()

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        return ()


@dataclass(frozen=True, kw_only=True)
class SandboxSettings(ServerSettings):
    """`latency_s`: between nodes, there and back; `dry_run`: the catalog and the binary's help tell."""

    build: Build
    root: DataRoot
    latency_s: float
    dry_run: bool
    signs: tuple[Sign, ...]

    def launch(self, each: int, together: int) -> Launch:
        """On a cluster, each arm keeps its connections while others have their slices."""
        return Launch(arguments=connection_arguments(each if self.identity.nodes == 1 else together))

    def require_taken(self, settings: Settings) -> None:
        require_taken(self.build, settings)

    def hidden_options(self, names: Iterable[str], values: Settings) -> frozenset[str]:
        strange = {
            name for name in map(canonical, names) if name not in values and name not in load_catalog()
        }
        return read_help(verbose_help(self.build).text).names & strange if strange else frozenset()

    def of_files(
        self,
        files: Sequence[Path | None],
        asked: FileSpec,
        data: Data | None,
        connections: int,
        watcher: Watcher,
        server: str | None = None,
    ) -> Mapping[Path | None, UserSettings]:
        brought = brought_along(data, self.identity, watcher)
        own = {file: file_settings(file, self.build, self.identity, watcher) for file in files}
        theirs = {file: {**settings, **brought} for file, settings in own.items()}
        fits = fit_alike(
            theirs,
            partial(
                fit_here,
                identity=self.identity,
                root=self.root,
                memory=asked.memory,
                exact=asked.no_scale,
                connections=connections,
                data_bytes=bytes_of(data),
            ),
        )
        for file, fit in fits.items():
            called = f"{server}: {file or 'the base'}" if server else str(file or "")
            for line in lines(fit, HOW_TO_SCALE, file="" if server is None else called):
                watcher.say(line)
        return {
            file: UserSettings(theirs[file], fit.settings, fit.scaled, tuple(as_warnings(fit)))
            for file, fit in fits.items()
        }

    def read(
        self, base: Settings, launch: Launch, watcher: Watcher, also: Iterable[str] = ()
    ) -> dict[str, Value]:
        known = load_catalog().names(self.build.flavor, self.build.version)
        if self.dry_run:
            configuration = Configuration(base, self.identity)
            values = {name: value for name in known if (value := configuration.value(name)) is not None}
            strange = {*also} - {*known}
            help_values = read_help(verbose_help(self.build).text).values if strange else {}
            return {**values, **{name: help_values[name] for name in strange & {*help_values}}, **base}
        watcher.say(f"reading {self.build.name}'s settings back")
        try:
            with Sandbox.start(
                SandboxSpec(self.build, settings=base, arguments=launch.arguments, data_root=self.root),
                watcher.say,
            ) as server:
                return server.read_back({*known, *also})
        except StartFailed as error:
            if error.refusal is None:
                raise
            raise refusal(error.refusal, self.build) from error

    def candidates(
        self, propose: Propose, base: Settings, seen: Settings, keep: Sequence[str], memory: str | None
    ) -> Candidates:
        free = available_memory_bytes()
        memory_bytes = free if memory is None else min(parse_size(memory), free)
        return propose(base={**base, **seen}, memory_bytes=memory_bytes, keep=keep), ()

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        signs = (Warning("other-server", text) for text in caveats(self.signs, self.build))
        return (
            *([co_located(self.identity.nodes, self.latency_s)] if self.identity.nodes > 1 else []),
            *signs,
        )


@dataclass(frozen=True, kw_only=True)
class OwnServerSettings(ServerSettings):
    server: RemoteGroup

    restarts: ClassVar[bool] = False

    def read(
        self, base: Settings, launch: Launch, watcher: Watcher, also: Iterable[str] = ()
    ) -> dict[str, Value]:
        return self.has(also)

    def has(self, also: Iterable[str] = ()) -> dict[str, Value]:
        names = load_catalog().names(self.identity.flavor, self.identity.version)
        return self.server.read_back({*names, *also})

    def persisted(self) -> Mapping[str, str] | None:
        return persisted(self.server.query, self.identity)

    def raise_to_floor(
        self, settings: Settings, floor: Floor, keep: Iterable[str], launch: Launch
    ) -> tuple[dict[str, Value], tuple[str, ...]]:
        changes, reasons = super().raise_to_floor(settings, floor, keep, launch)
        if names := restarts(changes, self.has(settings), self.identity):
            raise BelowFloor(
                f"your server is below the floor {floor}: {'; '.join(reasons)}, and {names[0]} {_RESTART}",
                hint="set it and restart the server, or choose a lower --floor",
            )
        return changes, reasons

    def candidates(
        self, propose: Propose, base: Settings, seen: Settings, keep: Sequence[str], memory: str | None
    ) -> Candidates:
        pool = seen.get("innodb_buffer_pool_size")
        memory_bytes = pool if isinstance(pool, int) else 0
        # What needs a steady state is proposed too: the user is told that it was not tried.
        proposed = partial(propose, base={**seen, **base}, memory_bytes=memory_bytes, steady_state=True)
        kept, out = list[str](), dict[str, list[str]]()
        for one in proposed(keep=keep):
            if why := self._why_not_tried(one, seen):
                kept += one.settings  # what is out keeps nothing out
                out.setdefault(why, []).extend(f"{name}={value}" for name, value in one.settings.items())
        notes = (
            Warning("not-tried", f"not tried: {', '.join(dict.fromkeys(values))}: {why}")
            for why, values in out.items()
        )
        left = proposed(keep=[*keep, *kept])
        return tuple(one for one in left if not self._why_not_tried(one, seen)), tuple(notes)

    def _why_not_tried(self, candidate: Candidate, has: Settings) -> str:
        if restarts(candidate.settings, has, self.identity):
            return f"it {_RESTART}"
        if candidate.needs_steady_state:
            return "its effect shows later, in background work, which short slices cannot measure"
        for name in candidate.settings:
            try:
                require_alike(self.server.nodes, [name])
            except ServerError as error:
                return error.message
        return ""

    def reduced(self, plan: Plan, values: Settings) -> tuple[Plan, tuple[Warning, ...]]:
        static = {
            name: canonical(name)
            for name, value in plan.base.items()
            if restart_settings({canonical(name): value}, self.identity)
        }
        notes = tuple(
            Warning(
                "base-left-out",
                f"the base is measured without {name}={plan.base[name]}, which {_RESTART}:"
                f" it is {values.get(variable, 'not known')} there",
            )
            for name, variable in static.items()
            if restarts({variable: plan.base[name]}, values, self.identity)
        )
        base = {name: value for name, value in plan.base.items() if name not in static}
        return msgspec.structs.replace(plan, base=base, alternate=False), notes

    def warnings(self, changed: Iterable[str] = ()) -> tuple[Warning, ...]:
        text = (
            "this is not flushlab's own server: whatever else it does affects the results, and its host"
            " cannot be seen"
        )
        later = "shows later, in background work, which short slices cannot measure"
        catalog = load_catalog()
        return (
            Warning(EXTERNAL, text),
            *(
                Warning("shows-later", f"the effect of {name} {later}", name)
                for name in changed
                if name in catalog and catalog.setting(name).needs_steady_state
            ),
        )


# -- what servers that flushlab starts get


def connection_arguments(threads: int) -> tuple[str, ...]:
    wanted = threads + _SPARE_CONNECTIONS
    return (f"--max-connections={wanted}",) if wanted > _DEFAULT_MAX_CONNECTIONS else ()


def brought_along(data: Data | None, identity: ServerIdentity, watcher: Watcher) -> dict[str, Value]:
    """They hold above every option file: what SET PERSIST set, and what shapes the files of a backup."""
    if data is None:
        return {}
    given = data.dataset.settings()
    settings, left_out = admit_for(given, identity.flavor, identity.version, nodes=identity.nodes)
    where = f"{data.dataset.path}: its own settings"
    if settings:
        words = ", ".join(f"{name}={value}" for name, value in settings.items())
        watcher.warn(f"{where}, added to the base: {words}")
    if left_out:
        watcher.warn(f"{where}, left out: {describe_left_out(left_out)}")
    return settings


def file_settings(
    path: Path | None, build: Build, identity: ServerIdentity, watcher: Watcher
) -> dict[str, Value]:
    if path is None:
        return {}
    file = read_base_file(path, build, identity)
    for note in file.notes:
        watcher.warn(note)
    settings = dict(file.settings)
    for name, value in file.settings.items():
        here = Configuration({}, identity).here(name)
        if here is not None and (why := here.unfit(value, identity.nodes)):
            watcher.warn(f"{path}: left out: {why}")
            del settings[name]
    return settings


def fit_alike(files: Mapping[Path | None, Settings], fit: Callable[..., Fit]) -> dict[Path | None, Fit]:
    fits = {file: fit(settings) for file, settings in files.items()}
    least = min(fits, key=lambda file: fits[file].factor)
    shrunk = Shrunk(f"{least}", fits[least].factor)
    return {
        file: one if one.factor == shrunk.factor else fit(files[file], like=shrunk)
        for file, one in fits.items()
    }


def texts_of(files: Iterable[Path | None]) -> tuple[SourceText, ...]:
    texts = dict[str, str]()
    for file in files:
        if file is not None and file.is_file():
            texts |= whole(file.absolute())
    return tuple(source_text("option file", path, text.encode()) for path, text in texts.items())


def co_located(nodes: int, latency_s: float) -> Warning:
    text = (
        f"{nodes} nodes share this machine's processors and disk (co-located): what was measured does"
        " not transfer as it is to nodes that have machines of their own"
    )
    if not latency_s:
        return Warning("co-located", f"{text}; nor is there a network between them")
    there = f"; between them are {format_latency(latency_s * 1e6)} of network, there and back"
    return Warning("co-located", text + there)


# -- what the user's running server takes; pure


def restarts(settings: Settings, has: Settings, identity: ServerIdentity) -> list[str]:
    same = Configuration({}, identity).same
    return [
        name
        for name, value in restart_settings(settings, identity).items()
        if name not in has or not same(name, has[name], value)
    ]


def why_not(settings: Settings, has: Settings, identity: ServerIdentity) -> str:
    names = restarts(settings, has, identity)
    return f"{', '.join(names)} {_RESTART}" if names else ""
