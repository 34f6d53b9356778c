"""`fill`: rows of a plan into a server, as fast as it takes them; the function behind `flushlab fill`.

Sits in `bulk`. Promises:

- Every row is there once, or the load fails with an error that names the missing rows.
- A load that ends early can be continued.
- Every change to the server is undone. Only a sandbox's binary log may differ: it lacks the rows.
"""

from __future__ import annotations

import resource
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from flushlab import _core
from flushlab.bulk import choice, native, preflight
from flushlab.bulk.choice import Possible, Slices, Unloaded, compare_methods, rows_of
from flushlab.bulk.destinations import Destination, destination
from flushlab.bulk.filled import Filled, FilledTable, FillStep, LoadMethod, Tried
from flushlab.bulk.limits import (
    REPLICATED_CHUNK_BYTES,
    Counts,
    LimitEvidence,
    LoadBound,
    Throttle,
    bound,
    throttle,
)
from flushlab.bulk.native import Range, TableLoad
from flushlab.bulk.preflight import ServerState
from flushlab.bulk.tables import SAMPLED, LoadNote, LoadSample, Notes, Tables, count, orphans, sampled_rows
from flushlab.datadir import own_disk, require_fault_disk
from flushlab.errors import ServerError, UsageError
from flushlab.generate.plan import FillPlan, PlanTable, read_plan
from flushlab.process.running import publish_status
from flushlab.progress import Progress, silent
from flushlab.record import Warning
from flushlab.record.running import FillProgress
from flushlab.server import Sandbox
from flushlab.server.control import StatementFailed
from flushlab.server.galera.cluster import Cluster
from flushlab.server.remote.login import from_dsn, from_option_file
from flushlab.server.remote.made_tables import drop_left
from flushlab.server.remote.put_back import put_back_left
from flushlab.server.remote.server import watched
from flushlab.server.sql import quoted, require_not_system
from flushlab.server.start import is_kept
from flushlab.settings.configuration import LOST_AT_RESTART
from flushlab.spec import fields
from flushlab.spec.build import build, names_given, taking
from flushlab.spec.kinds import FillSpec
from flushlab.spec.option import flag
from flushlab.units import counted
from flushlab.workload.engine import errno_of

_LAST_OF_NAMES = 0xFFFF
"""MySQL manual, "Schema Object Names": supplementary characters are not permitted."""


@taking(
    FillSpec,
    progress="Takes a line at a time.",
    show="Takes how far the load is, a few times a second.",
)
def fill(
    plan: Path | str = "users",
    *,
    progress: Progress = silent,
    show: Callable[[FillProgress], None] = lambda _: None,
    **given: Any,
) -> Filled:
    """Fills tables with the rows of a plan.

    A build's new sandbox, or cluster, is kept. `replica` names servers that replicate from a server of your
    own, each by DSN or option file. The load waits while a replica is behind, does not replicate or does not
    answer.

    Returns:
        What was loaded, how fast, and what the limit was. It has been verified.

    Raises:
        UsageError: what makes no sense, or tables that are not as they must be.
        ServerError, ServerDied: the server refused rows, or is gone; `resume` goes on.
    """
    spec = build(FillSpec, {"plan": plan, **given})
    _require_sensible(spec)
    if own_disk(spec.storage.disk) is not None:
        require_fault_disk()
    replicas = [
        from_dsn(one, "--replica") if "://" in one else from_option_file(Path(one)) for one in spec.replica
    ]
    put_back_left(progress)
    drop_left(progress)
    rows = read_plan(spec.plan, rows=spec.rows, seed=spec.seed)
    with destination(spec, rows, progress) as place:
        server, python_before = place.server, _core.python_seconds()
        with (
            throttle(server, replicas, spec.max_lag, progress) as throttled,
            publish_status("fill", server=server.identity.name, workload=rows.name) as live,
            live.running_server(watched(server)),
        ):

            def publish(far: FillProgress) -> None:
                live.fill(far)
                show(far)

            done = Load(place, spec, rows, throttled, progress, publish).run()
        if took := _core.python_seconds() - python_before:
            progress(f"Python functions took {took:.1f} s, over all threads")
    if not isinstance(server, Sandbox | Cluster):
        return done
    client = server.build.client or "mysql"
    command = f"{client} --defaults-file={server.endpoint.option_file} {shlex.quote(place.database)}"
    return msgspec.structs.replace(done, sandbox=server.name, client=command)


