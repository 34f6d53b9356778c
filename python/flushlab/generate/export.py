"""Export: the rows of a plan into files, as CSV, TSV or SQL, compressed or not, without a server.

Sits in `generate`. Pieces are made and compressed in parallel and written in order; a few are in memory at a
time. A file has its name once it is whole. A compressed one is a series of gzip members or zstd frames, which
all tools read as one.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Literal, get_args

import msgspec
import zstandard

from flushlab import _core, atomic
from flushlab.errors import NoSpace, NotWritable, UsageError
from flushlab.generate.plan import FillPlan, PlanTable
from flushlab.server.identifier import quoted

Format = Literal["csv", "tsv", "sql"]

_PIECE_BYTES = 1 << 20
_FIRST_ROWS = 1000
"""From which the size of a row is estimated."""
_STATEMENT_BYTES = 512 << 10
"""Of an INSERT: below the 1 MiB that a server of MySQL's defaults before 8.0 takes in a packet."""
_GZIP = 16 + zlib.MAX_WBITS
_LEVELS = {".gz": 6, ".zst": 3}
_EACH_TABLE = "{table}"
_ENOSPC, _EDQUOT = 28, 122

_CSV_FIELDS = (
    " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
    " LINES TERMINATED BY '\\n' IGNORE 1 LINES"
)

_HEAD = b"""SET NAMES utf8mb4;
SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,STRICT_ALL_TABLES', unique_checks = 0, \
foreign_key_checks = 0;
"""


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written.

    Attributes:
        rows: of all tables.
        bytes: of the files.
        seconds: wall time.
        python_seconds: time in Python functions, over all threads.
        statements: to load the files, in their order.
    """

    files: tuple[str, ...]
    rows: int
    bytes: int
    seconds: float
    python_seconds: float
    statements: tuple[str, ...]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is."""

    rows: int
    all_rows: int
    bytes: int
    seconds: float


def export(
    plan: FillPlan,
    file: Path,
    *,
    threads: int | None = None,
    create: bool = False,
    show: Callable[[Progress], None] = lambda _: None,
) -> Exported:
    """Writes the rows of a plan.

    Args:
        plan: of the rows.
        file: its suffix says how: `.csv`, `.tsv` or `.sql`, perhaps with `.gz` or `.zst` behind it. CSV and
            TSV hold one table; for several, `{table}` in the name stands for theirs.
        threads: that make rows; as many as there are processors if None.
        create: let SQL begin with CREATE TABLE.
        show: told how far it is, about with every MiB.

    Raises:
        UsageError: the name does not say how, several tables would be in one file, or a generator of the user
            failed.
        NotWritable, NoSpace: the file cannot be written.
    """
    form, compression = _way(file)
    files = _files(plan, file, form)
    rows = _core.Rows(plan.json)
    began, python_before = time.monotonic(), _core.python_seconds()
    total = sum(table.rows for table in plan.tables)
    done_rows = done_bytes = 0
    workers = threads or len(os.sched_getaffinity(0))
    with _functions_of_the_user(), ThreadPoolExecutor(max_workers=workers) as pool:
        for path, tables in files:
            with _opened(path) as stream:
                if form == "sql":
                    done_bytes += _write(stream, path, _packed(_HEAD, compression))
                for number in tables:
                    table = plan.tables[number]
                    head = _head(table, form, create)
                    if head:
                        done_bytes += _write(stream, path, _packed(head, compression))
                    for count, piece in _pieces(pool, workers, rows, number, table, form, compression):
                        done_bytes += _write(stream, path, piece)
                        done_rows += count
                        seconds = time.monotonic() - began
                        show(Progress(rows=done_rows, all_rows=total, bytes=done_bytes, seconds=seconds))
    statements = [_statement(plan, rows, path, form, tables) for path, tables in files]
    return Exported(
        files=tuple(str(path) for path, _ in files),
        rows=done_rows,
        bytes=done_bytes,
        seconds=time.monotonic() - began,
        python_seconds=_core.python_seconds() - python_before,
        statements=tuple(statements),
    )


def _way(file: Path) -> tuple[Format, str]:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in _LEVELS else ""
    form = suffixes[-1].removeprefix(".") if suffixes else ""
    if form not in get_args(Format):
        raise UsageError(
            f"{file} does not say what to write",
            hint="name it .csv, .tsv or .sql; add .gz or .zst to compress it",
        )
    return msgspec.convert(form, Format), compression


