"""What rule books advise where the doctor diagnoses: MySQLTuner and pt-variable-advisor on planted servers.

    python benchmarks/rule_books.py [--server mysql@8.0] [--case NAME]… [--seconds 30]

Each case is a server of `doctor_planted` under its load. The doctor watches it; then the rule books read the
same server under the same load. For each case, prints the doctor's first finding and the advice of each rule
book. No verdict. Both programs come with Debian (mysqltuner, percona-toolkit); a missing one is left out.
pt-mysql-summary and pt-stalk collect and advise nothing. Needs root for the emulated disks.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from doctor_planted import FLAVORS, HEALTHY, KINDS, Kind, started, under, watched_meanwhile
from programs import say

from flushlab.diagnosis import sampling
from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.errors import FlushlabError
from flushlab.server import Sandbox
from flushlab.server.remote.server import watched
from flushlab.workload.sliced import SlicedLoad

CASES: Mapping[str, Kind] = {
    **{name: KINDS[name] for name in ("sync-at-commit", "log-buffer", "hot-row", "pool-of-16-MB")},
    **{name: HEALTHY[name] for name in ("usual", "idle")},
}
_SLICE_S = 2.0
_LONGEST_S = 300.0
_NOTE = re.compile(r"^# (?:WARN|NOTE) (?P<variable>[\w-]+): (?P<text>.*)", re.MULTILINE)
_INDENT = "    "


def tuner(server: Sandbox) -> Iterator[str]:
    """MySQLTuner's recommendations: settings first."""
    own = server.endpoint
    words = ["mysqltuner", "--nocolor", "--skippassword", "--noinfo", "--nogood"]
    words += ["--host", "127.0.0.1", "--port", str(own.port)]
    told = _told(*words, "--user", own.user, "--pass", own.password)
    general, _, adjust = told.partition("Variables to adjust:")
    general = general.partition("General recommendations:")[2]
    if not general:
        raise FlushlabError(f"mysqltuner recommends nothing: {told[-300:]}")
    for text in (adjust, general):
        yield from (line.strip() for line in text.splitlines() if line.startswith(_INDENT))


def advisor(server: Sandbox) -> Iterator[str]:
    """What pt-variable-advisor notes of the variables."""
    rows = [("Variable_name", "Value"), *server.query("SHOW GLOBAL VARIABLES")]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{name}\t{value}\n" for name, value in rows)
        file.flush()
        told = _told("pt-variable-advisor", "--source-of-variables", file.name)
    yield from (f"{note['variable']}: {note['text']}" for note in _NOTE.finditer(told))


def _told(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    if done.returncode or not done.stdout.strip():
        why = done.stderr.strip().splitlines() or ["it told nothing"]
        raise FlushlabError(f"{words[0]} stopped with exit code {done.returncode}: {why[-1][-300:]}")
    return done.stdout


BOOKS: Mapping[str, Callable[[Sandbox], Iterator[str]]] = {
    "mysqltuner": tuner,
    "pt-variable-advisor": advisor,
}


def judged(kind: Kind, build: str, seconds: float, folder: Path) -> tuple[Diagnosis, dict[str, list[str]]]:
    """The diagnosis, and the advice of each rule book that is here."""
    here = {name: read for name, read in BOOKS.items() if shutil.which(name)}
    with started(kind, build) as server:
        if not kind.load:
            found = diagnose(sampling.watch(watched(server, "healthy"), seconds, lambda _: None))
            return found, {name: list(read(server)) for name, read in here.items()}
        with under(server, kind.load, kind.threads, folder) as load:
            found, _ = watched_meanwhile(server, load, seconds)
            with _going_on(load):
                return found, {name: list(read(server)) for name, read in here.items()}


@contextmanager
def _going_on(load: SlicedLoad) -> Iterator[None]:
    """The load, until the end of the context."""
    over = threading.Event()

    def drive() -> None:
        while not over.is_set():
            load.slice(_SLICE_S)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main() -> int:
    """Runs the cases and prints what each says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="mysql@8.0", choices=FLAVORS)
    parser.add_argument("--case", action="append", choices=tuple(CASES))
    parser.add_argument("--seconds", type=float, default=30.0, help="that the doctor watches")
    given = parser.parse_args()
    missing = [name for name in BOOKS if shutil.which(name) is None]
    if missing:
        say(f"not here, so left out: {', '.join(missing)}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in given.case or CASES:
            if given.server in CASES[name].not_on:
                continue
            try:
                found, advice = judged(CASES[name], given.server, given.seconds, Path(folder))
            except FlushlabError as error:
                say(f"{name}: failed: {error}")
                failed += 1
                continue
            say(f"{name} on {given.server}\n  doctor: {found.answer}")
            for book, lines in advice.items():
                say("\n".join([f"  {book}:", *(f"    {line}" for line in lines or ["nothing"])]))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
