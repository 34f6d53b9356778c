"""Session: one `flushlab test`, from the request to the result.

Suite layer. Nothing is printed; progress goes to `say`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from flushlab.build.choice import of_word, other
from flushlab.datadir import DataRoot, Snapshot, Snapshots
from flushlab.errors import FlushlabError, SnapshotDamaged, UsageError
from flushlab.machine import available_memory_bytes, cpu_count
from flushlab.process import myself
from flushlab.process.running import publish_status
from flushlab.progress import Progress
from flushlab.record import ServerIdentity, Value
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.control import StatementFailed
from flushlab.server.remote.server import watched
from flushlab.server.sandbox.contents import initialised
from flushlab.server.sandbox.option_files import new_password
from flushlab.server.sql import changed_values
from flushlab.settings.admission import require_admitted
from flushlab.settings.words import find_words
from flushlab.suite import command, prepare
from flushlab.suite.command import CommandEnd
from flushlab.suite.endpoint import Objects, SuiteEndpoint, SuiteMonitor
from flushlab.suite.pool import LEAST, Pool, PoolUse
from flushlab.suite.profile import ChosenRoot, arguments, choose_root, reserve_bytes, throwaway
from flushlab.suite.request import SuiteRequest, create_database, fields_of, variables
from flushlab.suite.servers import Reset, Servers, Starter, SuiteServer, ending
from flushlab.suite.templates import Facts, Templates, changes, read_facts
from flushlab.units import counted, format_size

if TYPE_CHECKING:
    from flushlab.telemetry import Observation

RESET_FILE = "reset.url"
"""In a server's folder: the address of its resets, for `flushlab server reset NAME`."""
_MOST_TOLD = 3
"""Most changed files that are named."""
INTERNAL = 70
"""Exit code where flushlab itself was wrong."""
_ANSWER_S = 10.0
"""A server that has not answered a small question by then hangs; a busy machine holds it up for seconds."""


class SuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """`template`: hit, prefix, miss or none; `saved_seconds`: the preparation's when the template was made;
    `death`: why a server ended before the command; `stopped`: flushlab stopped one for lack of memory."""

    exit_code: int
    template: str = "none"
    seconds: Mapping[str, float] = {}
    server: ServerIdentity | None = None
    settings: Mapping[str, Value] = {}
    in_memory: bool = False
    workers: int = 1
    resets: Sequence[Reset] = ()
    pool: PoolUse = PoolUse()
    recreated: Objects | None = None
    created: Objects | None = None
    saved_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    death: str = ""
    stopped: bool = False
    observation: Any = None


def require_prepared(ended: CommandEnd, request: SuiteRequest) -> None:
    """Tools that shut down in order exit with 0 when they are interrupted, with half of the work done. So
    does a script that goes on behind a client that failed."""
    if ended.interrupted:
        raise KeyboardInterrupt
    said = f": {ended.errors[0]}" if ended.errors else ""
    on = f"on {request.build.name}{f' ({request.chosen})' if request.chosen else ''}"
    none = "no template was kept and the suite did not run"
    build, ways = request.build, list[str]()
    words = [
        word for word in find_words(ended.tail, "message") if not word.taken_by(build.flavor, build.version)
    ]
    name = other([*request.signs, *(of_word("it", word) for word in words)], build.flavor, build.version)
    if words and name:
        ways.append(f"{name} takes {words[0].says}: try --server {name}")
    read = "read the output of the prepare command above"
    if not ended.tail.strip():
        read = (
            "the prepare command printed nothing: let it show its errors, without 2>/dev/null or a log file"
        )
    if ended.exit_code != 0:
        raise UsageError(
            f"the prepare command exited with code {ended.exit_code} {on}; {none}{said}",
            hint="; ".join(ways or [read]),
        )
    if ended.errors and not request.spec.keep_failed:
        ways += ["end the command at its first error (set -e), or keep the result with --keep-failed"]
        raise UsageError(
            f"the prepare command reported an error {on}, although it exited with code 0; {none}{said}",
            hint="; ".join(ways),
        )


