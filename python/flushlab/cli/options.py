"""Options that several commands have beside their specification."""

from __future__ import annotations

from typing import Annotated

from flushlab.spec.option import Option

Watch = Annotated[bool, Option("Serve a live page and metrics on loopback while it runs.")]
Json = Annotated[str | None, Option("Write the result as JSON to a file; - is stdout.", metavar="FILE")]
