"""`--watch`: the page of what a command runs, for as long as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flushlab.cli.output import say


@contextmanager
def watched(wanted: bool) -> Iterator[None]:
    """Serves a page and metrics while the context lasts, if they are wanted; prints where."""
    if not wanted:
        yield
        return
    from flushlab.watch.finding import in_this_process
    from flushlab.watch.watch import of

    with of(in_this_process()) as watch:
        say(f"watch it at {watch.url}")
        yield