class SuiteSession:
    def __init__(self, request: SuiteRequest, say: Progress) -> None:
        self._request = request
        self._say = say
        self._notes: list[str] = []
        self._prepare_s = 0.0
        self._observe = False
        self._began_s = 0.0
        self._template = "none"
        self._password = request.password or new_password()  # one for all workers: less to tell them
        self._templates = Templates(request.cache, request.limit_bytes)
        require_admitted(throwaway(request.build, "memory", request.settings))

    def prepare(self) -> float:
        snapshot = self._obtain()
        return read_facts(snapshot).prepare_seconds if self._prepare_s else 0.0

    def run(self, *, observe: bool = False) -> SuiteResult:
        self._observe = observe
        self._began_s = since_process_start() if observe else 0.0
        problem = command.find_problem(self._request.words, os.environ)
        if problem is not None:
            return SuiteResult(exit_code=problem.exit_code, notes=(problem.problem,))
        servers, starter = self._ready()
        first = servers[0].sandbox
        with ending(servers), self._pool(starter) as pool:
            with (
                SuiteEndpoint(servers, pool, self._fields) as endpoint,
                SuiteMonitor(servers, self._request.settings, pool) as monitor,
            ):
                environment = self._environment(servers, endpoint.urls)
                if not observe:
                    environment["FLUSHLAB_POOL_URL"] = endpoint.pool_url
                for server, url in zip(servers, endpoint.urls, strict=True):
                    file = server.folder / RESET_FILE
                    file.touch(0o600, exist_ok=False)
                    file.write_text(url)
                asked = first.settings
                settings = settings_of(first, asked)
                for caveat in changed_values(first.identity, asked, settings):
                    self._note(caveat.text)
                for server in servers:
                    server.expect_resets()
                if self._request.pool is not None:
                    pool.expect(cpu_count())
                ready_s = since_process_start() - self._began_s
                about = f"command: {self._request.words[0]}"
                with ExitStack() as stack:
                    status = publish_status("test", server=self._request.build.name, workload=about)
                    live = stack.enter_context(status)
                    for number, server in enumerate(servers, 1):
                        seen_as = watched(server.sandbox, f"worker {number}")
                        stack.enter_context(live.running_server(seen_as))
                    ended, command_s, observation = self._run_command(first, environment)
            closing_s = time.monotonic()
            self._notes += monitor.notes
            in_use = (*servers, *pool.leased)
            death = "\n".join(filter(None, (_death(server) for server in in_use)))
            in_memory = all(server.sandbox.storage.in_memory for server in servers)
            use = pool.use
        faults = self._note_troubles(servers, pool.faults())
        if ended.problem:
            self._note(ended.problem)
        saved = read_facts(starter.snapshot).prepare_seconds if self._template != "none" else 0.0
        return SuiteResult(
            exit_code=INTERNAL if faults else ended.exit_code,
            template=self._template,
            seconds={
                "ready": ready_s - self._prepare_s,
                "prepare": self._prepare_s,
                "command": command_s,
                "teardown": time.monotonic() - closing_s,
            },
            server=first.identity,
            settings=settings,
            in_memory=in_memory,
            workers=len(servers),
            resets=[*(reset for server in servers for reset in server.resets), *pool.resets()],
            pool=use,
            recreated=next((habits.recreated for habits in monitor.habits if habits.recreated), None),
            created=next((habits.created for habits in monitor.habits if habits.created), None),
            saved_seconds=saved,
            notes=tuple(self._notes),
            death=death,
            stopped=any(server.stopped_for for server in in_use),
            observation=observation,
        )

    @contextmanager
    def open(self) -> Iterator[Servers]:
        servers, _ = self._ready()
        for note in self._notes:
            self._say(note)
        said = len(self._notes)
        try:
            with ending(servers), SuiteMonitor(servers, self._request.settings):
                for server in servers:
                    server.expect_resets()
                yield servers
        finally:
            self._note_troubles(servers)
            for note in self._notes[said:]:
                self._say(note)

    def _ready(self) -> tuple[Servers, Starter]:
        clones, workers = self._request.spec.clones, self._request.workers
        if self._observe and clones is None:
            clones = 0  # what is seen is seen of one server
        try:
            return self._start(self._obtain(), workers, clones, undo=True)
        except SnapshotDamaged:  # it is dropped and noted; now it is made anew
            return self._start(self._obtain(), workers, clones, undo=True)

    def _run_command(self, sandbox: Sandbox, environment: Mapping[str, str]) -> tuple[CommandEnd, float, Any]:
        if not self._observe:
            began = time.monotonic()
            ended = command.run(self._request.words, environment)
            return ended, time.monotonic() - began, None
        from flushlab.telemetry import performance

        performance.switch_on(sandbox)
        ended, seconds, seen = observed(sandbox, self._request.words, environment)
        if ended.interrupted:
            raise KeyboardInterrupt  # half of a suite is no measurement
        return ended, seconds, seen

    def _obtain(self) -> Snapshot:
        if not self._request.prepare:
            return self._unprepared()
        found = self._templates.find(self._request)
        if found is not None and (errors := read_facts(found).errors):
            if self._request.spec.keep_failed:
                self._note(_kept_failed(errors))
            else:
                self._templates.drop(found)
                found = None
        if found is not None:
            self._template = "hit"
            return found
        known = self._templates.find_prefix(self._request)
        if known is None:
            self._say_changes()
        elif why := prepare.reason_not_reusable(known[1]):
            self._say(_in_full(known[1], f"cannot be extended: {why}"))
        elif (snapshot := self._prepare_on(*known)) is not None:
            self._template = "prefix"
            return snapshot
        made = self._prepare_on(self._unprepared(), None)
        assert made is not None, "only a prefix can turn out to be unusable"
        self._template = "miss"
        return made

    def _say_changes(self) -> None:
        last = self._templates.find_last(self._request, Path.cwd())
        if last is None:
            return
        changed = [*changes(last.scripts, self._request.scripts), *changes(last.inputs, self._request.inputs)]
        if changed:
            more = f" and {len(changed) - _MOST_TOLD} more" if len(changed) > _MOST_TOLD else ""
            since = f"since the last template, {', '.join(changed[:_MOST_TOLD])}{more}"
            self._say(f"{since}; the prepare command runs in full")

    def _unprepared(self) -> Snapshot:
        recipe = self._request.unprepared
        found = self._templates.find(recipe)
        if found is not None:
            return found
        data = f" with {self._request.dataset}" if self._request.dataset else ""
        self._say(f"creating a template of {recipe.build.name}{data}, once")
        bare = self._loaded() or initialised(recipe.build, recipe.content, self._say)
        chosen = self._choose_root(bare.allocated_bytes, 1)
        with Sandbox.start(
            SandboxSpec(
                recipe.build,
                settings=throwaway(recipe.build, chosen.where, self._request.settings),
                arguments=arguments(recipe.build, chosen.where),
                data_root=chosen.root,
                snapshot=bare,
                settle=False,
            )
        ) as sandbox:
            try:
                sandbox.query(create_database(recipe.database, recipe.characters))
            except StatementFailed as error:
                raise UsageError(
                    f"{recipe.build.name} cannot make the database {recipe.database}: {error.text}",
                    hint="SHOW CHARACTER SET and SHOW COLLATION list what it has",
                ) from error
            sandbox.stop()
            return self._templates.capture(recipe, sandbox.datadir, Facts)

    def _loaded(self) -> Snapshot | None:
        if self._request.dataset is None:
            return None
        from flushlab.dataset import loaded, open_dataset  # a suite without them starts without it
        from flushlab.settings.configuration import layout_of

        return loaded(
            self._request.build,
            open_dataset(self._request.dataset),
            database=self._request.database,
            layout=layout_of(self._request.content),
            data_root=DataRoot.open(self._request.data_root),
            snapshots=Snapshots(),
            progress=self._say,
        )

    def _prepare_on(self, base: Snapshot, known: Facts | None) -> Snapshot | None:
        with ending(self._start(base, 1)[0]) as servers:
            sandbox = servers[0].sandbox
            environment = self._environment(servers)
            ended = self._prepare_once(environment)
            seconds = self._prepare_s
            if known is None or ended.interrupted:
                require_prepared(ended, self._request)
            after = prepare.histories(sandbox.query)
            if known is not None:
                added = len(self._request.inputs) - len(known.inputs)
                why = ""
                if ended.exit_code != 0 or ended.errors:
                    why = "the prepare command failed on it"
                elif not prepare.only_added(known.histories, after, added):
                    why = "the migration tool's table did not grow by the new inputs"
                if why:
                    self._say(_in_full(known, f"cannot be extended: {why}"))
                    return None
                seconds += known.prepare_seconds
            if ended.errors:
                self._note(_kept_failed(ended.errors))
            sandbox.stop()

            def facts() -> Facts:
                rerunnable = known is not None or (
                    bool(after and self._request.inputs and not ended.errors)
                    and self._changes_nothing(sandbox, environment)
                )
                return Facts(
                    folder=str(Path.cwd()),
                    scripts=self._request.scripts,
                    inputs=self._request.inputs,
                    histories=after,
                    rerunnable=rerunnable,
                    prepare_seconds=seconds,
                    errors=ended.errors,
                )

            return self._templates.capture(self._request, sandbox.datadir, facts)

    def _prepare_once(self, environment: Mapping[str, str]) -> CommandEnd:
        """Its stdout goes to stderr: stdout is the suite's."""
        began = time.monotonic()
        sys.stderr.flush()
        try:
            return command.run_listening(["/bin/sh", "-c", self._request.prepare], environment)
        finally:
            self._prepare_s += time.monotonic() - began

    def _changes_nothing(self, sandbox: Sandbox, environment: Mapping[str, str]) -> bool:
        self._say(
            "flushlab runs the prepare command again: if nothing changes, later runs can add migrations"
            " to this template"
        )
        sandbox.start_again()
        before = prepare.fingerprint(sandbox.query)
        ended = self._prepare_once(environment)
        if ended.interrupted:
            raise KeyboardInterrupt
        failed = ended.exit_code != 0 or bool(ended.errors)
        if failed:
            self._say("the second run failed; the template keeps the result of the first run")
        return not failed and prepare.fingerprint(sandbox.query) == before

    def _start(
        self, snapshot: Snapshot, count: int, clones: int | None = 0, *, undo: bool = False
    ) -> tuple[Servers, Starter]:
        starter = Starter(
            self._request,
            snapshot,
            self._templates.snapshots,
            root=self._choose_root(snapshot.allocated_bytes, count * (1 + (clones or 0))),
            password=self._password,
            say=self._note,
            undo=undo,
        )
        try:
            return starter.start_all(count, clones), starter
        except SnapshotDamaged as error:
            self._note(f"{error.message}; the template is created again")
            self._templates.drop(snapshot)
            raise

    def _pool(self, starter: Starter) -> Pool:
        asked = self._request.pool
        if asked is not None:
            said = (
                f"a pool of {counted(asked, 'server')} takes up to {format_size(starter.memory_for(asked))}"
            )
            free = max(0, available_memory_bytes() - reserve_bytes())
            self._say(f"{said} of memory, as tests ask for them; {format_size(free)} is free for it")
        most = asked or max(LEAST, cpu_count())
        return Pool(lambda check: starter.start(0, check=check), most, starter.has_room, self._say)

    def _choose_root(self, template_bytes: int, count: int) -> ChosenRoot:
        chosen = choose_root(
            template_bytes, count, self._request.data_root, memory=self._request.spec.in_memory
        )
        if not chosen.in_memory and self._request.spec.in_memory:
            self._note(f"the data directory is on disk: {chosen.reason}")
        return chosen

    def _environment(self, servers: Servers, urls: Sequence[str] = ()) -> dict[str, str]:
        fields = [self._fields(one) for one in servers]
        if urls:
            fields = [{**one, "reset_url": url} for one, url in zip(fields, urls, strict=True)]
        return {**os.environ, **variables(fields, self._request.templates)}

    def _fields(self, server: SuiteServer) -> dict[str, str]:
        fields = fields_of(self._request.build, server.endpoint, self._request.database)
        return {**fields, "name": server.name}

    def _note_troubles(self, servers: Servers, of_pool: Sequence[str] = ()) -> list[str]:
        faults = [*filter(None, (server.fault for server in servers)), *of_pool]
        for fault in faults:
            self._note(f"internal error: {fault}; the server was replaced")
        if times := sum(server.shortages for server in servers):
            self._note(
                f"connections waited {counted(times, 'time')} because flushlab had no file descriptor left; "
                "raise the hard limit of open files (ulimit -n), or open fewer connections"
            )
        return faults

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)


