"""What every command shares of its output: data on stdout, progress on stderr, errors with hints.

Colours only on a terminal (rich honours NO_COLOR); files are written whole or not at all. A result is printed
before its files are written, and what cannot be written costs nothing but itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from flushlab import atomic
from flushlab.cli.plain import write_stdout
from flushlab.errors import FlushlabError, NotWritable, UsageError

if TYPE_CHECKING:
    from flushlab.report.document import Document

Facts = Mapping[str, Any] | msgspec.Struct


class Forms(NamedTuple):
    json: str | None = None
    markdown: str | None = None
    html: str | None = None

    @property
    def is_printed(self) -> bool:
        return "-" not in self

    def require_writable(self) -> None:
        if self.count("-") > 1:
            raise UsageError("stdout takes one output only", hint="name files for the others")
        for path in self:
            require_writable(path)

    def deliver(
        self,
        document: Document,
        facts: Facts,
        *more: Callable[[], object],
        kept: str | None = None,
        full: bool = False,
        is_stored: bool = True,
    ) -> None:
        """`is_stored`: False: the JSON goes to stdout if its file cannot be written: no store has it."""
        prints = [partial(print_document, document, full=full)] if self.is_printed else []
        deliver(*prints, *self.steps(document, facts, is_stored=is_stored), *more, kept=kept)

    def steps(
        self, document: Document, facts: Facts, *, is_stored: bool = True
    ) -> Iterator[Callable[[], object]]:
        yield partial(self._emit_facts, facts, is_stored)
        if self.markdown:
            yield partial(emit, partial(markdown_bytes, document), self.markdown)
        if self.html:
            yield partial(emit, partial(page_bytes, document), self.html)

    def _emit_facts(self, facts: Facts, is_stored: bool) -> None:
        try:
            emit_json(facts, self.json)
        except NotWritable:
            if not is_stored and self.json != "-":
                emit_json(facts, "-")
            raise


def print_document(document: Document, *, full: bool = False) -> None:
    from flushlab.cli.consoles import stdout
    from flushlab.report.terminal import render

    stdout.print(render(document, full=full))


def markdown_bytes(document: Document) -> bytes:
    from flushlab.report.markdown import render

    return render(document).encode()


def page_bytes(document: Document) -> bytes:
    import logging

    from flushlab.machine.home import home_path
    from flushlab.report.html import render

    # matplotlib would print a warning if it looks for fonts for more than five seconds
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    # matplotlib asks for a writable $HOME otherwise
    os.environ.setdefault("MPLCONFIGDIR", str(home_path() / "matplotlib"))
    return render(document).encode()


def emit(content: Callable[[], bytes], path: str) -> None:
    if path == "-":
        write_stdout(content())
    else:
        write_file(Path(path), content())
        say(f"wrote {path}")


def deliver(*steps: Callable[[], object], kept: str | None = None) -> None:
    """Every step is taken, whatever becomes of the others: the first failure is raised, later ones are
    warnings."""
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


def print_error(error: FlushlabError) -> None:
    from rich.text import Text

    from flushlab.cli.consoles import console

    console.print(Text.assemble(("error:", "bold red"), f" {error.message}"))
    if error.hint:
        console.print(Text.assemble(("hint:", "bold"), f" {error.hint}"))


def say(text: str) -> None:
    if text.startswith("warning: "):
        print_warning(text.removeprefix("warning: "))
        return
    from flushlab.cli.consoles import console

    console.print(text, style="dim")


def print_warning(text: str) -> None:
    from rich.text import Text

    from flushlab.cli.consoles import console

    console.print(Text.assemble(("warning:", "yellow"), f" {text}"))


def kept(campaign_id: str) -> str:
    return f"nothing is lost: flushlab report {campaign_id} writes the page, and --json FILE the result"


def writing(path: Path, write: Callable[[], object], *, told: bool) -> Callable[[], None]:
    def step() -> None:
        write()
        if told:
            from flushlab.cli.consoles import stdout

            stdout.print(f"wrote {path}", soft_wrap=True)

    return step


def emit_json(data: Facts, path: str | None) -> None:
    """`-` is stdout; None does nothing. An older file is left as it was if it cannot be written."""
    if path is None:
        return
    text = json_bytes(data)
    if path == "-":
        write_stdout(text)
    else:
        write_file(Path(path), text)


def json_bytes(data: Facts) -> bytes:
    encoded = msgspec.json.encode(data, enc_hook=_encode)
    assert encoded.startswith(b'{"schema":"flushlab.'), "a document has its version"
    return msgspec.json.format(encoded, indent=2) + b"\n"


def require_writable(path: str | None) -> None:
    if path is None or path == "-":
        return
    target = Path(path)
    _refuse_link(target)
    if not (os.access(target, os.W_OK) if _is_device(target) else _takes_files(target)):
        raise NotWritable(f"{path} cannot be written", hint="name a file in a directory that exists")


def write_file(target: Path, content: bytes, *, new: bool = False) -> None:
    """By rename, so that nobody ever sees half of it; a device or pipe is written to."""
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
