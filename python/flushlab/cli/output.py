"""What every command shares of its output: data on stdout, progress on stderr, errors with hints.

Colours only on a terminal (rich honours NO_COLOR); files are written whole or not at all. A result is printed
before its files are written, and what cannot be written costs nothing but itself.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import msgspec

from flushlab import atomic
from flushlab.errors import FlushlabError, NotWritable

if TYPE_CHECKING:
    from flushlab.cli.consoles import PlainConsole as PlainConsole
    from flushlab.cli.consoles import console as console
    from flushlab.cli.consoles import stdout as stdout
else:

    def __getattr__(name: str) -> object:
        """The consoles, which load rich: that takes longer than all else of a short command."""
        if name not in ("PlainConsole", "console", "stdout"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("flushlab.cli.consoles"), name)


def stdout_lost(error: OSError) -> NotWritable:
    """What it means that standard output cannot be written."""
    return NotWritable(
        f"standard output cannot be written: {error.strerror}", hint="free some space, or write elsewhere"
    )


@contextmanager
def to_stdout() -> Iterator[None]:
    """Tells of a full disk behind stdout.

    Raises:
        NotWritable: stdout cannot be written.
        BrokenPipeError: nobody reads it.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # who read it has seen enough
    except OSError as error:
        raise stdout_lost(error) from error


TRAILING = re.compile(r" +$", re.MULTILINE)
_COLUMN = re.compile(r" *(?:\S+ {2,})?")


def wrapped(text: str, width: int) -> str:
    """Lines of at most that width, below their indent or their second column; long words stay whole."""
    lines = []
    for line in text.split("\n"):
        found = _COLUMN.match(line)
        indent = found[0] if found else ""
        lines += textwrap.wrap(
            line[len(indent) :],
            width,
            initial_indent=indent,
            subsequent_indent=" " * min(len(indent), width * 2 // 3),
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def deliver(*steps: Callable[[], object], kept: str | None = None) -> None:
    """Prints a result and writes its files: every step is taken, whatever becomes of the others.

    Args:
        steps: the result is printed in the first of them.
        kept: where the result is all the same; the hint of a file that cannot be written.

    Raises:
        FlushlabError: the first step that failed; later failures are printed as warnings.
        BrokenPipeError: nobody reads stdout, and all files are written.
    """
    failed: list[FlushlabError] = []
    unread: BrokenPipeError | None = None
    for step in steps:
        try:
            step()
        except BrokenPipeError as error:
            unread = error
        except FlushlabError as error:
            if isinstance(error, NotWritable):
                error.hint = kept or error.hint
            failed.append(error)
    for further in failed[1:]:
        print_error(further)
    if failed:
        raise failed[0]
    if unread:
        raise unread


def deliver_result(
    shown: object,
    document: Mapping[str, Any] | msgspec.Struct,
    json: str | None,
    *more: Callable[[], object],
    kept: str | None = None,
) -> None:
    """Prints a result, or its document where that goes to stdout, and writes its files; see `deliver`.

    Args:
        shown: for people; text, or what rich prints.
        document: for `--json`.
        json: file of the document, `-` for stdout, None for none.
        more: further steps.
        kept: as of `deliver`.
    """
    from flushlab.cli.consoles import stdout

    prints = [] if json == "-" else [partial(stdout.print, shown)]
    deliver(*prints, partial(emit_json, document, json), *more, kept=kept)


def print_text(text: str) -> None:
    """Prints text on stdout as `stdout` does, without rich."""
    with to_stdout():
        shown = wrapped(text, get_terminal_size().columns) if sys.stdout.isatty() else text
        sys.stdout.write(TRAILING.sub("", shown) + "\n")
        sys.stdout.flush()


def print_error(error: FlushlabError) -> None:
    """Prints `error: …` and, where there is one, `hint: …` on stderr."""
    from rich.text import Text

    from flushlab.cli.consoles import console

    console.print(Text.assemble(("error:", "bold red"), f" {error.message}"))
    if error.hint:
        console.print(Text.assemble(("hint:", "bold"), f" {error.hint}"))


def say(text: str) -> None:
    """Prints a line of progress on stderr; a line that begins with `warning: ` as a warning."""
    if text.startswith("warning: "):
        print_warning(text.removeprefix("warning: "))
        return
    from flushlab.cli.consoles import console

    console.print(text, style="dim")


def print_warning(text: str) -> None:
    """Prints `warning: …` on stderr."""
    from rich.text import Text

    from flushlab.cli.consoles import console

    console.print(Text.assemble(("warning:", "yellow"), f" {text}"))


def kept(campaign_id: str) -> str:
    """The hint where a campaign's file cannot be written."""
    return f"nothing is lost: flushlab report {campaign_id} writes the page, and --json FILE the result"


def writing(path: Path, write: Callable[[], object], *, told: bool) -> Callable[[], None]:
    """A step that writes a file and then says so on stdout."""

    def step() -> None:
        write()
        if told:
            from flushlab.cli.consoles import stdout

            stdout.print(f"wrote {path}", soft_wrap=True)

    return step


def emit_json(data: Mapping[str, Any] | msgspec.Struct, path: str | None) -> None:
    """Writes a document to a file, or to stdout for `-`; does nothing for None.

    Raises:
        NotWritable: the file cannot be written; an older one is left as it was.
    """
    if path is None:
        return
    text = json_bytes(data)
    if path == "-":
        write_stdout(text)
    else:
        write_file(Path(path), text)


def json_bytes(data: Mapping[str, Any] | msgspec.Struct) -> bytes:
    """A document as JSON that people may read too. Its first member is `schema`: `flushlab.NAME/VERSION`."""
    encoded = msgspec.json.encode(data, enc_hook=_encode)
    assert encoded.startswith(b'{"schema":"flushlab.'), "a document has its version"
    return msgspec.json.format(encoded, indent=2) + b"\n"


def write_stdout(content: bytes) -> None:
    """Writes data as they are.

    Raises:
        NotWritable: stdout is on a full disk.
        BrokenPipeError: nobody reads it.
    """
    with to_stdout():
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def require_writable(path: str | None) -> None:
    """Finds out before anything is measured whether the result can be written.

    Raises:
        NotWritable: `emit_json` would fail with this path.
    """
    if path is None or path == "-":
        return
    target = Path(path)
    _refuse_link(target)
    if not (os.access(target, os.W_OK) if _is_device(target) else _takes_files(target)):
        raise NotWritable(f"{path} cannot be written", hint="name a file in a directory that exists")


def write_file(target: Path, content: bytes, *, new: bool = False) -> None:
    """Writes a file by rename, so that nobody ever sees half of it; a device or pipe is written to.

    Raises:
        NotWritable: the directory is missing, full or read-only, or a symbolic link has that name.
    """
    _refuse_link(target)
    try:
        if _is_device(target):
            with target.open("wb", buffering=0) as device:
                device.write(content)
        else:
            atomic.write(target, content, new=new)
    except OSError as error:
        raise NotWritable(
            f"{target} cannot be written: {error.strerror}", hint="name a file in a directory that exists"
        ) from error


def _refuse_link(target: Path) -> None:
    if target.is_symlink() and not _is_device(target):  # /dev/stdout is a link to a pipe
        raise NotWritable(f"{target} is a symbolic link", hint="name the file itself; - is standard output")


def _is_device(target: Path) -> bool:
    return target.exists() and not target.is_file() and not target.is_dir()


def _takes_files(target: Path) -> bool:
    return target.parent.is_dir() and os.access(target.parent, os.W_OK) and not target.is_dir()


def _encode(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