def observed(
    sandbox: Sandbox,
    words: Sequence[str],
    environment: Mapping[str, str],
    run: Callable[[Sequence[str], Mapping[str, str]], CommandEnd] = command.run,
) -> tuple[CommandEnd, float, Observation]:
    from flushlab.telemetry import Observation, observe  # for comparisons only: they take long to import

    seen = Observation()
    with observe(sandbox, seen):
        began = time.monotonic()
        ended = run(words, environment)
        took = time.monotonic() - began
    return ended, took, seen


def settings_of(sandbox: Sandbox, names: Iterable[str]) -> dict[str, Value]:
    return {**sandbox.settings, **sandbox.read_back(names)}


def since_process_start() -> float:
    """The interpreter's own start is included; by proc(5)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - myself().start_ticks / os.sysconf("SC_CLK_TCK")


def _kept_failed(errors: Sequence[str]) -> str:
    return f"the template was kept although the prepare command reported an error: {errors[0]}"


def _in_full(known: Facts, why: str) -> str:
    template = f"the template of the first {len(known.inputs)} inputs"
    return f"{template} {why}; the prepare command runs in full"


def _death(server: SuiteServer) -> str:
    sandbox = server.sandbox
    if server.stopped_for:
        return f"the server {sandbox.name} was stopped during the suite: {server.stopped_for}"
    try:
        sandbox.query("SELECT 1", answer_s=_ANSWER_S)
    except StatementFailed:
        return ""  # an answer
    except FlushlabError as error:
        hangs = f"hangs: it did not respond within {_ANSWER_S:.0f} s after the suite"
        end = hangs if sandbox.alive() else f"died during the suite: {error.message}"
        return f"the server {sandbox.name} {end}\n{sandbox.log_tail(10)}"
    return ""
