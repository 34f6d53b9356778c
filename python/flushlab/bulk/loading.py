"""Loading: the story of one load: tables, a way, rows, indexes, and whether they are right.

Sits in `bulk`. Promises: rows are there once, or the load is an error that says what is missing; a load that
ends early can be resumed; nothing of the server's is changed that is not put back, but for a sandbox's own
log.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence

import msgspec

from flushlab.bulk import choice, ladder, native, throttle, verify
from flushlab.bulk import free_space as room
from flushlab.bulk import preflight as before
from flushlab.bulk.bound import Bound, Evidence, bound
from flushlab.bulk.destinations import Destination
from flushlab.bulk.filled import Filled, FilledTable, LoadMethod, Step, Tried
from flushlab.bulk.native import Counts, Loaded, Range, TableLoad
from flushlab.bulk.notes import Note, Notes
from flushlab.bulk.source import Source, SourceTable
from flushlab.bulk.tables import Tables
from flushlab.bulk.throttle import Throttle
from flushlab.bulk.unloaded import Unloaded, rows_of
from flushlab.errors import ServerError, UsageError
from flushlab.record import Endpoint, SslMode, Warning
from flushlab.server.control import StatementFailed
from flushlab.server.identifier import quoted
from flushlab.server.protocol import Server
from flushlab.units import counted
from flushlab.workload.engine import errno_of

SQL_MODE = (
    "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
)
CHUNK_BYTES = 64 << 20
_PACKET_SLACK = 128 << 10
_KEY_EXISTS = 1061
_DUPLICATE = 1062
_NO_LOCAL_FILES = (1148, 3948, 4166)
"""ER_NOT_ALLOWED_COMMAND; ER_CLIENT_LOCAL_FILES_DISABLED of MySQL 8.0; ER_LOAD_INFILE_CAPABILITY_DISABLED of
MariaDB."""
_NO_DEFAULT = 1364
"""ER_NO_DEFAULT_FOR_FIELD: LOAD DATA of MySQL 8.0.15 says so of columns that it sets itself."""
_RETRIED = {1205: "too long a wait for a lock", 1213: "a deadlock"}
_MAKES_UNSAFE = "another program writes to it, or the server changed them"

Say = Callable[[str], None]


class RowProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a load is.

    Attributes:
        table: being loaded.
        rows: of it, committed or on their way.
        total: rows of the table at the end.
        rows_per_s: since the last look.
        seconds_left: of this table, at the rate so far.
    """

    table: str
    rows: int
    total: int
    bytes: int
    rows_per_s: float
    seconds_left: float
    bound: Bound


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for.

    Attributes:
        endpoint: of the server, reached over `transport`.
        threads: connections; None leaves it to the server.
        replicas: servers behind it that are waited for.
        existing: action on a table that has rows: refuse, append or truncate.
        ours: a sandbox: nobody else uses it, and its session may leave out the binary log.
    """

    endpoint: Endpoint
    transport: str = "socket"
    ssl_mode: SslMode = "disabled"
    ssl_ca: str = ""
    database: str
    method: str = "auto"
    threads: int | None = None
    create: bool = False
    existing: str = "refuse"
    resume: bool = False
    ladder: bool = False
    ours: bool = True
    replicas: tuple[str, ...] = ()


class Load:
    """A load of a plan into a database.

    Args:
        server: target of the rows.
        source_of: the plan, for a number of rows that are there already.
        asked: database, connections and method that the user asked for.
        say: takes a line at a time.
        show: takes how far it is, a few times a second.
        place: the sandbox, for the ladder; None if it is none.
        quicken: called once all is known to fit: makes the server as fast as it may be.
        throttle: says when it has to wait.
    """

    def __init__(
        self,
        server: Server,
        source_of: Callable[[int], Source],
        asked: LoadRequest,
        say: Say,
        show: Callable[[RowProgress], None] | None = None,
        place: Destination | None = None,
        quicken: Callable[[], None] | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._server = server
        self._source_of = source_of
        self._asked = asked
        self._say = say
        self._show = show
        self._place = place
        self._quicken = quicken
        self._throttle = throttle if throttle is not None and throttle.watches else None
        self._database = asked.database
        self._notes = Notes(server, asked.database)
        self._warnings: list[Warning] = []
        self._tried: tuple[Tried, ...] = ()
        self._index_seconds = 0.0
        self._tables = Tables(server, asked.database, create=asked.create, existing=asked.existing)

    def run(self) -> Filled:
        """Loads all tables of the plan and verifies them.

        Raises:
            UsageError: tables that are not as they must be; plans that do not fit.
            ServerError, ServerDied: the server refused, or is gone; `--resume` goes on.
        """
        asked, server = self._asked, self._server
        seen = before.read_server_state(server)
        before.require_connections(seen, asked.threads or 1)
        server.query(f"SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00'")
        left = self._left_notes()
        source = self._source_of(0)
        if not left:
            first = self._tables.prepare(source)
            if any(first.values()):
                if len(source.tables) > 1:
                    raise UsageError(
                        f"--append takes a plan of one table, and {source.name} has {len(source.tables)}",
                        hint="use --truncate, or another database",
                    )
                source = self._source_of(max(first.values()))
        else:
            first = {note.table: min(n.first for n in left if n.table == note.table) for note in left}
            source = self._source_of(max(first.values(), default=0))
            self._require_same(source, left)
        load_bytes = self._bytes(source, self._rows_left(source, left, first))
        self._look_at_disk(load_bytes)
        if not left:
            self._require_fit(source, first)
        largest = max(source.tables, key=lambda table: table.rows)
        if not left:
            largest = msgspec.structs.replace(largest, rows=largest.rows - first[largest.name])
        possible = self._possible(seen, empty=not left and not any(first.values()))
        steps = self._climb(source, largest, possible) if asked.ladder and not left else ()
        if self._quicken is not None:
            self._quicken()
            server.query(f"SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00'")
        tries = not left and asked.method == "auto" and largest.rows >= choice.LEAST_ROWS
        if left and asked.method == "auto":
            connections = asked.threads or sum(note.next < note.end for note in left) or 1
            way = choice.resumed_method(server, self._database, largest.name, possible, connections)
        elif tries:
            way = choice.start(server, self._database, largest.name, possible)
        elif asked.method == "auto":
            way = choice.first_way(possible, possible.connections if possible.fixed else 1)
        else:
            way = self._named(seen, possible)
        if not tries:
            self._say_way(way)
        self._warnings += before.load_warnings(
            seen, way.connections, load_bytes, ours=asked.ours, waits=bool(asked.replicas)
        )
        if not left:
            left = self._begin(source, first, way, max(possible.connections, 1) if tries else way.connections)
        way, done, seconds = self._load(source, left, way, largest.name if tries else "", possible)
        verified_from = time.perf_counter()
        tables = self._verify(source, left, done, first)
        self._notes.drop()
        longest = max((one.evidence for one in done.values()), key=lambda one: one.seconds, default=None)
        limit = bound(longest) if longest is not None else Bound(what="nothing", why="no rows were left")
        return Filled(
            plan=source.name,
            server=server.identity,
            sandbox="",
            database=self._database,
            tables=tables,
            rows=sum(one.counts.committed for one in done.values()),
            resumed_rows=sum(note.next - note.first for note in left),
            bytes=sum(one.counts.bytes for one in done.values()),
            seconds=seconds,
            index_seconds=self._index_seconds,
            verify_seconds=time.perf_counter() - verified_from,
            way=way,
            tried=self._tried,
            bound_by=limit.what,
            why=limit.why,
            verified=True,
            peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            waited=dict(self._throttle.waited) if self._throttle is not None else {},
            warnings=(*self._tables.warnings, *self._warnings),
            steps=steps,
        )

    def _climb(self, source: Source, table: SourceTable, possible: choice.Possible) -> tuple[Step, ...]:
        return ladder.climb(
            self._server,
            self._database,
            table,
            lambda way, ranges: self._spec(source, table, way, ranges),
            possible,
            self._place,
            self._say,
        )

    def _left_notes(self) -> list[Note]:
        """The notes of a load that did not end; none unless it is to be resumed."""
        left = self._notes.read()
        if self._asked.resume and self._asked.method == "single":
            raise UsageError(
                "--method single does not record how far it has come, so it cannot resume",
                hint="use another method",
            )
        if self._asked.resume and not left:
            raise UsageError(
                f"there is nothing to resume in {self._database}",
                hint="leave --resume out: no load was interrupted there",
            )
        if left and not self._asked.resume:
            rows = sum(note.next - note.first for note in left)
            of = sum(note.end - note.first for note in left)
            raise UsageError(
                f"an earlier load into {self._database} did not finish: {rows:,} of {of:,} rows are there",
                hint=f"--resume continues it; or drop its tables and {self._notes.table}",
            )
        return left

    def _require_same(self, source: Source, left: Sequence[Note]) -> None:
        if any(note.plan != source.digest for note in left):
            rows = sum(note.end - note.first for note in left)
            raise UsageError(
                f"the load to resume in {self._database} has another plan, seed or number of rows ({rows:,})",
                hint="give the plan, --rows and --seed that it was started with",
            )

    def _require_fit(self, source: Source, first: dict[str, int]) -> None:
        """Finds values that a table cannot hold before anything is loaded."""
        for table in source.tables:
            sample = self._sample(source, table, first[table.name], 100)
            if sample.rows:
                try:
                    sample.make()
                finally:
                    sample.drop()

    def _sample(self, source: Source, table: SourceTable, first: int, rows: int) -> verify.Sample:
        numbers = verify.sampled_rows(first, table.rows, rows)
        return verify.Sample(self._server, self._database, source, table, numbers)

    def _possible(self, seen: before.ServerState, *, empty: bool) -> choice.Possible:
        asked = self._asked
        left = seen.number("max_connections", 1 << 20) - seen.connected - 2
        return choice.Possible(
            load_data=seen.is_on("local_infile") and not seen.splits_load_data,
            prepared=choice.gains_by_preparing(self._server.identity),
            indexes_may_wait=empty and (asked.ours or bool(self._tables.made)),
            connections=asked.threads or max(1, min(choice.most_connections(), left)),
            fixed=asked.threads is not None,
            packet_bytes=max(1024, min(seen.number("max_allowed_packet", 1 << 30), 16 << 20) * 3 // 4),
        )

    def _named(self, seen: before.ServerState, possible: choice.Possible) -> LoadMethod:
        """The way of `--method`."""
        method = self._asked.method
        if method == "load-data" and seen.splits_load_data:
            raise ServerError(
                "wsrep_load_data_splitting is ON: the server commits LOAD DATA in pieces of its own",
                hint="SET GLOBAL wsrep_load_data_splitting = OFF there, or use --method insert",
            )
        if method == "load-data" and not possible.load_data:
            raise ServerError(
                "local_infile is OFF: the server takes no LOAD DATA LOCAL",
                hint="SET GLOBAL local_infile = ON there, or use --method insert",
            )
        if method == "single":
            connections = self._asked.threads or 1
            return LoadMethod(
                method="single", connections=connections, batch_rows=1, packet_bytes=possible.packet_bytes
            )
        named = msgspec.structs.replace(possible, load_data=method == "load-data")
        return choice.first_way(named, self._asked.threads or min(possible.connections, 2))

    def _require_insert_helps(self, error: ServerError) -> None:
        """Goes on with INSERT where the server takes no LOAD DATA LOCAL, if the way is not the user's.

        Raises:
            ServerError: it is another error, or `--method` says how.
        """
        errno = errno_of(error)
        if errno not in (*_NO_LOCAL_FILES, _NO_DEFAULT) or self._asked.method not in ("auto", "load-data"):
            raise error
        if self._asked.method == "load-data":
            allow = "SET GLOBAL local_infile = ON there, or " if errno in _NO_LOCAL_FILES else ""
            raise ServerError(
                f"the server refuses LOAD DATA LOCAL: {error.message} (error {errno})",
                hint=f"{allow}use --method insert; --resume loads what is missing",
            ) from error
        text = f"the server refused LOAD DATA LOCAL, so rows go as INSERT: {error.message} (error {errno})"
        self._warnings.append(Warning("load-data-refused", text))
        self._say(text)

    def _session(self) -> tuple[str, ...]:
        session = [f"SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00'"]
        if self._asked.ours:
            session += ["SET SESSION sql_log_bin = 0", "SET SESSION foreign_key_checks = 0"]
        return tuple(session)

    def _spec(
        self, source: Source, table: SourceTable, way: LoadMethod, ranges: tuple[Range, ...]
    ) -> TableLoad:
        asked = self._asked
        return TableLoad(
            endpoint=asked.endpoint,
            transport=asked.transport,
            ssl_mode=asked.ssl_mode,
            ssl_ca=asked.ssl_ca,
            database=self._database,
            plan=source.json,
            table=table.name,
            into=quoted(self._database, table.name),
            method="load-data" if way.method == "load-data" else "prepared" if way.prepared else "insert",
            connections=way.connections,
            ranges=ranges,
            batch_rows=way.batch_rows,
            packet_bytes=way.packet_bytes,
            chunk_bytes=self._chunk_bytes(way),
            session=self._session(),
            notes=None if way.method == "single" else self._notes.table,
        )

    def _chunk_bytes(self, way: LoadMethod) -> int:
        if way.method == "single":
            return 0
        most = throttle.CHUNK_BYTES if self._throttle is not None else CHUNK_BYTES
        return min(most, CHUNK_BYTES)

    def _rows_left(self, source: Source, left: Sequence[Note], first: dict[str, int]) -> dict[str, int]:
        """Rows that are to be loaded now, by table."""
        if not left:
            return {table.name: table.rows - first[table.name] for table in source.tables}
        return {
            table.name: sum(note.end - note.next for note in left if note.table == table.name)
            for table in source.tables
        }

    def _bytes(self, source: Source, rows: dict[str, int]) -> int:
        """Of rows of each table, by a few of them."""
        total = 0
        for table in source.tables:
            some = list(range(min(table.rows, 20)))
            if some:
                of_some = len(native.sample_rows(self._server, source.json, table.name, some))
                total += of_some * rows[table.name] // len(some)
        return total

    def _look_at_disk(self, load_bytes: int) -> None:
        """Refuses rows that cannot fit, and says so where they may not.

        Raises:
            UsageError: they cannot.
        """
        found = room.free_space(self._server)
        if found is None:
            return
        room.require_free_space(found, load_bytes)
        if (doubt := room.space_warning(found, load_bytes)) is not None:
            self._warnings.append(doubt)
            self._say(f"warning: {doubt.text}")  # at once: behind the load it is too late

    def _begin(self, source: Source, first: dict[str, int], way: LoadMethod, parts: int) -> list[Note]:
        notes: list[Note] = []
        for table in source.tables:
            ranges = choice.split(
                first[table.name], table.rows, 1 if self._refers_to_itself(table) else parts
            )
            notes += [
                Note(
                    id=len(notes) + at,
                    plan=source.digest,
                    table=table.name,
                    first=one.first,
                    next=one.first,
                    end=one.end,
                )
                for at, one in enumerate(ranges, start=1)
            ]
        if way.method != "single":  # a statement is a transaction: notes would double its cost
            self._notes.write(notes)
        return notes

    def _refers_to_itself(self, table: SourceTable) -> bool:
        """Whether a row may refer to an earlier one, and the server checks it: they go in their order."""
        refers = (
            "SELECT 1 FROM information_schema.key_column_usage WHERE table_schema = %s AND table_name = %s"
        )
        return not self._asked.ours and bool(
            self._server.query(
                f"{refers} AND referenced_table_name = table_name", (self._database, table.name)
            )
        )

    def _load(
        self, source: Source, notes: Sequence[Note], way: LoadMethod, tries: str, possible: choice.Possible
    ) -> tuple[LoadMethod, dict[str, Loaded], float]:
        """Loads all tables; ways are tried on the rows of `tries`."""
        began = time.perf_counter()
        done = {}
        for table in source.tables:
            mine = [note for note in notes if note.table == table.name]
            add = next((note.add_indexes for note in mine if note.add_indexes), "")
            if way.indexes == "after" and not add and (self._asked.ours or table.name in self._tables.made):
                add = self._take_indexes(table.name)
            ranges = tuple(note.left for note in mine if note.next < note.end)
            if ranges:
                way, loaded = self._table(source, table, way, ranges, possible, tries=table.name == tries)
                self._note_warnings(table.name, loaded.counts)
                done[table.name] = loaded
            if add:
                self._give_indexes(table.name, add)
        return way, done, time.perf_counter() - began

    def _table(
        self,
        source: Source,
        table: SourceTable,
        way: LoadMethod,
        ranges: tuple[Range, ...],
        possible: choice.Possible,
        *,
        tries: bool,
    ) -> tuple[LoadMethod, Loaded]:
        """Loads what is left of a table; with INSERT where the server takes no LOAD DATA after all.

        Args:
            possible: ways that there are.
            tries: ways are tried on its rows.
        """
        looks = native.MeasuredLoads(self._server, self._throttle)

        def load(way: LoadMethod, some: tuple[Range, ...], before: Counts) -> Counts:
            spec = self._spec(source, table, way, some)
            return self._rows(looks, spec, self._shown(table.name, before, rows_of(ranges)))

        rows = Unloaded(ranges, load)
        try:
            if tries:
                rows.slice(way)  # a cold server and an empty table: it does not count
                slices = choice.Slices(rows.slice, lambda: rows.slices)
                turns = choice.takes_turns(self._server, self._database, table.name)
                way = choice.fastest(slices, way, possible, turns=turns)
                self._tried = slices.tried()
                self._say_way(way)

                def after(now: LoadMethod, rate: float) -> LoadMethod:
                    found = slices.after(now, rate)
                    if found != now:
                        self._tried = slices.tried()
                        self._say_way(found)
                    return found

                way = rows.watched(way, after)
            else:
                rows.rest(way)
            return way, looks.loaded(way.connections)
        except ServerError as error:
            if way.method != "load-data":
                raise
            self._require_insert_helps(error)
            again = tuple(n.left for n in self._notes.read() if n.table == table.name and n.next < n.end)
            before = rows_of(ranges) - rows_of(again)
            way = choice.inserts(way, possible)
            way, loaded = self._table(source, table, way, again, possible, tries=tries)
            return way, loaded.with_rows_before(before)

    def _rows(self, looks: native.MeasuredLoads, spec: TableLoad, shown: native.Show | None) -> Counts:
        try:
            return looks.run(spec, shown)
        except KeyboardInterrupt:
            if spec.notes:
                self._say("interrupted: --resume loads what is missing")
            raise

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

    def _shown(self, table: str, before: Counts, total: int) -> native.Show | None:
        if self._show is None:
            return None
        show = self._show

        def shown(counts: Counts, evidence: Evidence) -> None:
            rate = counts.rows / max(counts.seconds, 1e-6)
            rows = before.rows + counts.rows
            show(
                RowProgress(
                    table=table,
                    rows=rows,
                    total=total,
                    bytes=before.bytes + counts.bytes,
                    rows_per_s=evidence.rows / evidence.seconds,
                    seconds_left=(total - rows) / rate if rate else 0.0,
                    bound=bound(evidence),
                )
            )

        return shown

    def _say_way(self, way: LoadMethod) -> None:
        self._say(f"loading by {way.words}{_why(way, self._tried)}")

    def _note_warnings(self, table: str, counts: Counts) -> None:
        for text, times in counts.notes.items():
            self._warnings.append(
                Warning("server-note", f"{table}: {text}, in {counted(times, 'statement')}")
            )
        for errno, times in counts.retried.items():
            text = (
                f"{table}: {counted(times, 'transaction')} sent again after {_RETRIED[errno]} (error {errno})"
            )
            self._warnings.append(Warning("retried", text))

    def _verify(
        self, source: Source, notes: Sequence[Note], done: dict[str, Loaded], first: dict[str, int]
    ) -> tuple[FilledTable, ...]:
        found = []
        for table in source.tables:
            self._say(f"verifying {table.name}")
            start = first.get(table.name, 0)
            total = verify.count(self._server, self._database, table.name)
            if total != table.rows:
                raise ServerError(
                    f"the table {table.name} has {total:,} rows, but {table.rows:,} are due",
                    hint=_MAKES_UNSAFE,
                )
            sample = self._sample(source, table, start, verify.SAMPLED)
            different: int | None = 0
            if sample.rows:
                try:
                    sample.make()
                    different = sample.different()
                finally:
                    sample.drop()
            if different:
                raise ServerError(
                    f"{different} of {len(sample.rows)} sampled rows of {table.name} are not as they were"
                    " sent",
                    hint=_MAKES_UNSAFE,
                )
            if different is None:
                text = f"{table.name} has no unique key that the plan fills: no rows were read back"
                self._warnings.append(Warning("not-sampled", text))
            if broken := verify.orphans(self._server, self._database, table.name):
                raise ServerError("; ".join(broken), hint="the plan's parents do not have these keys")
            loaded = done[table.name].counts.committed if table.name in done else 0
            found.append(
                FilledTable(
                    name=table.name,
                    rows=loaded,
                    total=total,
                    sampled=None if different is None else len(sample.rows),
                )
            )
        return tuple(found)


def _why(way: LoadMethod, tried: Sequence[Tried]) -> str:
    if not tried:
        return ""
    (best,) = [one for one in tried if one.way == way]
    others = [f"{one.way.words}: {one.rows_per_s:,.0f}" for one in tried if one is not best]
    return f" ({best.rows_per_s:,.0f} rows/s on {best.rows:,} rows; tried: {'; '.join(others)})"
