"""`command: …`: any program as a workload; its result is the duration in seconds."""

from __future__ import annotations

import ctypes
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Self
from urllib.parse import quote

import msgspec
from msgspec import Meta

from flushlab.errors import CommandFailed, UsageError
from flushlab.record import Endpoint, Value, Warning
from flushlab.server.protocol import Server
from flushlab.server.sql import quoted
from flushlab.spec.option import Option
from flushlab.workload.protocol import Measured, Reset, Timing, Window


class CommandWord(NamedTuple):
    text: str
    is_whole: bool = True


def files_named(command: str, folder: Path) -> Iterator[tuple[CommandWord, Path]]:
    for word in dict.fromkeys(words_of(command)):
        try:
            path = Path(os.path.normpath(folder / Path(word.text).expanduser()))
            is_file = path.is_file()
        except (OSError, RuntimeError):  # a word that is too long for a name, or begins with ~ and no user
            continue
        if is_file:
            yield word, path


def words_of(command: str) -> Iterator[CommandWord]:
    try:
        words = shlex.split(command)
    except ValueError:  # a quote that does not end: the shell will say so
        words = command.split()
    for word in words:
        bare = word.lstrip("0123456789<>&|;(").rstrip(";&|)")
        yield CommandWord(word)
        parts = dict.fromkeys((bare, bare.partition("=")[2]))
        yield from (CommandWord(part, is_whole=False) for part in parts if part not in ("", word))
        if len(word.split()) > 1:
            yield from words_of(word)


HEAD_BYTES, TAIL_BYTES = 4 << 10, 12 << 10
"""Of a longer output, its beginning and its end are kept."""

_CHUNK_BYTES = 64 << 10
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class ProgramEnd(NamedTuple):
    """`code`: negative: killed by that signal; None: killed at the limit."""

    code: int | None
    seconds: float
    output: str


def run_program(
    command: str, env: Mapping[str, str], folder: str | None, limit_s: float, stop: int | None = None
) -> ProgramEnd:
    """`stop`: a descriptor that becomes readable to have it killed before `limit_s`."""
    started = time.monotonic()
    child = subprocess.Popen(
        ["/bin/sh", "-c", command],
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
    )
    assert child.stdout is not None, "it is a pipe"
    with child.stdout:
        output, kept = child.stdout.fileno(), _Kept()
        try:
            in_time = _follow(child.pid, output, kept, started + limit_s, stop)
            seconds = time.monotonic() - started
        finally:
            with suppress(ProcessLookupError):  # the whole group may have ended by itself
                os.killpg(child.pid, signal.SIGKILL)
            code = child.wait()
            os.set_blocking(output, False)  # somebody who left the group may still hold it open
            with suppress(BlockingIOError):
                while kept.take(os.read(output, _CHUNK_BYTES)):
                    pass
    return ProgramEnd(code if in_time else None, seconds, kept.text())


def _follow(pid: int, output: int, kept: _Kept, deadline: float, stop: int | None) -> bool:
    ended = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(output, select.POLLIN)
        if stop is not None:
            poll.register(stop, select.POLLIN)
        while (left_s := deadline - time.monotonic()) > 0:
            ready = dict(poll.poll(left_s * 1000))
            if ended in ready:
                return True
            if stop in ready:
                return False
            if output in ready and not kept.take(os.read(output, _CHUNK_BYTES)):
                poll.unregister(output)  # closed by everybody; it goes on in silence
        return False
    finally:
        os.close(ended)


class _Kept:
    def __init__(self) -> None:
        self._head, self._tail, self._bytes = b"", b"", 0

    def take(self, chunk: bytes) -> bool:
        self._bytes += len(chunk)
        room = HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail = (self._tail + chunk[room:])[-TAIL_BYTES:]
        return bool(chunk)

    def text(self) -> str:
        left_out = self._bytes - len(self._head) - len(self._tail)
        gap = f"\n[… {left_out:,} bytes left out …]\n".encode() if left_out else b""
        return (self._head + gap + self._tail).decode(errors="replace")


PREFIX = "command:"
DATABASE = "flushlab"
SHORT_S = 1.0
"""A shorter run measures how fast programs start as much as how fast the server writes."""

_SHOWN_LINES, _SHOWN_BYTES = 10, 2_000
_NAME_CHARACTERS = 60
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_PATH = re.compile(r"[\w.+-]*/[\w./+-]*")
_CLIENT_ERROR = re.compile(r"^ERROR \d+ \(\w{5}\).*", re.MULTILINE)
"""How the servers' command-line clients report an error."""


