"""Words: a specification → the words of its command.

Sits in `spec`. What has its default needs no word, unless it is declared to be said always.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from flushlab.spec.build import value_of
from flushlab.spec.option import Field, Spec, fields, flag, spelled
from flushlab.spec.parts import WorkloadSpec


def words(spec: Spec) -> list[str]:
    """An option with its value, or a positional word, each quoted for a shell."""
    found: list[str] = []
    for field in fields(type(spec)).values():
        value = value_of(spec, field)
        if value != field.default or field.option.always:
            found += _of_field(field, value)
        if issubclass(field.owner, WorkloadSpec):
            options: Mapping[str, Any] = getattr(getattr(spec, field.part), "options", {})
            found += [_option(flag(name), one) for name, one in options.items()]
    return found


def _of_field(field: Field, value: Any) -> Iterator[str]:
    if field.option.positional:
        yield from (shlex.quote(one) for one in ((value,) if isinstance(value, str) else value))
    elif field.kind == "switch":
        yield field.flag if value else f"--no-{field.flag[2:]}"
    elif field.kind == "texts":
        yield from (_option(field.flag, one) for one in value)
    elif field.kind == "wholes":
        yield _option(field.flag, ",".join(map(str, value)))
    elif field.kind == "settings":
        yield from (_option(field.flag, f"{name}={one}") for name, one in value.items())
    else:
        yield _option(field.flag, value)


def _option(name: str, value: object) -> str:
    return f"{name} {shlex.quote(spelled(value))}"
