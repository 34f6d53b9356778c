"""The entry: runs a command, and turns whatever ends it into a message and an exit code.

Nobody sees a traceback, but with FLUSHLAB_DEBUG=1. Only the standard library is imported before Ctrl-C is
listened to; before that it ends the process at once, as `__main__` has it.
"""

from __future__ import annotations

import atexit
import codecs
import errno
import io
import os
import signal
import sys
import threading
import unicodedata
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from flushlab.undo import signals

if TYPE_CHECKING:
    from flushlab.errors import FlushlabError

INTERRUPTED, PIPE_CLOSED = 130, 141
"""Exit codes as a shell forms them from SIGINT and SIGPIPE."""

_NO_HOME = ("Could not determine home directory.",)
"""Message of pathlib for `~name` without such a user; a shell leaves the word as it is."""


def main() -> NoReturn:
    with _Ending():
        _open_standard_files()
        _go_on_unread()
        _print_in_any_encoding()
        from flushlab.cli.app import run

        signals.clear()
        if signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(signal.SIGINT, _interrupt)  # `__main__` lets it end the process
        signal.signal(signal.SIGTERM, _interrupt)
        if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # else under nohup: it stays ignored
            signal.signal(signal.SIGHUP, _hang_up)
        sys.exit(run(sys.argv[1:]))
    raise AssertionError("the context exits")


class _Ending:
    def __enter__(self) -> None:
        threading.excepthook = _tell_of_thread

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> NoReturn:
        threading.excepthook = threading.__excepthook__
        # Every server is gone: from here on it ends at once.
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(one) in (_interrupt, _hang_up):
                signal.signal(one, signal.SIG_DFL)
        lost = _flush_stdout()
        if isinstance(error, OSError) and error.filename is None:
            error = lost or _help_lost(error) or error  # that is what it was about
        code = _print_ending(error)
        _exit(code if lost is None or code else _print_ending(lost))


def _exit(code: int) -> NoReturn:
    """Exits; without the last steps of libraries if the first machine of a fleet was lost."""
    connect = sys.modules.get("flushlab.fleet.connect")
    if connect is None or not connect.is_left_open():
        sys.exit(code)
    atexit._run_exitfuncs()
    for one in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            one.flush()
    os._exit(code)


def _interrupt(number: int, _frame: object) -> NoReturn:
    name = signal.Signals(number).name
    signals.append(name)
    raise KeyboardInterrupt(*([] if number == signal.SIGINT else [name]))


def _hang_up(number: int, frame: object) -> NoReturn:
    """Once: when a terminal closes the shell sends it, and the kernel again while things are undone."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _interrupt(number, frame)


class _Unread(io.FileIO):
    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def _go_on_unread() -> None:
    """Progress that cannot be written (a closed terminal, `tee` after Ctrl-C, a full disk) ends nothing:
    above all not the undoing of what was changed on somebody's server."""
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(_Unread(sys.stderr.fileno(), "wb", closefd=False)),
            encoding=sys.stderr.encoding,
            errors=sys.stderr.errors,
            write_through=True,
            line_buffering=True,
        )


def _open_standard_files() -> None:
    """Lets no file that is opened later take the number of a standard one that the caller closed."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)


def _print_in_any_encoding() -> None:
    codecs.register_error(_ASCII, in_ascii)
    codecs.register(_search)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_ASCII if is_ascii else stream.encoding, errors=_ASCII)


_SPELLED = {
    **dict.fromkeys("·–—−━╸╺", "-"),
    "…": "...",
    "×": "x",
    "÷": "/",
    "→": "->",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "±": "+/-",
    "µ": "u",
    "⋮": ":",
    "σ": "sigma",
    "δ": "delta",
    "Φ": "Phi",
    "“": '"',
    "”": '"',
}

_ASCII = "spelled_ascii"
"""ASCII under another name: to a stream whose encoding is called ascii, click writes UTF-8 all the same."""


def _search(name: str) -> codecs.CodecInfo | None:
    if name != _ASCII:
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        known.encode,
        known.decode,
        incrementalencoder=known.incrementalencoder,
        incrementaldecoder=known.incrementaldecoder,
        name=_ASCII,
    )


def in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    plain = (unicodedata.normalize("NFKD", one).encode("ascii", "ignore").decode() or "?" for one in text)
    return "".join(_SPELLED.get(one, letters) for one, letters in zip(text, plain, strict=True)), error.end


def _flush_stdout() -> BaseException | None:
    """Writes what is left; what cannot be written is forgotten, for the interpreter would try again."""
    if sys.stdout is None:
        return None
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        lost: BaseException = error
    except OSError as error:
        from flushlab.cli.plain import stdout_lost

        lost = stdout_lost(error)
    else:
        return None
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return lost


def _help_lost(error: OSError) -> BaseException | None:
    """Message if click was printing: unbuffered, stdout fails there and has nothing left to flush."""
    from traceback import walk_tb

    if not any(frame.f_code.co_name == "echo" for frame, _ in walk_tb(error.__traceback__)):
        return None
    from flushlab.cli.plain import stdout_lost

    return error if isinstance(error, BrokenPipeError) else stdout_lost(error)


def _print_ending(error: BaseException | None) -> int:
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, KeyboardInterrupt):
        _tell_of_notes(error)
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    from flushlab.cli.output import print_error

    known = _known(error)
    with suppress(OSError):  # stderr may lie on a full disk
        if os.environ.get("FLUSHLAB_DEBUG"):
            import traceback

            traceback.print_exception(error)
        print_error(known)
    _tell_of_notes(error)
    return known.exit_code


def _tell_of_notes(error: BaseException) -> None:
    if notes := getattr(error, "__notes__", ()):
        from flushlab.cli.output import print_warning

        with suppress(OSError):
            for note in notes:
                print_warning(note)


def _known(error: BaseException) -> FlushlabError:
    from flushlab.errors import FlushlabError, HarnessError, NoMemory, NoSpace, StorageError, UsageError

    if isinstance(error, FlushlabError):
        return error
    if isinstance(error, MemoryError):
        return NoMemory("flushlab ran out of memory", hint="free some, or ask for less at once")
    if isinstance(error, RuntimeError) and error.args == _NO_HOME:
        return UsageError(
            "a path begins with ~ and the name of no user of this machine", hint="write the path in full"
        )
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return UsageError(
            "a path or a name in it is longer than the file system allows", hint="write a shorter one"
        )
    debug = "set FLUSHLAB_DEBUG=1 to see where it happened"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        kind = NoSpace if full else StorageError
        return kind(where + error.strerror, hint="free some space" if full else debug)
    return HarnessError(
        f"internal error: {type(error).__name__}: {error}", hint=f"this is a bug in flushlab; {debug}"
    )


def _tell_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        _print_ending(args.exc_value)


if __name__ == "__main__":
    main()