def _require_sensible(spec: FillSpec) -> None:
    _exclusive(append=spec.append, truncate=spec.truncate, continue_=spec.continue_)
    _exclusive(compare_methods=spec.compare_methods, continue_=spec.continue_)
    elsewhere, kept = spec.remote.named_by, is_kept(spec.server.build)
    if spec.continue_ and not elsewhere and not kept:
        raise UsageError(
            "--continue needs the server whose load was interrupted",
            hint="name it: --server sandbox:NAME or --dsn",
        )
    for key in names_given(spec) - {"server"} if kept else ():
        if (field := fields(FillSpec)[key]).option.started:
            raise UsageError(
                f"{field.flag} needs a new server, but {spec.server.build} is named, which there is already",
                hint="remove one of them",
            )
    if spec.replica and not elsewhere:
        raise UsageError(
            "--replica is for a server of your own: a sandbox's load leaves out the binary log",
            hint="remove it",
        )
    if any(ord(letter) > _LAST_OF_NAMES for letter in spec.database or ""):
        raise UsageError(
            f"no server accepts the name {spec.database!r}",
            hint="characters beyond U+FFFF, such as emoji, are not for names",
        )
    if spec.database is not None:
        require_not_system(spec.database)


def _exclusive(**flags: bool) -> None:
    given = [flag(name) for name, value in flags.items() if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} cannot be combined", hint="give one of them")


_SESSION = (
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'"
)
CHUNK_BYTES = 64 << 20
_KEY_EXISTS = 1061
_DUPLICATE = 1062
_NO_LOCAL_FILES = (1148, 3948, 4166)
"""ER_NOT_ALLOWED_COMMAND; ER_CLIENT_LOCAL_FILES_DISABLED of MySQL 8.0; ER_LOAD_INFILE_CAPABILITY_DISABLED of
MariaDB."""
_NO_DEFAULT = 1364
"""ER_NO_DEFAULT_FOR_FIELD: LOAD DATA of MySQL 8.0.15 says so of columns that it sets itself."""
_RETRIED = {1205: "too long a wait for a lock", 1213: "a deadlock"}
_MAKES_UNSAFE = "another program writes to it, or the server changed them"


