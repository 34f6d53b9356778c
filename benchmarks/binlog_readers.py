"""Do independent readers read binlogs as crates/binlog does: every event, every row value?

Part of `make soak`, or by hand (Maven, a JDK and Go are needed):

    .venv/bin/python benchmarks/binlog_readers.py

Files: those of crates/binlog/tests/corpus, which MySQL 5.7, 8.0, 9.7 and MariaDB 10.11, 11.8 wrote; a sample
that flushlab writes for each format; and what a sandbox of each of these servers writes now
(`binlog_transactions.py`), which crates/binlog's checker must find whole and read to the last event. Readers:
mysql-binlog-connector-java, go-mysql and Rust's mysql_common. They print events and values as they have them;
the comparison knows the forms. `READERS` lists the event types that a reader does not know and the values
that it misreads. JSON documents are compared as bytes with the Java reader only; the others print no
document. Exits with 1 if anything else differs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

from binlog_transactions import write
from programs import needs, say

from flushlab import _core
from flushlab.build import find_build
from flushlab.server import Sandbox, SandboxSpec

ROOT = Path(__file__).parents[1]
BINLOG = ROOT / "crates" / "binlog"
OUT = ROOT / "target" / "binlog-readers"
SAMPLES = ("8.0.44", "9.7.4", "10.11.19-MariaDB-log", "11.8.6-MariaDB")
SERVERS = ("mysql@5.7", "mysql@8.0", "mysql@9.7", "mariadb@10.11", "mariadb@11.8")
GTIDS = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GREGORIAN = (datetime(1582, 10, 15, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_NO_DATE = "a date with a zero part"

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reader:
    """An independent reader of binlogs.

    Attributes:
        build: compiles its program and returns the command.
        absent: event types that it does not know or cannot read.
        reads_inside: whether it gives the values inside compressed transactions.
        misreads: kind of column -> the reason, and whether a value is one that it misreads. mysqlbinlog shows
            the values of crates/binlog.
    """

    name: str
    build: Callable[[], list[str]]
    absent: frozenset[int] = frozenset()
    reads_inside: bool = True
    misreads: dict[str, tuple[str, Callable[[Any], bool]]] = field(default_factory=dict)


def main() -> int:
    """Compares all files; 1 if a reader differs."""
    needs("mvn", "javac", "java", "go", "cargo")
    dump = build_dump()
    with tempfile.TemporaryDirectory() as folder:
        names = [*corpus(), *samples(Path(folder)), *served(Path(folder))]
        ours = [(name, files, lines([str(dump)], files)) for name, files in names]
        return max([disagreement(reader, ours) for reader in READERS])


def disagreement(reader: Reader, ours: list[tuple[str, list[Path], list[Line]]]) -> int:
    """1 if a reader differs beyond what is known of it, or reads nothing."""
    command = reader.build()
    total: Counter[str] = Counter()
    for name, files, mine in ours:
        found = compared(reader, mine, lines(command, files))
        say(
            f"{reader.name}, {name}: {found['events']} events, {found['values']} values, "
            f"{found['different']} different"
        )
        total += found
    for kind, (reason, _) in reader.misreads.items():
        say(f"{reader.name}: explained: {total[kind]} of {kind}: {reason}")
    say(
        f"{reader.name}: {total['events']} events, {total['values']} values, "
        f"{total['unknown']} events unknown, {total['different']} different"
    )
    return 1 if total["different"] or not total["values"] else 0


def build_dump() -> Path:
    """The example of crates/binlog that prints files."""
    command = ("cargo", "build", "--release", "-q", "-p", "flushlab-binlog", "--example", "dump")
    subprocess.run([*command, "--target-dir", OUT / "rust"], cwd=ROOT, check=True)
    return OUT / "rust" / "release" / "examples" / "dump"


def build_java() -> list[str]:
    """The command that prints files as mysql-binlog-connector-java reads them."""
    libraries, classes = OUT / "java" / "lib", OUT / "java" / "classes"
    source = BINLOG / "readers" / "java"
    copy = ["mvn", "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"]
    subprocess.run(copy, cwd=source, check=True)
    classes.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["javac", "-cp", f"{libraries}/*", "-d", classes, source / "Dump.java"], cwd=ROOT, check=True
    )
    return ["java", "-cp", f"{classes}:{libraries}/*", "Dump"]


def build_go() -> list[str]:
    """The command that prints files as go-mysql reads them."""
    program = OUT / "go" / "dump"
    subprocess.run(["go", "build", "-o", program, "."], cwd=BINLOG / "readers" / "go", check=True)
    return [str(program)]


def build_rust() -> list[str]:
    """The command that prints files as mysql_common reads them."""
    command = ["cargo", "build", "--release", "--locked", "-q", "--target-dir", str(OUT / "mysql_common")]
    subprocess.run(command, cwd=BINLOG / "readers" / "mysql_common", check=True)
    return [str(OUT / "mysql_common" / "release" / "binlog-reader")]


def corpus() -> Iterator[tuple[str, list[Path]]]:
    """Files of real servers."""
    for folder in sorted((BINLOG / "tests" / "corpus").iterdir()):
        yield folder.name, sorted(folder.iterdir())


def samples(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Files that flushlab writes, with every type of column."""
    for version in SAMPLES:
        (into := folder / version).mkdir()
        _core.write_sample_binlog(str(into), version, "t", 1000, 200_000, True)
        yield f"sample {version}", sorted(into.glob("binlog.0*"))


