"""Template: a packaged jinja2 template, strict about names; where pages and files are made of text."""

from __future__ import annotations

from collections.abc import Callable

import jinja2


def template(
    name: str, *, package: str = "flushlab.advice", escape: bool = False, **filters: Callable[..., str]
) -> jinja2.Template:
    """The template of that name.

    Args:
        package: whose folder `templates` has it.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters
    return environment.get_template(name)
