"""The native side: the load engine, commit pipelines, SQL scripts, TOML with positions, and binlog files.

Specs go down and results come up as JSON of the structs in `flushlab.record.load`. Everything that
blocks releases the interpreter. Ctrl-C is seen within 200 ms wherever a call can take long
(`LoadRun(...)`, `ScriptStream`, `prepare_tables`, `run_script`); the others return within milliseconds,
`stop` within two seconds, `close_window` once the transactions that are open have ended.
"""

from collections.abc import Callable, Sequence
from typing import Literal, final

__all__ = [
    "CommitPath",
    "CoreError",
    "FillRun",
    "LoadRun",
    "Proxy",
    "ScriptStream",
    "ScriptSurvey",
    "TomlError",
    "check_binlogs",
    "check_pattern",
    "check_schedule",
    "count_statements",
    "describe_rows",
    "invert_binlog",
    "late_indexes",
    "measure_disk",
    "merge_windows",
    "parse_toml",
    "prepare_tables",
    "python_seconds",
    "read_binlog",
    "run_script",
    "sample_rows",
    "serve_fault_disk",
    "version",
    "write_sample_binlog",
]

class CoreError(Exception):
    """What stops the native side. No message contains a password.

    Attributes:
        kind: `server` (it answered with an error, cannot be reached, went away or did not answer
            for 60 s), `protocol` (the peer does not speak it as it must), `measurement` (nothing
            that can be measured: tables absent or of another shape, no thread to be had), `storage`
            (files cannot be made, written or synced), `usage` (the request cannot be carried out as
            it was written) or `harness` (a native thread panicked: a bug).
        errno: the number of the server's error, or of the kernel's (`storage`), if there is one.
        sqlstate: its SQLSTATE, else None.
        message: what happened; `str()` of the exception appends errno and SQLSTATE.
        hint: the way out, if one is known.
    """

    kind: Literal["server", "protocol", "measurement", "storage", "usage", "harness"]
    errno: int | None
    sqlstate: str | None
    message: str
    hint: str | None

class TomlError(Exception):
    """What is not TOML, and where.

    Attributes:
        line: from 1.
        column: from 1, in characters.
        message: what is wrong there.
    """

    line: int
    column: int
    message: str

@final
class LoadRun:
    """A load on one server: connected when made, then started, then stopped.

    One thread drives all `threads` connections: in a closed loop, or with a `rate` or a `profile`, where
    latency counts from the intended start. An event that ends in one of `ignored_errors` is counted under
    that error and begun anew with fresh values: with a rate it still counts from its intended start, in a
    closed loop its time is no part of a latency. A transaction of several statements is rolled back whole.
    Any other error ends the load, and so does a panic of its thread: `progress` then tells why in `failed`.
    With `reconnect` a lost connection is counted and opened anew instead.
    May be used from several Python threads.
    """

    def __new__(cls, spec: bytes) -> LoadRun:
        """Connects, checks the tables and prepares all statements.

        Args:
            spec: JSON of a `LoadSpec`.

        Raises:
            CoreError: usage, server, protocol, or measurement (tables absent, of another shape, or
                with fewer ids than `table_size`).
        """

    def round_trips(self, count: int) -> bytes:
        """JSON of a `Latency` of so many COM_PINGs on the first connection, before the start.

        Raises:
            CoreError: usage if it was started before, or `count` is 0; server.
        """

    def start(self) -> None:
        """Starts the thread.

        Raises:
            CoreError: usage if it was started or stopped before.
        """

    def progress(self) -> bytes:
        """JSON of a `LoadProgress`: since start, up to the end once it is stopped.

        Raises:
            CoreError: usage if it was not started.
        """

    def seen(self) -> bytes:
        """JSON of a `LoadSeen`: since start. Dearer than `progress`: for once a second.

        Raises:
            CoreError: usage if it was not started.
        """

    def open_window(self) -> None:
        """Opens the measured window, or opens it anew, while the load runs on. A profile begins here.

        Raises:
            CoreError: what made the load fail, if it has; usage if it does not run or is paused; storage
                if the files of its seconds cannot be made.
        """

    def close_window(self) -> bytes:
        """Closes the window while the load runs on: JSON of a `LoadResult`.

        It counts exactly the events that ended inside the window; what they add to the figure only once
        their transaction is committed. Transactions that are open are committed after their running
        statement. Ctrl-C ends the wait.

        Raises:
            CoreError: what made the load fail, if it has (such a window is no measurement); usage if
                no window is open; measurement if a transaction does not end within 15 s.
        """

    def close_window_part(self) -> bytes:
        """The same in full, for `merge_windows`: opaque JSON."""

    def pause(self) -> None:
        """Begins no further event and comes back when the running ones have ended and nothing is open on the
        server. Does nothing the second time. Ctrl-C ends the wait.

        Raises:
            CoreError: what made the load fail, if it has; usage if it does not run or a window is open;
                measurement if an event does not end within 15 s.
        """

    def resume(self) -> None:
        """Goes on after a pause; what would have been due in it is due as much later. Does nothing if it is
        not paused.

        Raises:
            CoreError: what made the load fail, if it has; usage if it does not run.
        """

    def stop(self) -> None:
        """Ends all events, joins the thread and closes the connections; also done on deletion.

        An event that does not end within two seconds has its connection cut. Does nothing the
        second time.
        """

