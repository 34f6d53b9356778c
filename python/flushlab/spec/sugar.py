"""Sugar: a function's parameters and documentation, from a specification.

Sits in `spec`. The functions of `import flushlab` take the fields of their specification by name, or whole
parts (`flushlab.tune(storage=StorageSpec(disk="gp3"))`).
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flushlab.spec.build import workload_part
from flushlab.spec.option import Field, Spec, fields, spelled

F = TypeVar("F", bound=Callable[..., Any])

_WIDTH = 108
_BEHIND_ARGS = re.compile(r"^(Returns|Yields|Raises):", re.MULTILINE)


def taking(spec: type[Spec], **more: str) -> Callable[[F], F]:
    """Gives a function of `**given` the parameters of a specification, for `help()` and editors.

    Args:
        spec: of which the function takes the fields.
        more: what the function's own parameters mean.
    """

    def declared(function: F) -> F:
        own = inspect.signature(function).parameters
        taken = [one for one in own.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        flat = [
            inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
            )
            for key, field in fields(spec).items()
            if key not in own
        ]
        positional = [one for one in taken if one.kind is not inspect.Parameter.KEYWORD_ONLY]
        keyword = [one for one in taken if one.kind is inspect.Parameter.KEYWORD_ONLY]
        kinds = (inspect.Parameter.VAR_KEYWORD,) if workload_part(spec) else ()
        options = [one for one in own.values() if one.kind in kinds]
        signature = inspect.Signature([*positional, *flat, *keyword, *options])
        vars(function)["__signature__"] = signature
        function.__doc__ = _documented(function.__doc__ or "", spec, more)
        return function

    return declared


def _documented(text: str, spec: type[Spec], more: dict[str, str]) -> str:
    """The docstring with its arguments, before its results and errors."""
    whole = inspect.cleandoc(text)
    end = _BEHIND_ARGS.search(whole)
    head, tail = (whole[: end.start()], whole[end.start() :]) if end else (whole, "")
    lines = ["Args:", *_arguments(spec, more)]
    return f"{head.rstrip()}\n\n" + "\n".join(lines) + f"\n\n{tail}"


def _arguments(spec: type[Spec], more: dict[str, str]) -> Iterator[str]:
    for key, field in fields(spec).items():
        yield from _argument(key, _meaning(field))
    if workload_part(spec):
        yield from _argument("**given", "Options of the workload, such as `tables=8`.")
    for name, text in more.items():
        yield from _argument(name, text)


def _meaning(field: Field) -> str:
    text = field.option.help
    if field.default not in (None, False, (), {}) and "default" not in text:
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        text = f"{text.removesuffix('.')}; default: {spelled(default)}."
    return text


def _argument(name: str, text: str) -> list[str]:
    return textwrap.wrap(f"{name}: {text}", _WIDTH, initial_indent="    ", subsequent_indent="        ")