def _files(plan: FillPlan, file: Path, form: Format) -> list[tuple[Path, tuple[int, ...]]]:
    """Files with the numbers of their tables."""
    numbers = range(len(plan.tables))
    if _EACH_TABLE in file.name:
        named = [(plan.tables[number].name, number) for number in numbers]
        for name, _ in named:
            if "/" in name or "\0" in name:
                raise UsageError(f"{name!r} cannot be part of a file's name", hint="write one .sql instead")
        return [(file.with_name(file.name.replace(_EACH_TABLE, name)), (number,)) for name, number in named]
    if form != "sql" and len(plan.tables) > 1:
        tables = ", ".join(table.name for table in plan.tables)
        hint = f"write {file.with_name('{table}' + ''.join(file.suffixes))}"
        raise UsageError(f"a .{form} file holds one table, and the plan has {tables}", hint=hint)
    return [(file, tuple(numbers))]


def _head(table: PlanTable, form: Format, create: bool) -> bytes:
    if form == "csv":
        return (",".join(map(_csv_name, table.columns)) + "\n").encode()
    return f"{table.create};\n".encode() if form == "sql" and create else b""


def _csv_name(name: str) -> str:
    return f'"{name.replace(chr(34), chr(34) * 2)}"' if any(c in name for c in ',"\n\r') else name


def _pieces(
    pool: ThreadPoolExecutor,
    workers: int,
    rows: _core.Rows,
    number: int,
    table: PlanTable,
    form: Format,
    compression: str,
) -> Iterator[tuple[int, bytes]]:
    """The table's rows in order: how many, and their bytes."""
    names = ", ".join(map(quoted, table.columns))
    before = f"INSERT INTO {quoted(table.name)} ({names}) VALUES ".encode() if form == "sql" else b""
    sample = min(table.rows, _FIRST_ROWS)
    a_row = max(1, len(rows.write(number, 0, sample, form)) // max(1, sample))
    each = max(1, (_STATEMENT_BYTES if form == "sql" else _PIECE_BYTES) // a_row)

    def make(first: int) -> tuple[int, bytes]:
        last = min(table.rows, first + each)
        made = rows.write(number, first, last, form)
        if form == "sql":
            made = before + made + b";\n"
        return last - first, _packed(made, compression)

    waiting: deque[Future[tuple[int, bytes]]] = deque()
    try:
        for first in range(0, table.rows, each):
            waiting.append(pool.submit(make, first))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


@contextmanager
def _functions_of_the_user() -> Iterator[None]:
    """Where functions that the plan names make rows, a failure of theirs is an error of the user's."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error), hint="fix the function that the plan names") from error


def _packed(piece: bytes, compression: str) -> bytes:
    if compression == ".gz":
        packer = zlib.compressobj(_LEVELS[compression], zlib.DEFLATED, _GZIP)
        return packer.compress(piece) + packer.flush()
    if compression == ".zst":
        return zstandard.ZstdCompressor(level=_LEVELS[compression]).compress(piece)
    return piece


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A new file, which takes its name at the end; a device or a pipe as it is."""
    with ExitStack() as stack:
        try:
            if path.exists() and not path.is_file():
                stream: IO[bytes] = stack.enter_context(path.open("wb", buffering=0))
            else:
                stream = stack.enter_context(atomic.opened(path))
        except OSError as error:
            raise NotWritable(
                f"{path} cannot be written: {error.strerror}", hint="name a file in a directory that exists"
            ) from error
        yield stream


def _write(stream: IO[bytes], path: Path, piece: bytes) -> int:
    left = memoryview(piece)
    try:
        while left:
            left = left[stream.write(left) :]
    except OSError as error:
        if error.errno in (_ENOSPC, _EDQUOT):
            what = f"{path}: no space is left"
            raise NoSpace(what, hint="free some, or compress it: .zst") from error
        raise NotWritable(f"{path} cannot be written: {error.strerror}") from error
    return len(piece)


def _statement(plan: FillPlan, rows: _core.Rows, path: Path, form: Format, tables: tuple[int, ...]) -> str:
    """What loads a file once it is uncompressed."""
    if path.suffix in _LEVELS:
        path = path.with_suffix("")
    if form == "sql":
        return f"SOURCE {path};"
    table = plan.tables[tables[0]]
    nullable = [
        can_be_null or extent["kind"] == "given"
        for extent, can_be_null in msgspec.json.decode(_core.describe_rows(plan.json))["tables"][tables[0]]
    ]
    fields, changes = [], []
    for place, (name, expression) in enumerate(
        zip(table.columns, rows.load_expressions(tables[0]), strict=True), start=1
    ):
        if expression is None and form == "csv" and nullable[place - 1]:
            expression = f"NULLIF(@c{place}, '')"  # to LOAD DATA an empty field is an empty text
        fields.append(quoted(name) if expression is None else f"@c{place}")
        if expression is not None:
            changes.append(f"{quoted(name)} = {expression}")
    text = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return (
        f"LOAD DATA LOCAL INFILE '{text}' INTO TABLE {quoted(table.name)} CHARACTER SET utf8mb4"
        + (_CSV_FIELDS if form == "csv" else "")
        + f" ({', '.join(fields)})"
        + (f" SET {', '.join(changes)}" if changes else "")
        + ";"
    )