@final
class CommitPath:
    """Threads that commit through a redo log and a binary log in a folder: one run.

    The spec is a JSON object with these keys:

    - `directory`: an existing folder without redo and binlog files. `keep` (default: false) keeps the files;
      otherwise, those that the run made are removed, and no others.
    - `format`: a server version such as "9.7.4".
    - `trx_commit`: 0 to 3, as innodb_flush_log_at_trx_commit. `sync_binlog`: as on the server.
    - `binlog_strategy`: "serial", "parallel", "redo" or "two-syncs".
    - `threads`: 1 to 256. `committers` (default: `threads`): up to 256 transactions under way, divided among
      the threads. With more committers than threads, threads poll instead of sleeping.
    - `shape`: {"kind": "oltp_update_non_index" | "oltp_insert", "tables", "rows"} or {"kind": "sizes",
      "redo_bytes", "binlog_bytes", "large_every", "large_bytes"}.
    - `think_us`: processor time before each commit.
    - `warmup_seconds`; `seconds` or `transactions`; `seed`.
    - `rotate_bytes` (default: 1 GiB); `redo_capacity_bytes` (default: 128 MiB), a quarter of it for the log
      buffer, 16 MiB at most.
    - `changes`: a list of {"after_seconds" | "after_commits", and any of "trx_commit", "sync_binlog",
      "binlog_strategy"}, counted from the start.
    - `stall_seconds` (default: 30): the run fails if no commit, write or fsync ends for so long.

    Several Python threads may share a run, but `wait` blocks all other calls: poll with a short timeout.
    """

    def __new__(cls, spec: bytes) -> CommitPath:
        """Checks the spec.

        Raises:
            CoreError: usage.
        """

    def start(self) -> None:
        """Makes the files and starts the threads.

        Raises:
            CoreError: storage, measurement (no threads, or a disk that hangs), or usage: started before, or
                the directory has redo or binlog files.
        """

    def progress(self) -> bytes:
        """JSON: phase ("warmup", "measuring" or "done"), seconds and commits since the start.

        Raises:
            CoreError: usage if it was not started.
        """

    def stop(self) -> None:
        """Ends the run early; its result is that of the window so far."""

    def wait(self, seconds: float) -> bytes | None:
        """Waits up to `seconds` for the result: JSON, or None while the run goes on.

        Of the measured window: commits, seconds, commits_per_s, latency_us (p50, p99, max, or null),
        group_size, fsyncs_per_s, bytes_at_risk, cpu_us_per_commit,
        ordered_ns_per_commit, encode_ns_per_commit and write_ns_per_commit (null without samples),
        redo_bytes, binlog_bytes and phases (binlog_strategy, trx_commit, sync_binlog, switch_us, seconds,
        commits; switch_us is the time of the change). Of the whole run: switches, last_gtid.

        Raises:
            CoreError: the error that ended the run; its files are removed unless `keep`.
        """

