"""Build: named values → a specification → the words of its command.

Sits in `spec`. Whoever asks (the command line, a caller from Python) gives what was asked for by name; a
value of None counts as not given. What makes no sense by itself, or has no effect beside the rest, is refused
here.
"""

from __future__ import annotations

import inspect
import re
import shlex
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_type_hints

from msgspec import structs

from flushlab.errors import UsageError, nearest
from flushlab.record import Value
from flushlab.spec.option import Field, Spec, fields, flag, left_out, part_type, spelled
from flushlab.spec.parts import LOGIN, RemoteAccess, WorkloadSpec

S = TypeVar("S", bound=Spec)


def build(spec: type[S], given: Mapping[str, Any], options: Collection[str] = ()) -> S:
    """The specification of what was asked for.

    Args:
        spec: its type.
        given: values by the keys of fields and by the names of workloads' options; parts by their attributes.
        options: names of all options of workloads.

    Raises:
        UsageError: an unknown name, a value that a field does not take, or one without effect.
    """
    known, load = fields(spec), workload_part(spec)
    parts: dict[str, Any] = {}
    found: dict[str, dict[str, Any]] = {}
    of_workload: dict[str, Value] = {}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, Spec) and name in spec.__struct_fields__:
            parts[name] = value
        elif (field := known.get(name)) is not None:
            found.setdefault(field.part, {})[field.name] = field.check(value)
        elif load and name in options:
            of_workload[name] = value
        else:
            raise _unknown(name, [*known, *options], left_out(spec).get(name, ""))
    if of_workload:
        found.setdefault(load, {})["options"] = of_workload
    is_named = load in parts or "name" in found.get(load, {})
    own = found.pop("", {})
    types = {field.part: field.owner for field in known.values()}
    for part, values in found.items():
        parts[part] = structs.replace(parts.get(part, types[part]()), **values)
    made = spec(**own, **parts)
    _require_effect(made)
    if load and "configurations" not in known:  # which may have workloads of their own
        require_workload(made, is_named=is_named)
    return made


def require_workload(spec: Spec, *, is_named: bool) -> None:
    """Refuses data beside a workload that nobody named: its tables would be its own.

    Raises:
        UsageError: they are together.
    """
    if has_data(spec) and not is_named:
        raise UsageError(
            "--dataset needs a workload: sysbench's, the default, would not touch your data",
            hint="--workload data makes one from your data; your own are txn:FILE, sql:FILE and 'command: …';"
            f" for sysbench's tables beside your data, --workload {WorkloadSpec().name}",
        )


def has_data(spec: Spec) -> bool:
    return getattr(getattr(spec, "data", None), "dataset", None) is not None


def workload_part(spec: type[Spec]) -> str:
    """The attribute that holds the workload; empty where there is none."""
    owners = {field.part: field.owner for field in fields(spec).values() if field.part}
    return next((part for part, owner in owners.items() if issubclass(owner, WorkloadSpec)), "")


def _unknown(name: str, known: Iterable[str], why: str) -> UsageError:
    if why:
        return UsageError(f"there is no parameter {name} here: {why}", hint=f"remove {name}")
    near = nearest(name, known, most=1)
    return UsageError(
        f"there is no parameter {name}",
        hint=f"did you mean {near[0]}?" if near else "docs/reference/workloads.md lists workloads' options",
    )


def _require_effect(spec: Spec) -> None:
    """Refuses what is given and would have no effect."""
    known, names = fields(type(spec)), names_given(spec)
    if (run := getattr(spec, "run", None)) is not None and run.resume is not None:
        _require_alone(spec, names)
        return
    for field in (known[name] for name in known if name in names):
        if field.option.needs and field.option.needs not in names:
            needed = known[field.option.needs].flag
            raise UsageError(f"{field.flag} needs {needed}", hint=field.option.hint or f"add {needed}")
    if any(field.owner is RemoteAccess for field in known.values()):
        _require_place(known, names)


def _require_alone(spec: Spec, names: Collection[str]) -> None:
    """Refuses beside --resume what the campaign has kept."""
    known, load = fields(type(spec)), workload_part(type(spec))
    again = [
        field.flag
        for name, field in known.items()
        if name in names and not getattr(field.owner, "with_resume", False) and not field.option.positional
    ]
    again += [flag(name) for name in (getattr(spec, load).options if load else ())]
    if again:
        raise UsageError(
            f"--resume takes no {again[0]}",
            hint="the campaign goes on as it was started; remove it, or start a new campaign",
        )


def _require_place(known: Mapping[str, Field], names: Collection[str]) -> None:
    """Refuses options that exclude a running server of the user, or require one."""
    by = [
        known[name].flag
        for name in LOGIN
        if name in names and name in known and known[name].owner is RemoteAccess
    ]
    beside_dsn = [one for one in by if one not in ("--dsn", "--ask-pass")]
    if "--dsn" in by and beside_dsn:
        raise UsageError(
            f"--dsn and {beside_dsn[0]} cannot be combined",
            hint="use one of them",
        )
    for name, field in known.items():
        if name in names and not by and name in ("allow_writes", "allow_set_global", "own_load"):
            raise UsageError(
                f"{field.flag} needs your own server",
                hint="remove it, or name the server: -h HOST",
            )
        if name in names and by and field.option.started:
            raise UsageError(
                f"{field.flag} is for servers that flushlab starts, but {by[0]} names a running server",
                hint="remove one of them",
            )


def names_given(spec: Spec) -> set[str]:
    """The keys of fields whose values are not their defaults."""
    return {key for key, field in fields(type(spec)).items() if value_of(spec, field) != field.default}


def value_of(spec: Spec, field: Field) -> Any:
    holder = getattr(spec, field.part) if field.part else spec
    return getattr(holder, field.name)


def stored(spec: S) -> S:
    """The specification without the parts that are not kept with a campaign."""
    types = {name: part_type(type(getattr(spec, name))) for name in spec.__struct_fields__}
    return structs.replace(
        spec, **{name: type_() for name, type_ in types.items() if type_ is not None and not type_.stored}
    )


def words(spec: Spec) -> list[str]:
    """The words of the command: an option with its value, or a positional word, each quoted for a shell.

    A default needs no word, unless it is declared to be said always; nor does a workload without data.
    """
    found: list[str] = []
    for field in fields(type(spec)).values():
        value = value_of(spec, field)
        of_load = issubclass(field.owner, WorkloadSpec)
        if value != field.default or field.option.always or (of_load and has_data(spec)):
            found += _of_field(field, value)
        if of_load:
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
                key,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=get_type_hints(field.owner)[field.name],
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
