"""Options that several commands have beside their specification."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from flushlab.cli.output import say
from flushlab.spec.option import Option

Watch = Annotated[bool, Option("Serve a live page and metrics on loopback while it runs.")]
Markdown = Annotated[str | None, Option("Write it as Markdown, for a ticket; - is stdout.", metavar="FILE")]
Json = Annotated[str | None, Option("Write the result as JSON to a file; - is stdout.", metavar="FILE")]


@contextmanager
def watched(watch: bool) -> Iterator[None]:
    if not watch:
        yield
        return
    from flushlab.watch.watch import in_this_process, of

    with of(in_this_process()) as page:
        say(f"watch it at {page.url}")
        yield