def prepare_tables(spec: bytes) -> None:
    """Creates and fills the tables of a load, and their database if there is none.

    Uses two connections if there are two tables or more. The same spec gives the same rows;
    `threads` and `ignored_errors` have no influence.

    Args:
        spec: JSON of a `LoadSpec`.

    Raises:
        CoreError: usage, server (errno 1050 if a table exists) or protocol.
        KeyboardInterrupt: on Ctrl-C; tables are then left unfinished.
    """

@final
class ScriptStream:
    """A dump that runs while more of it is read: statements are split here.

    Strings, quoted identifiers, comments and conditional comments (`/*! … */`) hide delimiters; `DELIMITER`
    is obeyed. Each statement is tried once.

    Args:
        spec: JSON of a `StreamSpec`.

    Raises:
        CoreError: usage, server, protocol.
    """

    def __new__(cls, spec: bytes) -> ScriptStream: ...
    def feed(
        self, piece: bytes, last: bool = False, meanwhile: Callable[[], None] | None = None
    ) -> tuple[int, str] | None:
        """Takes the next piece of the dump, or of the file that was entered last.

        Args:
            piece: of the file.
            last: the file ends with it; one that was entered is left.
            meanwhile: called again and again while it waits for a server that is too far behind.

        Returns:
            Line and name of a file to read now (`source NAME`), or None. `enter` it, feed it, then feed this
            one again, with an empty piece and the same `last`.

        Raises:
            CoreError: server, with number, line and beginning of a statement that it refused; usage, with
                the line of something that does not end, or of a client's command that a load does not take.
            KeyboardInterrupt: on Ctrl-C.
        """

    def enter(self, name: str) -> None:
        """Goes on with another file; `name` is for messages."""

    def finish(self, meanwhile: Callable[[], None] | None = None) -> None:
        """The dump is whole: waits for the last answer, and calls `meanwhile` as `feed` does.

        Raises:
            CoreError, KeyboardInterrupt: as `feed`.
        """

    def progress(self) -> bytes:
        """JSON of a `StreamProgress`."""

    def stop(self) -> None:
        """Cuts its connections; does nothing after `finish`."""

@final
class ScriptSurvey:
    """A look through a script that comes in pieces, as `ScriptStream` would run it; needs no server."""

    def __new__(cls) -> ScriptSurvey: ...
    def feed(self, piece: bytes, last: bool = False) -> list[tuple[int, str]]:
        """Takes the next piece; lines and names of the files that are read there.

        Raises:
            CoreError: usage, as `ScriptStream.feed`.
        """

    def findings(self) -> bytes:
        """JSON: `kinds` of statements, `databases` that are named (`database`, `created`), and whether tables
        or rows come before any (`begins_within`)."""

@final
class FillRun:
    """A load of a plan's rows into one table, on several connections: it begins when it is made.

    Each connection has a thread, which generates its rows into the packets that it sends. For one Python
    thread: `progress` and `stop` wait while another one waits.

    Args:
        spec: JSON of a `flushlab.bulk.native.Spec`.

    Raises:
        CoreError: usage, server, protocol, or measurement (no thread to be had).
    """

    def __new__(cls, spec: bytes) -> FillRun: ...
    def progress(self) -> bytes:
        """JSON of a `flushlab.bulk.native.Counts`, without notes."""

    def wait(self, seconds: float) -> bytes | None:
        """Waits up to `seconds` for the end: JSON of a `flushlab.bulk.native.Counts`, or None.

        Raises:
            CoreError: server: it refused rows, would have changed some or left some out (their transaction is
                rolled back), or is gone; usage: the plan cannot give a row.
        """

    def hold(self, held: bool) -> None:
        """Lets it begin no transaction, or go on; those under way are committed."""

    def stop(self) -> None:
        """Cuts the connections: what is not committed is rolled back. Does nothing once it has ended."""