def served(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Files that servers write now."""
    for name in SERVERS:
        (into := folder / name).mkdir()
        settings = {"log_bin": "binlog", **(GTIDS if name.startswith("mysql") else {})}
        with Sandbox.start(SandboxSpec(find_build(name), settings=settings)) as server:
            written = write(server, name)
            files = [
                Path(shutil.copy(file, into)) for file in sorted(server.datadir.glob("binlog.[0-9]*[0-9]"))
            ]
        for report in json.loads(_core.check_binlogs([str(file) for file in files])):
            if report["verdict"] != "whole" or report["opaque_events"]:
                sys.exit(f"error: {name}: {report}")
        say(f"{name}: {written} transactions in {len(files)} files, whole")
        yield f"server {name}", files


def lines(command: list[str], files: list[Path]) -> list[Line]:
    """Events that a reader prints."""
    done = subprocess.run([*command, *map(str, files)], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compared(reader: Reader, ours: list[Line], theirs: list[Line]) -> Counter[str]:
    """Counts of events, values and differences; the differences are printed."""
    found: Counter[str] = Counter()
    none: Line = {}
    for one, other in zip_longest(ours, theirs, fillvalue=none):
        if "file" in one or "file" in other:
            found["different"] += one != other
            continue
        found["events"] += 1
        if one.get("event") in reader.absent:
            found["unknown"] += 1
            continue
        if (one.get("event"), one.get("inside")) != (other.get("event"), other.get("inside")):
            differ(found, f"event {one.get('event')} is {other.get('event')}")
        if one.get("inside") and not reader.reads_inside:
            found["unknown"] += 1
            continue
        found += compared_rows(reader, one, other)
    return found


def compared_rows(reader: Reader, one: Line, other: Line) -> Counter[str]:
    """The same of an event's rows."""
    found: Counter[str] = Counter()
    ours, theirs = one.get("rows", []), other.get("rows", [])
    if [[len(image) for image in row] for row in ours] != [[len(image) for image in row] for row in theirs]:
        differ(found, f"event {one['event']} has other rows")
        return found
    for row, their_row in zip(ours, theirs, strict=True):
        for kinds, image, their_image in zip(one["kinds"], row, their_row, strict=True):
            for kind, value, their_value in zip(kinds, image, their_image, strict=True):
                if kind == "json" and "j:" in (both := (value, their_value)) and None not in both:
                    continue
                found["values"] += 1
                mine = meant(kind, value)
                if mine == meant(kind, their_value):
                    continue
                if kind in reader.misreads and reader.misreads[kind][1](mine):
                    found[kind] += 1
                else:
                    differ(found, f"{kind}: {value} is {their_value}")
    return found


def differ(found: Counter[str], words: str) -> None:
    """Counts a difference."""
    found["different"] += 1
    say(f"  {words[:150]}")


def meant(kind: str, text: str | None) -> Any:
    """A printed value in a form in which equal values are equal."""
    if text is None:
        return None
    form, value = text[0], text[2:]
    if form == "i" and kind.startswith("int"):
        return int(value) % (1 << 8 * int(kind.removeprefix("int")))
    if form == "i" and kind == "bits":
        return int(value) % (1 << 64)
    if kind == "decimal":
        return Decimal(value)
    if kind in ("date", "datetime"):
        return moment(value) if form == "D" else _NO_DATE if int(value) == -(1 << 63) else int(value)
    if kind == "time" and form == "T":
        hour, minute, second = value.removeprefix("-").split(":")
        micros = (int(hour) * 60 + int(minute)) * 60_000_000 + int(Decimal(second) * 1_000_000)
        return -micros if value.startswith("-") else micros
    if kind == "bytes" and form == "t":
        return f"s:{value.encode().hex()}"
    if kind == "timestamp" and form == "t":
        return int(Decimal(value) * 1_000_000)
    if kind == "timestamp" and form == "D":
        return 0 if value.startswith("0000") else moment(value)
    return int(value) if form == "i" else text


def moment(value: str) -> int | str:
    """Microseconds since 1970 of a date and time."""
    day, clock = value.split(" ")
    (year, month, date), (hour, minute, second) = map(int, day.split("-")), clock.split(":")
    if 0 in (year, month, date):
        return _NO_DATE
    at = datetime(year, month, date, int(hour), int(minute), tzinfo=UTC) - _EPOCH
    return at // timedelta(microseconds=1) + int(Decimal(second) * 1_000_000)


_JULIAN = (
    "it counts days before 1582-10-15 by the Julian calendar",
    lambda value: isinstance(value, int) and value < _GREGORIAN,
)
READERS = (
    Reader(
        "mysql-binlog-connector-java 0.30.1",
        build_java,
        frozenset({39, 42, 165, 166, 167, 168}),  # partial rows, tagged GTIDs, MariaDB's compressed events
        reads_inside=False,
        misreads={
            "time": ("it reads a TIME below zero as one above", lambda value: value < 0),
            "year": ("it reads the year 0 as 1900", lambda value: value == 0),
            "date": _JULIAN,
            "datetime": _JULIAN,
        },
    ),
    # It loses its place in MariaDB's compressed rows.
    Reader("go-mysql 1.9.1", build_go, frozenset({166, 167, 168})),
    Reader(
        "mysql_common 0.37.3",
        build_rust,
        frozenset({165, 166, 167, 168}),  # MariaDB's compressed events
        misreads={"year": ("it reads the year 0 as 1900", lambda value: value == 0)},
    ),
)


if __name__ == "__main__":
    sys.exit(main())
