"""Command: runs the suite's command as a shell would, with its input and output untouched.

Suite layer. A prepare command's output is searched for errors on its way to stderr, because a script without
`set -e` exits with 0 although its client failed. The command stays in flushlab's process group, so that the
terminal's Ctrl-C reaches it; flushlab itself only records the signal and waits for the command to act.
Signals sent to flushlab alone are passed on. Flushlab and the command both ignore the signals that were
ignored at the start (`nohup`). Exit codes follow the shell: 127 not found, 126 not executable, 128+n ended by
signal n.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import termios
import threading
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec
from msgspec import structs

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_WATCHED = {*_PASSED_ON, signal.SIGCHLD}
_SI_KERNEL = 0x80
"""sigaction(2): the kernel sent it; a terminal's Ctrl-C reaches the whole process group."""

_PATIENCE = 3
"""Signals after which a command that ignores them is killed."""

_ERROR = re.compile(
    rb"ERROR:? \d{4,5} \(\w{5}\) at line \d+[^\x1b]*"  # mysql, mariadb, mysqlsh
    rb"|Migration of schema .* failed!.*|Migration failed for change ?set .*"  # Flyway, Liquibase
    rb"|A migration failed to apply\..*"  # Prisma
    rb"|migration failed with error: [^\x1b]*"  # Knex
    rb"|An error has occurred, (?:this and )?all later migrations canceled"  # Rails
    rb"|\(details: Error \d{4}\b.*|while executing migration \d+: .*"  # golang-migrate, sqlx
)
"""An error without a line is one of the connection: scripts wait for a server so."""
_MOST_ERRORS = 3
_TAIL_BYTES = 1 << 16
_END = b"\0flushlab: the end of the command\0"
"""Written behind the command's own output."""


class CommandEnd(msgspec.Struct, frozen=True, kw_only=True):
    """`exit_code`: by the rules of the shell; `errors`: lines with which clients and migration tools report a
    failure."""

    exit_code: int
    interrupted: bool = False
    problem: str = ""
    errors: tuple[str, ...] = ()
    tail: str = ""


def find_problem(words: Sequence[str], environment: Mapping[str, str]) -> CommandEnd | None:
    if shutil.which(words[0], path=environment.get("PATH", os.defpath)) is not None:
        return None
    path = words[0] if os.sep in words[0] else shutil.which(words[0], os.F_OK, environment.get("PATH"))
    if path is not None and os.path.exists(path):  # noqa: PTH110
        return CommandEnd(exit_code=NOT_EXECUTABLE, problem=f"{words[0]}: cannot be executed")
    return CommandEnd(exit_code=NOT_FOUND, problem=f"{words[0]}: command not found")


def run(words: Sequence[str], environment: Mapping[str, str], output: int | None = None) -> CommandEnd:
    seen: list[int] = []
    with _noting(seen) as watched:
        try:
            child = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
        except FileNotFoundError:
            return CommandEnd(exit_code=NOT_FOUND, problem=f"{words[0]}: command not found")
        except OSError as error:
            return CommandEnd(exit_code=NOT_EXECUTABLE, problem=f"{words[0]}: {error.strerror}")
        code = _wait(child, seen, {*watched, signal.SIGCHLD})
    return CommandEnd(exit_code=code if code >= 0 else 128 - code, interrupted=bool(seen))


def run_listening(words: Sequence[str], environment: Mapping[str, str]) -> CommandEnd:
    if os.isatty(2):
        source, sink = os.openpty()
        tty.setraw(sink)
        termios.tcsetwinsize(sink, termios.tcgetwinsize(2))
    else:
        source, sink = os.pipe()
    listener = _Listener(source)
    listener.start()
    try:
        ended = run(words, environment, sink)
    finally:
        os.write(sink, _END)
        listener.heard.wait()
        os.close(sink)
    return structs.replace(ended, errors=tuple(listener.errors), tail=listener.tail.decode(errors="replace"))


class _Listener(threading.Thread):
    def __init__(self, source: int) -> None:
        super().__init__(name="listen", daemon=True)
        self._source = source
        self.heard = threading.Event()
        self.errors: list[str] = []
        self.tail = b""

    def run(self) -> None:
        shield_thread()
        line = held = b""
        with suppress(OSError):  # EIO: nobody has the other side of the terminal any more
            while piece := os.read(self._source, 1 << 16):
                piece = held + piece
                cut = piece.rfind(b"\0") if _END not in piece else -1
                held = piece[cut:] if cut >= 0 and _END.startswith(piece[cut:]) else b""
                shown, end, rest = piece[: len(piece) - len(held)].partition(_END)
                with suppress(OSError):  # a closed stderr ends no command
                    os.write(2, shown + rest)
                if self.heard.is_set():
                    continue
                self.tail = (self.tail + shown)[-_TAIL_BYTES:]
                *lines, line = (line + shown).replace(b"\r", b"\n").split(b"\n")
                for one in [*lines, line] if end else lines:
                    if len(self.errors) < _MOST_ERRORS and (match := _ERROR.search(one)):
                        self.errors.append(match[0].decode(errors="replace").strip())
                if end:
                    self.heard.set()
        self.heard.set()
        os.close(self._source)


def shield_thread() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)


def _wait(child: subprocess.Popen[bytes], seen: list[int], watched: set[signal.Signals]) -> int:
    with _blocked(watched):
        for number in seen:  # received before they were blocked: the sender is unknown
            if number != signal.SIGINT or not _in_foreground():
                child.send_signal(number)
        while (code := child.poll()) is None:
            got = signal.sigtimedwait(watched, 0.2)  # in case a thread without a shield took the SIGCHLD
            if got is None or got.si_signo == signal.SIGCHLD:
                continue
            seen.append(got.si_signo)
            if len(seen) >= _PATIENCE:
                child.kill()
            elif got.si_code != _SI_KERNEL:
                child.send_signal(got.si_signo)
        return code


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextmanager
def _blocked(watched: set[signal.Signals]) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        yield
    finally:
        while signal.sigtimedwait(watched, 0) is not None:
            pass  # a signal that came with the command's end has had its effect
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _noting(seen: list[int]) -> Iterator[list[signal.Signals]]:
    heeded = [number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda got, _: seen.append(got)) for number in heeded}
    try:
        yield heeded
    finally:
        for number, handler in before.items():
            with suppress(TypeError):  # a handler that was not set from Python
                signal.signal(number, handler)