@final
class Proxy:
    """A port on loopback that leads to a server, which can be exchanged.

    Args:
        target: port of the server, on 127.0.0.1.
        port: to listen on; a free one if 0.

    Raises:
        OSError: the port is taken.
    """

    def __new__(cls, target: int, port: int = 0) -> Proxy: ...
    @property
    def port(self) -> int:
        """What it listens on."""

    @property
    def shortages(self) -> int:
        """How often a connection waited because the system gave no descriptor, memory or thread for it."""

    def switch(self, target: int) -> None:
        """Leads to another server from now on, and cuts the connections to the one before."""

    def close(self) -> None:
        """Listens no more and cuts all connections; does nothing the second time."""

def check_pattern(pattern: str) -> None:
    """Refuses a pattern that a parameter of a statement cannot have.

    Raises:
        ValueError: its reason.
    """

def merge_windows(parts: Sequence[bytes]) -> bytes:
    """JSON of the `LoadResult` of what several load generators measured in windows that began and ended at
    the same moments. Histograms are added bin by bin: percentiles are those of all events together.

    Args:
        parts: of `LoadRun.close_window_part`.

    Raises:
        CoreError: usage if there is none, or they are of different loads; measurement if a counter overflows.
    """

def check_schedule(rate: float, profile: str, kind: str) -> None:
    """Refuses a rate, a profile and a kind of spacing that make no schedule, as `LoadRun` would.

    Raises:
        CoreError: usage, with the ways to say it.
    """

def count_statements(script: bytes) -> int:
    """How many statements an SQL script has, split as the servers' own clients split it.

    Strings, quoted identifiers, comments and conditional comments (`/*! … */`) hide delimiters;
    `DELIMITER` is obeyed.

    Raises:
        CoreError: usage, with the line of a string, identifier or comment that does not end.
    """

def run_script(spec: bytes, script: bytes) -> bytes:
    """Runs the statements of an SQL script on one connection: JSON of a `LoadResult` with `kinds`.

    Args:
        spec: JSON of a `ScriptSpec`.
        script: as it stands in its file.

    Raises:
        CoreError: usage; server, with the line and the beginning of the statement that it refused;
            measurement if the script does not end within its limit; protocol.
        KeyboardInterrupt: on Ctrl-C.
    """

def sample_rows(plan: str, table: str, rows: list[int]) -> str:
    """Those rows of a table, from 0, as they stand behind VALUES.

    Raises:
        CoreError: usage: the plan cannot be read, or has no such table or row.
    """

def late_indexes(definition: str) -> tuple[str, str] | None:
    """Of a table's SHOW CREATE TABLE: what takes its secondary indexes away and what gives them back, each
    behind ALTER TABLE.

    None without such an index, with a foreign key that may need one, or with anything out of the ordinary.
    """

def parse_toml(text: str) -> bytes:
    """JSON of a `flushlab.plan.toml.Node`: the document, every key and value with line and column.

    Raises:
        TomlError: the text is not TOML.
    """

def check_binlogs(files: list[str]) -> bytes:
    """Strictly checks binlog files as a series: a JSON array with one report for each.

    docs/reference/binlog.md describes the fields of a report. Files that gzip or zstd packed are unpacked.

    Args:
        files: in the order in which they were written.

    Raises:
        OSError: a file cannot be read, or, without a number, cannot be unpacked.
        KeyboardInterrupt: on Ctrl-C.
    """