class Load:
    def __init__(
        self,
        place: Destination,
        asked: FillSpec,
        plan: FillPlan,
        throttle: Throttle,
        say: Progress,
        show: Callable[[FillProgress], None],
    ) -> None:
        self._place, self._server, self._database = place, place.server, place.database
        self._asked, self._plan, self._throttle = asked, plan, throttle
        self._say, self._show = say, show
        self._notes = Notes(self._server, self._database)
        self._tables = Tables(self._server, self._database, asked, create=place.create)
        self._left: Sequence[LoadNote] = ()
        self._first: Mapping[str, int] = {}
        self._warnings: list[Warning] = []
        self._tried: tuple[Tried, ...] = ()
        self._index_seconds = 0.0

    def run(self) -> Filled:
        asked, server, say = self._asked, self._server, self._say
        seen = preflight.read_server_state(server)
        preflight.require_connections(seen, asked.threads or 1)
        server.query(_SESSION)
        self._left = self._left_notes()
        if self._left:
            self._resume()
        else:
            self._prepare()
        due = {
            table.name: sum(note.end - note.next for note in self._left if note.table == table.name)
            if self._left
            else table.rows - self._first[table.name]
            for table in self._plan.tables
        }
        load_bytes = self._bytes(due)
        if (caveat := preflight.space_warning(server, load_bytes)) is not None:
            self._warnings.append(caveat)
            say(f"warning: {caveat.text}")  # at once: behind the load it is too late
        for table in self._plan.tables if not self._left else ():
            with self._sample(table, 100).inserted():
                pass  # values that a table cannot hold are found before anything is loaded
        largest = max(self._plan.tables, key=lambda table: table.rows)
        possible = self._possible(seen)
        steps: tuple[FillStep, ...] = ()
        if asked.compare_methods and not self._left:
            rows = due[largest.name]
            steps = compare_methods(self._place, largest, rows, self._spec, possible, self._say)
        self._place.quicken()
        server.query(_SESSION)  # it may have been restarted
        tries = not self._left and asked.method == "auto" and due[largest.name] >= choice.LEAST_ROWS
        method = self._first_method(seen, possible, largest, tries=tries)
        self._warnings += preflight.load_warnings(
            seen, method.connections, load_bytes, ours=self._place.ours, waits=bool(asked.replica)
        )
        parts = max(possible.connections, 1) if tries else method.connections
        notes = self._left or self._begin(method, parts)
        method, done, seconds = self._load(notes, method, largest.name if tries else "", possible)
        verified_from = time.perf_counter()
        tables = tuple(self._verify(table, done.get(table.name)) for table in self._plan.tables)
        self._notes.drop()
        longest = max(done.values(), key=lambda one: one.seconds, default=None)
        limit = bound(longest) if longest is not None else LoadBound(what="nothing", why="no rows were left")
        rows = sum(one.committed for one in done.values())
        return Filled(
            plan=self._plan.name,
            server=server.identity,
            database=self._database,
            tables=tables,
            rows=rows,
            rows_per_s=rows / max(seconds, 1e-6),
            resumed_rows=sum(note.next - note.first for note in self._left),
            bytes=sum(one.bytes for one in done.values()),
            seconds=seconds,
            index_seconds=self._index_seconds,
            verify_seconds=time.perf_counter() - verified_from,
            method=method,
            tried=self._tried,
            bound_by=limit.what,
            why=limit.why,
            peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            waited=dict(self._throttle.waited),
            warnings=(*self._tables.warnings, *self._warnings),
            steps=steps,
        )

    def _left_notes(self) -> list[LoadNote]:
        left, resume = self._notes.read(), self._asked.continue_
        if resume and self._asked.method == "single":
            raise UsageError(
                "--method single does not record how far it has come, so it cannot resume",
                hint="use another method",
            )
        if resume and not left:
            raise UsageError(
                f"there is nothing to resume in {self._database}",
                hint="leave --continue out: no load was interrupted there",
            )
        if left and not resume:
            rows = sum(note.next - note.first for note in left)
            of = sum(note.end - note.first for note in left)
            raise UsageError(
                f"an earlier load into {self._database} did not finish: {rows:,} of {of:,} rows are there",
                hint=f"--continue continues it; or drop its tables and {self._notes.table}",
            )
        return left

    def _resume(self) -> None:
        left = self._left
        self._first = {note.table: min(n.first for n in left if n.table == note.table) for note in left}
        self._plan = self._with_rows_there()
        if any(note.plan != self._plan.digest for note in left):
            rows = sum(note.end - note.first for note in left)
            raise UsageError(
                f"the load to resume in {self._database} has another plan, seed or number of rows ({rows:,})",
                hint="give the plan, --rows and --seed that it was started with",
            )

    def _prepare(self) -> None:
        self._first = self._tables.prepare(self._plan)
        if any(self._first.values()) and len(self._plan.tables) > 1:
            raise UsageError(
                f"--append takes a plan of one table, and {self._plan.name} has {len(self._plan.tables)}",
                hint="use --truncate, or another database",
            )
        self._plan = self._with_rows_there()

    def _with_rows_there(self) -> FillPlan:
        existing = max(self._first.values())
        rows = existing + max(table.rows for table in self._plan.tables)
        return read_plan(self._asked.plan, rows=rows, seed=self._asked.seed) if existing else self._plan

    def _bytes(self, due: Mapping[str, int]) -> int:
        total = 0
        for table in self._plan.tables:
            if some := list(range(min(table.rows, 20))):
                of_some = len(native.sample_rows(self._server, self._plan, table.name, some))
                total += of_some * due[table.name] // len(some)
        return total

    def _sample(self, table: PlanTable, rows: int) -> LoadSample:
        numbers = sampled_rows(self._first.get(table.name, 0), table.rows, rows)
        return LoadSample(self._server, self._database, self._plan, table, numbers)

    def _possible(self, seen: ServerState) -> Possible:
        asked, empty = self._asked, not self._left and not any(self._first.values())
        left = seen.number("max_connections", 1 << 20) - seen.connected - 2
        return Possible(
            load_data=seen.is_on("local_infile") and not seen.splits_load_data,
            prepared=choice.gains_by_preparing(self._server.identity),
            indexes_may_wait=empty and (self._place.ours or bool(self._tables.made)),
            connections=asked.threads or max(1, min(choice.most_connections(), left)),
            fixed=asked.threads is not None,
            packet_bytes=max(1024, min(seen.number("max_allowed_packet", 1 << 30), 16 << 20) * 3 // 4),
        )

    def _first_method(
        self, seen: ServerState, possible: Possible, largest: PlanTable, *, tries: bool
    ) -> LoadMethod:
        if tries:
            return choice.start(self._server, self._database, largest.name, possible)
        if self._asked.method != "auto":
            method = self._named(seen, possible)
        elif self._left:
            connections = self._asked.threads or sum(note.next < note.end for note in self._left) or 1
            method = choice.resumed_method(self._server, self._database, largest.name, possible, connections)
        else:
            method = choice.first_method(possible, possible.connections if possible.fixed else 1)
        self._say_method(method)
        return method

    def _named(self, seen: ServerState, possible: Possible) -> LoadMethod:
        method, threads = self._asked.method, self._asked.threads
        if method == "load-data" and seen.splits_load_data:
            raise ServerError(
                "wsrep_load_data_splitting is ON: the server commits LOAD DATA in pieces of its own",
                hint=f"SET GLOBAL wsrep_load_data_splitting = OFF there ({LOST_AT_RESTART}), or use"
                " --method insert",
            )
        if method == "load-data" and not possible.load_data:
            raise ServerError(
                "local_infile is OFF: the server takes no LOAD DATA LOCAL",
                hint=f"SET GLOBAL local_infile = ON there ({LOST_AT_RESTART}), or use --method insert",
            )
        if method == "single":
            return LoadMethod(
                kind="single", connections=threads or 1, batch_rows=1, packet_bytes=possible.packet_bytes
            )
        named = msgspec.structs.replace(possible, load_data=method == "load-data")
        return choice.first_method(named, threads or min(possible.connections, 2))

    def _begin(self, method: LoadMethod, parts: int) -> list[LoadNote]:
        notes: list[LoadNote] = []
        for table in self._plan.tables:
            ranges = choice.split(
                self._first[table.name], table.rows, 1 if self._refers_to_itself(table) else parts
            )
            notes += [
                LoadNote(
                    id=len(notes) + at,
                    plan=self._plan.digest,
                    table=table.name,
                    first=one.first,
                    next=one.first,
                    end=one.end,
                )
                for at, one in enumerate(ranges, start=1)
            ]
        if method.kind != "single":  # a statement is a transaction: notes would double its cost
            self._notes.write(notes)
        return notes

    def _refers_to_itself(self, table: PlanTable) -> bool:
        """A row may refer to an earlier one, and the server checks it: they go in their order."""
        return not self._place.ours and bool(
            self._server.query(
                "SELECT 1 FROM information_schema.key_column_usage WHERE table_schema = %s"
                " AND table_name = %s AND referenced_table_name = table_name",
                (self._database, table.name),
            )
        )

    def _load(
        self, notes: Sequence[LoadNote], method: LoadMethod, tries: str, possible: Possible
    ) -> tuple[LoadMethod, dict[str, LimitEvidence], float]:
        began = time.perf_counter()
        done = {}
        for table in self._plan.tables:
            mine = [note for note in notes if note.table == table.name]
            add = next((note.add_indexes for note in mine if note.add_indexes), "")
            may_wait = self._place.ours or table.name in self._tables.made
            if method.indexes == "after" and not add and may_wait:
                add = self._take_indexes(table.name)
            ranges = tuple(note.left for note in mine if note.next < note.end)
            if ranges:
                method, loaded = self._table(table, method, ranges, possible, tries=table.name == tries)
                self._note_warnings(table.name, loaded)
                done[table.name] = loaded
            if add:
                self._give_indexes(table.name, add)
        return method, done, time.perf_counter() - began

    def _table(
        self,
        table: PlanTable,
        method: LoadMethod,
        ranges: tuple[Range, ...],
        possible: Possible,
        *,
        tries: bool,
    ) -> tuple[LoadMethod, LimitEvidence]:
        loads = native.MeasuredLoads(self._server, self._throttle)

        def load(method: LoadMethod, some: tuple[Range, ...], before: Counts) -> Counts:
            def shown(counts: Counts, evidence: LimitEvidence) -> None:
                rate, rows = counts.rows / max(counts.seconds, 1e-6), before.rows + counts.rows
                progress = FillProgress(
                    table=table.name,
                    rows=rows,
                    total=rows_of(ranges),
                    bytes=before.bytes + counts.bytes,
                    rows_per_s=evidence.rows / evidence.seconds,
                    left_s=(rows_of(ranges) - rows) / rate if rate else 0.0,
                    bound_by=bound(evidence).what,
                )
                self._show(progress)

            spec = self._spec(table, method, some)
            try:
                return loads.run(spec, shown)
            except KeyboardInterrupt:
                if spec.notes:
                    self._say("interrupted: --continue loads what is missing")
                raise

        rows = Unloaded(ranges, load)
        try:
            if tries:
                method = self._try_methods(table, method, rows, possible)
            else:
                rows.rest(method)
            return method, loads.loaded(method.connections)
        except ServerError as error:
            if method.kind != "load-data":
                raise
            self._require_insert_helps(error)
            again = tuple(n.left for n in self._notes.read() if n.table == table.name and n.next < n.end)
            before = rows_of(ranges) - rows_of(again)
            method, loaded = self._table(
                table, choice.inserts(method, possible), again, possible, tries=tries
            )
            return method, msgspec.structs.replace(loaded, committed=loaded.committed + before)

    def _try_methods(
        self, table: PlanTable, method: LoadMethod, rows: Unloaded, possible: Possible
    ) -> LoadMethod:
        rows.slice(method)  # a cold server and an empty table: it does not count
        slices = Slices(rows.slice, lambda: rows.slices)

        def take(found: LoadMethod) -> LoadMethod:
            self._tried = slices.tried()
            self._say_method(found)
            return found

        def after(now: LoadMethod, rate: float) -> LoadMethod:
            found = slices.after(now, rate)
            return found if found == now else take(found)

        serial = choice.loads_one_at_a_time(self._server, self._database, table.name)
        return rows.watched(take(choice.fastest(slices, method, possible, serial=serial)), after)

    def _require_insert_helps(self, error: ServerError) -> None:
        errno = errno_of(error)
        if errno not in (*_NO_LOCAL_FILES, _NO_DEFAULT) or self._asked.method not in ("auto", "load-data"):
            raise error
        if self._asked.method == "load-data":
            allow = (
                f"SET GLOBAL local_infile = ON there ({LOST_AT_RESTART}), or "
                if errno in _NO_LOCAL_FILES
                else ""
            )
            raise ServerError(
                f"the server refuses LOAD DATA LOCAL: {error.message} (error {errno})",
                hint=f"{allow}use --method insert; --continue loads what is missing",
            ) from error
        text = f"the server refused LOAD DATA LOCAL, so rows go as INSERT: {error.message} (error {errno})"
        self._warnings.append(Warning("load-data-refused", text))
        self._say(text)

    def _spec(self, table: PlanTable, method: LoadMethod, ranges: tuple[Range, ...]) -> TableLoad:
        address, single = self._place.address, method.kind == "single"
        chunk_bytes = min(REPLICATED_CHUNK_BYTES, CHUNK_BYTES) if self._throttle.watches else CHUNK_BYTES
        alone = ("SET SESSION sql_log_bin = 0", "SET SESSION foreign_key_checks = 0")
        return TableLoad(
            endpoint=address.endpoint,
            transport=address.transport,
            ssl_mode=address.ssl_mode,
            ssl_ca=address.ssl_ca,
            database=self._database,
            plan=self._plan.json.decode(),
            table=table.name,
            into=quoted(self._database, table.name),
            method="load-data" if method.kind == "load-data" else "prepared" if method.prepared else "insert",
            connections=method.connections,
            ranges=ranges,
            batch_rows=method.batch_rows,
            packet_bytes=method.packet_bytes,
            chunk_bytes=0 if single else chunk_bytes,
            session=(_SESSION, *(alone if self._place.ours else ())),
            notes=None if single else self._notes.table,
        )

    def _take_indexes(self, table: str) -> str:
        parts = choice.late_parts(self._server, self._database, table)
        if parts is None:
            return ""
        self._notes.indexes_wait(table, parts[1])
        self._server.query(f"ALTER TABLE {quoted(self._database, table)} {parts[0]}")
        return parts[1]

    def _give_indexes(self, table: str, add: str) -> None:
        began = time.perf_counter()
        self._say(f"building the indexes of {table}")
        try:
            self._server.query(f"ALTER TABLE {quoted(self._database, table)} {add}")
        except StatementFailed as error:
            if error.errno == _DUPLICATE:
                raise ServerError(
                    f"the rows of {table} break its unique index: {error.text}",
                    hint=f"they are there without it: drop the table and {self._notes.table}, fix the plan",
                ) from error
            if error.errno != _KEY_EXISTS:  # a load that was killed had not taken them away yet
                raise
        self._notes.indexes_wait(table, "")
        self._index_seconds += time.perf_counter() - began

    def _say_method(self, method: LoadMethod) -> None:
        why = ""
        if self._tried:
            (best,) = [one for one in self._tried if one.method == method]
            others = [f"{one.method.words}: {one.rows_per_s:,.0f}" for one in self._tried if one is not best]
            why = f" ({best.rows_per_s:,.0f} rows/s on {best.rows:,} rows; tried: {'; '.join(others)})"
        self._say(f"loading by {method.words}{why}")

    def _note_warnings(self, table: str, counts: Counts) -> None:
        for text, times in counts.notes.items():
            text = f"{table}: {text}, in {counted(times, 'statement')}"
            self._warnings.append(Warning("server-note", text))
        for errno, times in counts.retried.items():
            again = f"{counted(times, 'transaction')} sent again after {_RETRIED[errno]} (error {errno})"
            self._warnings.append(Warning("retried", f"{table}: {again}"))

    def _verify(self, table: PlanTable, loaded: LimitEvidence | None) -> FilledTable:
        self._say(f"verifying {table.name}")
        total = count(self._server, self._database, table.name)
        if total != table.rows:
            raise ServerError(
                f"the table {table.name} has {total:,} rows, but {table.rows:,} are due", hint=_MAKES_UNSAFE
            )
        sample = self._sample(table, SAMPLED)
        with sample.inserted():
            different = sample.different()
        if different:
            raise ServerError(
                f"{different} of {len(sample.rows)} sampled rows of {table.name} are not as they were sent",
                hint=_MAKES_UNSAFE,
            )
        if different is None:
            text = f"{table.name} has no unique key that the plan fills: no rows were read back"
            self._warnings.append(Warning("not-sampled", text))
        if broken := orphans(self._server, self._database, table.name):
            raise ServerError("; ".join(broken), hint="the plan's parents do not have these keys")
        return FilledTable(
            name=table.name,
            rows=loaded.committed if loaded is not None else 0,
            total=total,
            sampled=None if different is None else len(sample.rows),
        )
