"""A document as one HTML file that needs nothing else. Pure: the same document gives the same bytes.

- Nothing is loaded from anywhere, no script runs, and everything that people or servers wrote is escaped.
- It has at most 1.5 MB, whatever the number of trials and arms: long lists and texts are cut, and the page
  says so.
"""

from __future__ import annotations

import functools
import html
import re

import jinja2

from flushlab.report.document import Document

MAX_ROWS = 150
MAX_TEXT = 1_000
MAX_CODE = 60_000
"""Limits: rows of a table, characters of a text and of a block of code."""

_LONG_NAME = 26
_LONG_TEXT = 80
_BREAKS = re.compile(r"([_=/@])(?=\w)")


def render(document: Document) -> str:
    from flushlab.report import plots  # loads matplotlib

    return _template().render(
        document=document,
        sections=(*document.todo, *document.sections),
        todo=len(document.todo),
        draw=plots.svg,
        long_name=_LONG_NAME,
        long_text=_LONG_TEXT,
        max_rows=MAX_ROWS,
        max_code=MAX_CODE,
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("flushlab.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["clip"] = _clip
    environment.filters["breakable"] = _breakable
    return environment.get_template("document.html.j2")


def _clip(text: str, length: int = MAX_TEXT) -> str:
    return text if len(text) <= length else f"{text[:length]} … ({len(text) - length:,} more characters)"


def _breakable(text: str) -> str:
    return _BREAKS.sub(r"\1<wbr>", html.escape(text))