def invert_binlog(file: str, start: int, most_bytes: int, without: list[tuple[str, str]]) -> bytes:
    """Reads a binlog from `start` (0, or the end of an event) and turns around what it committed, without the
    tables given by schema and name.

    The JSON has:
    - `end`: where the last event that was read ends.
    - `description`: the file's description in base64, which a session needs once.
    - `statements[]`: events in base64 for `BINLOG '…'`, in the order in which they are to be applied;
      `most_bytes` in all.
    - `tables[]` whose rows were changed, each with `schema`, `name`, `inserted`, `updated`, `deleted`, and
      `missing[]`: the columns that some image lacks, from 0.
    - `emptied[]`: tables that a statement emptied, each with `schema` and `name`: `statements` leave them
      out; `truncations`: such statements.
    - `transactions`: how many changed rows.
    - `barrier`: the first event that cannot be taken back, or null; with one, `statements` is empty.

    Raises:
        OSError: the file cannot be read.
    """

def read_binlog(file: str, table: str) -> bytes:
    """Reads a binlog or relay log up to its first event that is not whole, and judges nothing.

    The JSON has:
    - `transactions[]` that end in XID or COMMIT, each with `end` (offset), `gtid` (empty without one),
      `inserted` (rows of the table: the values of their integer columns) and `statements` (texts that name
      the table).
    - `end`: where the last event that was read ends.
    - `torn`: bytes follow that are no whole event.
    - `unreadable`: why the next event cannot be read; null if it can.

    Args:
        file: its path.
        table: a table's name, in whatever schema.

    Raises:
        OSError: the file cannot be read.
        KeyboardInterrupt: on Ctrl-C.
    """

def python_seconds() -> float:
    """How long functions in Python that plans name have taken, in all threads, since the process began."""

def describe_rows(plan: bytes) -> bytes:
    """What values a plan's columns get: to be held against their types.

    Args:
        plan: JSON of a `GeneratorSpec`.

    Returns:
        JSON: `tables`, of each a list with the widest values of every column and whether it can be NULL; or
        `problem` with `table`, `column` and `message`, if no rows can be made from the plan.
    """

def write_sample_binlog(
    folder: str, server_version: str, schema: str, updates: int, max_size: int, close: bool
) -> bytes:
    """Writes a small log named `binlog` with rows of every column type: JSON of what it holds.

    The JSON has files, transactions, written, updated, deleted, and tables: their CREATE TABLE.

    Args:
        folder: an existing one.
        server_version: whose files, for example `9.7.4` or `10.11.19-MariaDB`.
        schema: of its tables `types` and `sbtest1`.
        updates: of one row of sbtest1, each a transaction.
        max_size: at which the next file begins.
        close: False leaves the last file in use, as a crash does.

    Raises:
        CoreError: usage for a version whose files are not known.
        OSError: a file exists or cannot be written.
    """

def measure_disk(spec: bytes) -> bytes:
    """Measures small writes on a disk: JSON of what came of it.

    The JSON is `"stopped"`, or one of `{"measured": {operations, seconds, latency_us, file_bytes}}` and
    `{"refused": "why"}`.

    Args:
        spec: JSON of a `flushlab.probe.disk.DiskSpec`.

    Raises:
        CoreError: usage for a spec that contradicts itself.
        OSError: the file system fails; it names the directory. ETIMEDOUT: the measurement did not end within
            the window and `stall_seconds` (60) more; what hangs is left behind.
        KeyboardInterrupt: on Ctrl-C.
    """

def serve_fault_disk(spec: bytes) -> None:
    """Serves a disk that records its writes and is as slow as asked, until the process ends.

    For a process of its own: see `flushlab.datadir.fault_disk_main`.

    Args:
        spec: JSON; its fields are those of `Spec` in `crates/faultfs/src/spec.rs`.

    Raises:
        CoreError: usage for a spec that is none.
        OSError: the kernel has no FUSE for this process, or files cannot be made.
    """

def version() -> str:
    """Version of the native side; equals flushlab's."""