class CommandWorkload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    command: str
    folder: str = ""
    timeout: Annotated[
        float,
        Meta(ge=1, le=604_800),
        Option("Seconds after which a run is killed, with everything that it started."),
    ] = 3600.0
    reset: Annotated[
        Reset,
        Option("each: every run starts from a fresh copy of the data. none: from what the last run left."),
    ] = "each"
    warm_up_runs: Annotated[
        int,
        Meta(ge=0, le=100),
        Option("Runs before the measured one, on the same server and data; they are not timed."),
    ] = 0
    database: str = DATABASE
    slice_s: ClassVar[None] = None

    @classmethod
    def read(cls, name: str, folder: Path | None, options: Mapping[str, Value]) -> Self:
        command = name.removeprefix(PREFIX).strip()
        if not command:
            raise UsageError(
                "--workload 'command:' has no command", hint="write --workload 'command: ./load.sh'"
            )
        _require_program(command, folder or Path())
        return msgspec.convert({"command": command, "folder": str(folder or ""), **options}, cls)

    @property
    def name(self) -> str:
        return f"{PREFIX} {self.command}"

    @property
    def data_key(self) -> Mapping[str, str]:
        return {"workload": "command"} if self.database == DATABASE else {}

    def driving(self, server: Server) -> None:
        pass

    def prepare(self, server: Server) -> None:
        server.query(f"CREATE DATABASE IF NOT EXISTS {quoted(self.database)}")

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        began = time.monotonic()
        for number in range(1, self.warm_up_runs + 1):
            self._check(self._run(server, "warm-up"), server, f" in warm-up run {number}")
        warm_up_s = time.monotonic() - began
        with window:
            ended = self._run(server, "measured")
        self._check(ended, server)
        return Measured(
            result=ended.seconds,
            unit="s",
            higher_is_better=False,
            warm_up_s=warm_up_s,
            window_s=ended.seconds,
            output=ended.output,
            warnings=tuple(_caveats(ended)),
        )

    def run_until(self, server: Server, stop: int) -> None:
        """Raises CommandFailed if it ended by itself, and not with exit code 0."""
        ended = self._run(server, "measured", stop)
        if not select.select([stop], [], [], 0)[0]:
            self._check(ended, server)

    def _run(self, server: Server, which: str, stop: int | None = None) -> ProgramEnd:
        env = {**environment(server.endpoint, self.database), "FLUSHLAB_RUN": which}
        try:
            ended = run_program(self.command, env, self.folder or None, self.timeout, stop)
        except OSError as error:
            raise CommandFailed(f"{self._short} cannot be started: {error}") from error
        secret = server.endpoint.password
        output = ended.output.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return ended._replace(output=output)

    def _check(self, ended: ProgramEnd, server: Server, when: str = "") -> None:
        if ended.code == 0:
            return
        if not server.alive():
            server.query("SELECT 1")  # raises ServerDied with the log's tail
        lines = ended.output[-_SHOWN_BYTES:].rstrip().splitlines()[-_SHOWN_LINES:]
        said = "\n" + "\n".join(lines) if lines else "; it printed nothing"
        code, where, hint = ended.code, self.folder or Path.cwd(), None
        if code is None:
            became = f"{self._short} did not end within {self.timeout:g} s and was killed"
            hint = "allow it more with --timeout SECONDS, or have it do less"
        elif code < 0:
            became = f"{self._short} was killed by {signal.Signals(-code).name}"
        else:
            became = f"exit code {code} from {self._short}"
            hint = {
                _NOT_FOUND: f"the shell did not find a program; the command runs in {where}",
                _NOT_EXECUTABLE: f"the file may not be executed: chmod +x; the command runs in {where}",
            }.get(code)
        raise CommandFailed(f"{became}{when}{said}", hint=hint, output=ended.output)

    @property
    def _short(self) -> str:
        line, *more = self.command.splitlines()
        return line if len(line) <= _NAME_CHARACTERS and not more else f"{line[:_NAME_CHARACTERS]}…"


def environment(endpoint: Endpoint, database: str = DATABASE) -> dict[str, str]:
    from flushlab.server.sandbox.option_files import client_environment  # loads the builds; --help needs none

    host, port = endpoint.host or "127.0.0.1", str(endpoint.port or 3306)
    user, password = quote(endpoint.user, safe=""), quote(endpoint.password, safe="")
    fields = {
        "host": host,
        "port": port,
        "socket": endpoint.socket or "",
        "user": endpoint.user,
        "password": endpoint.password,
        "database": database,
        "url": f"mysql://{user}:{password}@{host}:{port}/{quote(database, safe='')}",
    }
    own = {f"FLUSHLAB_{name.upper()}": value for name, value in fields.items() if name != "url"}
    return {
        **os.environ,
        **client_environment(fields),
        **own,
        "FLUSHLAB_OPTION_FILE": endpoint.option_file or "",
    }


def _require_program(command: str, folder: Path) -> None:
    word = command.split(maxsplit=1)[0]
    if _PATH.fullmatch(word) is None:
        return  # found on PATH, or it takes a shell to tell
    file = folder / word
    if not file.exists():
        raise UsageError(f"there is no {file.absolute()}", hint=f"the workload is {PREFIX} {command}")
    if not os.access(file, os.X_OK):
        raise UsageError(f"{file.absolute()} may not be executed", hint=f"chmod +x {file.absolute()}")


def _caveats(ended: ProgramEnd) -> list[Warning]:
    caveats = []
    if error := _CLIENT_ERROR.search(ended.output):
        text = f"the command ended with exit code 0, but printed: {error[0]}"
        caveats.append(Warning("errors-printed", text))
    if ended.seconds < SHORT_S:
        text = f"the command ran for only {ended.seconds:.2f} s, its own start included: have it do more"
        caveats.append(Warning("short-run", text))
    return caveats
