"""Declare: commands of click from declarations: the fields of a specification, a function's own parameters.

A command's function declares its own options as `name: Annotated[TYPE, Option("help")] = DEFAULT` and takes
those of its specification, as far as they were given, in its first parameter, `given`. Mistakes of the
command line become errors with hints here, from what click knows of them.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_type_hints

import click

from flushlab.errors import UsageError, nearest
from flushlab.spec.option import (
    OUTPUT,
    PANELS,
    RUN,
    SWITCH,
    Field,
    Spec,
    field_of,
    fields,
    flag,
    left_out,
    spelled,
)

_NEAR = 0.75
_WARNED = "flushlab.warned_of_password"
_WITH_PASSWORD = re.compile(r"(?:mysql|mariadb)://[^/@:]*:[^/@]+@")
_METAVARS = {
    "text": "TEXT",
    "path": "PATH",
    "whole": "INTEGER",
    "number": "FLOAT",
    "texts": "TEXT",
    "wholes": "INTEGER,…",
    "settings": "NAME=VALUE",
}
_HELP_ALL = "flushlab.help_all"
_WORKLOAD = "flushlab.help_of_workload"
_HELP, _EVERY = "--help", "--help-all"
_ALIKE = (
    ("--duration", "--seconds", "--minutes", "--window", "--time", "--run-time", "--length"),
    ("--blocks", "--crashes", "--count", "--pairs", "--repeat", "--repeats", "--rounds", "--runs"),
    ("--threads", "--clients", "--concurrency", "--connections", "--jobs", "--num-threads"),
    ("--base", "--config", "--my-cnf"),
    ("--html", "--out", "--output"),
    ("--json", "--format"),
)
"""Options that do the same in several commands, and what other tools call them."""
_IOPS = ("--disk-iops", "--iops")
"""What `--disk iops=N` may be written as."""


class _Takes(click.ParamType[Any]):
    def __init__(self, field: Field, *, of_workload: bool = False) -> None:
        words = f"[{'|'.join(field.words)}]" if field.words else _METAVARS[field.kind]
        self.name = field.option.metavar or words
        self.field, self.of_workload = field, of_workload

    def convert(self, value: Any, _param: object, _context: object) -> Any:
        if not isinstance(value, str):
            return value
        _warn_of_password(self.field.flag, value)
        read = self.field.read(value)
        return self.field.check(read) if self.of_workload else read


def _warn_of_password(option: str, text: str) -> None:
    if not _WITH_PASSWORD.match(text):
        return
    context = click.get_current_context(silent=True)
    warned = {} if context is None else context.meta
    if _WARNED in warned:
        return
    warned[_WARNED] = True
    from flushlab.cli.output import print_warning

    print_warning(
        f"the list of processes and the shell's history show the password in {option};"
        " use -p, or an option file such as ~/.my.cnf"
    )


def _refuse_password(args: Sequence[str]) -> None:
    """Others can read the command line; the error does not repeat the password."""
    for word in args:
        if word == "--":
            return
        name = word.partition("=")[0]
        if name == "--password" or (word.startswith("-p") and word != "-p"):
            raise UsageError(
                f"{'--password' if name == '--password' else '-p'} takes no password on the command line",
                hint="use -p alone, which asks for the password, or an option file such as ~/.my.cnf",
            )


class _Option(click.Option):
    def __init__(
        self, *names: Any, said: str = "", panel: str = OUTPUT, rare: bool = False, **how: Any
    ) -> None:
        super().__init__(*names, **how)
        self.panel, self.rare = panel, rare
        self.plain = self.help
        self.help = f"{self.help}  [default: {said}]" if said else self.help


class Command(click.Command):
    takes_workloads = False
    left_out: Mapping[str, str] = {}
    context_class = click.Context

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if any(one.name == "ask_pass" for one in self.params):
            _refuse_password(args)
        if self.takes_workloads:
            words = list(itertools.takewhile(lambda word: word != "--", args))
            # help is printed before options are read
            context.meta[_WORKLOAD] = _value_of("--workload", words) if _HELP in words else ""
        try:
            rest = super().parse_args(context, self._with_switches(args))
        except click.exceptions.NoSuchOption as error:
            raise self._no_such_option(context, error.option_name, args) from None
        except click.exceptions.BadOptionUsage as error:
            raise self._without_value(context, error.option_name) from None
        except click.exceptions.MissingParameter as error:
            name = error.param.name if error.param else ""
            raise UsageError(f"missing argument {name!r}", hint=_see(context)) from None
        if context.args:
            raise UsageError(f"unexpected argument: {' '.join(context.args)}", hint=_see(context))
        return rest

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        return [*super().get_params(context), self._help_all]

    @functools.cached_property
    def _help_all(self) -> click.Option:
        return _Option(
            [_EVERY],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_help_all,
            help="Show all options and exit.",
        )

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        every = bool(context.meta.get(_HELP_ALL))
        named = context.meta.get(_WORKLOAD) or ""
        taken: Collection[str] = ()
        if named:
            from flushlab.workload.parse import workload_options

            with suppress(UsageError):  # an unknown one takes none
                taken = workload_options(named)
        of_workloads = [one for one in self.params if _is_of_workloads(one)]
        options = [one for one in self.params if isinstance(one, _Option) and not _is_of_workloads(one)]
        rows: dict[str, list[click.Parameter]] = {}
        for panel in PANELS:
            rows[panel] = [one for one in options if one.panel == panel and (every or not one.rare)]
            if panel == RUN and (every or named):
                title = "Options of workloads" if every else f"Options of {named.partition(':')[0]}"
                rows[title] = of_workloads if every else [one for one in of_workloads if one.name in taken]
        rows[OUTPUT] += self.get_params(context)[-2:]
        filled = {title: found for title, found in rows.items() if found}
        if sum(len(found) > 0 for title, found in rows.items() if title != OUTPUT) == 0:
            filled = {"Options": rows[OUTPUT]}
        for title, found in filled.items():
            with formatter.section(title):
                formatter.write_dl([row for one in found if (row := one.get_help_record(context))])

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.takes_workloads or context.meta.get(_HELP_ALL) or context.meta.get(_WORKLOAD):
            return
        formatter.write_paragraph()
        formatter.write_text(f"Options of a workload: {context.command_path} --workload NAME {_HELP}")

    def _with_switches(self, args: Sequence[str]) -> list[str]:
        if not self.takes_workloads:
            return list(args)
        bare = {
            one.opts[0]
            for one in self.params
            if isinstance(one.type, _Takes) and one.type.of_workload and one.type.field.words == SWITCH
        }
        return [
            f"{word}=on" if word.replace("_", "-") in bare and following.lower() not in SWITCH else word
            for word, following in itertools.pairwise((*args, ""))
        ]

    def _no_such_option(self, context: click.Context, name: str, args: Sequence[str]) -> UsageError:
        spelled_ = name.replace("_", "-")
        if " " in name:
            configured = any(one.name == "configurations" for one in self.params)
            is_own = configured and name.startswith("--workload ")
            return UsageError(
                f"no such option: {name!r}", hint=f"write 'base {name}'" if is_own else "take the quotes away"
            )
        if why := self.left_out.get(spelled_):
            return UsageError(f"{self.name} takes no {spelled_}: {why}", hint=f"remove {spelled_}")
        if self.takes_workloads:
            from flushlab.workload.parse import NOT_TAKEN

            if (hint := NOT_TAKEN.get(spelled_.lstrip("-").replace("-", "_"))) is not None:
                return UsageError(f"sysbench's option {spelled_} is not supported", hint=hint)
        known = [one for param in self.params for one in param.opts if one.startswith("--")]
        if spelled_ in _IOPS and "--disk" in known:
            hint = f"write --disk iops={_value_of(spelled_, args) or 'N'}"
            return UsageError(f"no such option: {name}", hint=hint)
        alike = next((names for names in _ALIKE if spelled_ in names), ())
        near = [one for one in alike if one in known][:2]
        near = near or nearest(spelled_, [*known, _HELP, _EVERY], most=2, cutoff=_NEAR)
        return UsageError(f"no such option: {name}", hint=_meant(near, context))

    def _without_value(self, context: click.Context, name: str) -> UsageError:
        option = next((one for one in self.params if name in (*one.opts, *one.secondary_opts)), None)
        if isinstance(option, click.Option) and option.is_flag:
            return UsageError(f"{name} takes no value", hint=_see(context))
        hint = option.plain if isinstance(option, _Option) else _see(context)
        return UsageError(f"{name} requires an argument", hint=hint)


def _print_help_all(context: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        context.meta[_HELP_ALL] = True
        click.echo(context.get_help())
        context.exit()


def _is_of_workloads(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, _Takes) and parameter.type.of_workload


def _value_of(name: str, args: Sequence[str]) -> str:
    for word, following in itertools.pairwise((*args, "")):
        spelled_, separator, value = word.partition("=")
        if spelled_.replace("_", "-") == name:
            return value if separator or following.startswith("-") else following
    return ""


def _see(context: click.Context) -> str:
    return f"see {context.command_path} --help"


def _meant(near: Sequence[str], context: click.Context) -> str:
    return f"did you mean {' or '.join(near)}?" if near else _see(context)


class OptionGroup(click.Group):
    def __init__(self, name: str, help_: str) -> None:
        how = {"help_option_names": ["--help"]}
        super().__init__(name, help=help_, invoke_without_command=True, context_settings=how)

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(self.commands)

    def add(
        self, name: str, spec: type[Spec] | None = None
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        def made(function: Callable[..., None]) -> Callable[..., None]:
            self.add_command(command(name, function, spec))
            return function

        return made

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if not args:
            click.echo(context.get_help(), err=True)
            context.exit(UsageError.exit_code)
        try:
            return super().parse_args(context, args)
        except click.exceptions.NoSuchOption as error:
            raise UsageError(f"no such option: {error.option_name}", hint=_see(context)) from None

    def summaries(self, context: click.Context) -> list[tuple[str, str]]:
        every = ((name, self.get_command(context, name)) for name in self.list_commands(context))
        return [(name, (one.help or "").partition("\n")[0]) for name, one in every if one is not None]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(context))

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = self.get_command(context, args[0])
        if found is not None:
            return args[0], found, args[1:]
        hint = _meant(nearest(args[0], self.list_commands(context), most=2, cutoff=_NEAR), context)
        if args[0].startswith("-"):
            raise UsageError(f"no such option: {args[0]}", hint=hint)
        raise UsageError(f"no such command {args[0]!r}", hint=hint)


def command(
    name: str, function: Callable[..., None], spec: type[Spec] | None = None, **context: Any
) -> Command:
    hints = get_type_hints(function, include_extras=True)
    parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "given"]
    own = [found for one in parameters if (found := field_of(one.name, hints[one.name], one.default))]
    params = [*(_of_spec(spec) if spec else ()), *map(_parameter, own)]
    by_name = {one.name: one for one in own}

    def run(**flags: Any) -> None:
        running = click.get_current_context()
        mine = {key: _own(by_name[key], value) for key, value in flags.items() if key in by_name}
        if spec is None:
            function(**mine)
            return
        default = click.core.ParameterSource.DEFAULT
        given = {
            key: value
            for key, value in flags.items()
            if key not in by_name and running.get_parameter_source(key) not in (None, default)
        }
        function(given, **mine)

    made = Command(
        name,
        callback=run,
        params=params,
        help=inspect.cleandoc(function.__doc__ or ""),
        context_settings={
            "allow_extra_args": True,
            "help_option_names": ["--help"],
            "token_normalize_func": lambda token: token.replace("_", "-"),
            **context,
        },
    )
    made.takes_workloads = any(map(_is_of_workloads, params))
    made.left_out = {flag(key): why for key, why in left_out(spec).items()} if spec else {}
    return made


def _own(field: Field, value: Any) -> Any:
    if value is None or value == field.default or (field.kind in ("texts", "wholes") and not value):
        return field.default
    return field.check(value)


def _of_spec(spec: type[Spec]) -> Iterator[click.Parameter]:
    known = fields(spec)
    for key, field in known.items():
        yield _parameter(field, key)
        if key == "workload":
            yield from _of_workloads(known)


def _of_workloads(taken: Mapping[str, Field]) -> Iterator[click.Parameter]:
    from flushlab.workload.parse import all_options, defaults_of

    for name, field in all_options().items():
        if name not in taken:
            takes = _Takes(field, of_workload=True)
            yield _Option(
                [field.flag, name],
                type=takes,
                help=field.option.help,
                said=spelled(field.default) if field.default and len(defaults_of(name)) == 1 else "",
                default=None,
                metavar=takes.name,
            )


def _parameter(field: Field, key: str | None = None) -> click.Parameter:
    name, option = key or field.name, field.option
    short = [f"-{option.short}"] if option.short else []
    if option.positional:
        required = field.default is inspect.Parameter.empty
        return click.Argument(
            [name],
            type=_Takes(field),
            required=required,
            nargs=-1 if field.kind == "texts" else 1,
            metavar=option.metavar or None,
            **({} if required else {"default": None}),
        )
    if field.kind == "switch":
        names = f"{field.flag}/--no-{field.flag[2:]}" if field.default is True else field.flag
        return _Option(
            [names, *short, name],
            is_flag=True,
            default=field.default,
            help=option.help,
            panel=option.panel or OUTPUT,
            rare=option.rare,
        )
    return _Option(
        [field.flag, *short, name],
        type=_Takes(field),
        multiple=field.kind in ("texts", "settings"),
        default=None,
        help=option.help,
        said=_default(field),
        metavar=_Takes(field).name,
        panel=option.panel or OUTPUT,
        rare=option.rare,
    )


def _default(field: Field) -> str:
    if field.default in (None, (), {}, "", inspect.Parameter.empty) or "default" in field.option.help.lower():
        return ""
    if isinstance(field.default, tuple):
        return ",".join(map(str, field.default))
    return spelled(field.default)
