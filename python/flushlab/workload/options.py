"""Options of workloads, declared as fields of them, whoever asks: flags, a plan's TOML, a stored request.

A field that is marked by `takes` is an option, with the field's type and default. `settle` checks what was
asked for against a workload's options and fills in the rest.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from flushlab import _core
from flushlab.errors import UsageError, nearest
from flushlab.record import Endpoint, LoadSpec, RandSpec, SslMode, Value
from flushlab.server.protocol import Server
from flushlab.workload import engine
from flushlab.workload.protocol import Driving, Measured, Reset, Timing, Window, Workload

SWITCH = ("on", "off")
Switch = Literal["on", "off"]
_Kind = Literal["integer", "number", "word", "text", "switch"]
_KINDS: Mapping[object, _Kind] = {int: "integer", float: "number", str: "text", Switch: "switch"}
_FIRST = (
    *("threads", "tables", "table_size", "transport", "ssl_mode", "ssl_ca", "rand_type"),
    *("rand_spec_iter", "rand_spec_pct", "rand_spec_res", "rand_pareto_h", "rand_zipfian_exp"),
)
"""The order in which help shows options; the others follow as they are declared."""
_SEEDS = 1 << 31

Spelling = Callable[[str], str]
"""How the place that was asked spells an option: `table_size` in a plan, `--table-size` as a flag."""


def takes(help: str, low: float | None = None, high: float | None = None) -> Meta:
    """What a field needs to be an option; the bounds of a number are inclusive."""
    return Meta(description=help, ge=low, le=high)


class OptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: _Kind
    default: Value
    help: str
    low: float = 0
    high: float = 0
    words: tuple[str, ...] = ()

    def check(self, value: object, spelling: Spelling = str) -> Value:
        name = spelling(self.name)
        if self.kind in ("integer", "number"):
            limits = f"it takes {self.low:.12g} to {self.high:.12g}"
            right = (int,) if self.kind == "integer" else (int, float)
            if not isinstance(value, right) or isinstance(value, bool):
                what = "a whole number" if self.kind == "integer" else "a number"
                raise UsageError(f"{name} is {value!r}; it takes {what}", hint=limits)
            if not self.low <= value <= self.high:
                raise UsageError(f"{name} {value} is out of range", hint=limits)
            return value
        if self.kind == "switch" and isinstance(value, bool):
            return "on" if value else "off"
        if self.kind == "switch" and (not isinstance(value, str) or value.lower() not in SWITCH):
            raise UsageError(f"{name} is {value!r}; it takes on or off", hint=self.help)
        if not isinstance(value, str):
            raise UsageError(f"{name} is {value!r}; it takes a string", hint=self.help)
        if self.kind == "text":
            return value
        value = value.lower()  # REQUIRED, as MySQL's manual writes it
        if self.kind == "word" and value not in self.words:
            raise UsageError(f"unknown {name} {value!r}", hint=f"use one of {', '.join(self.words)}")
        return value

    def read(self, text: str, spelling: Spelling = str) -> Value:
        value: Value = text
        if self.kind in ("integer", "number"):
            with suppress(ValueError):
                value = float(text)
                value = int(text)
        return self.check(value, spelling)


@cache
def options_of(workload: type[msgspec.Struct]) -> Mapping[str, OptionInfo]:
    """The options that a workload takes, by their names."""
    options = dict[str, OptionInfo]()
    for field in msgspec.structs.fields(workload):
        type_, *marks = get_args(field.type) if get_origin(field.type) is Annotated else (field.type,)
        for meta in marks:
            words = get_args(type_)
            options[field.name] = OptionInfo(
                name=field.name,
                kind=_KINDS.get(type_, "word"),
                default=field.default,
                help=meta.description,
                low=meta.ge or 0,
                high=meta.le or 0,
                words=() if words == SWITCH else words,
            )
    first = {name: options[name] for name in _FIRST if name in options}
    return first | {name: option for name, option in options.items() if name not in first}


def settle(
    workload: str, known: Mapping[str, OptionInfo], asked: Mapping[str, Value], spelling: Spelling = str
) -> dict[str, Value]:
    """Every known option of a workload with its value: the one asked for, or its default."""
    for name in asked:
        if name not in known:
            hint = f"it takes {', '.join(map(spelling, known))}" if known else "it takes no options"
            if near := nearest(name, known, most=1):
                hint = f"did you mean {spelling(near[0])}?"
            raise UsageError(f"the workload {workload} takes no {spelling(name)}", hint=hint)
    return {
        name: option.check(asked[name], spelling) if name in asked else option.default
        for name, option in known.items()
    }


def check_tls(load: engine.Connected, spelling: Spelling = str) -> None:
    """Refuses options of TLS that contradict each other or the transport."""
    mode, file = load.ssl_mode, load.ssl_ca
    verifies = mode.startswith("verify")
    mode_name, file_name = spelling("ssl_mode"), spelling("ssl_ca")
    if mode != "disabled" and load.transport != "tcp":
        raise UsageError(
            f"{mode_name} {mode} needs TCP, but {spelling('transport')} is {load.transport}",
            hint=f"choose {spelling('transport')} tcp; nobody can listen on a unix socket",
        )
    if verifies and not file:
        raise UsageError(
            f"{mode_name} {mode} needs {file_name}, a file of certificates to trust",
            hint="name the server's ca.pem, or /etc/ssl/certs/ca-certificates.crt for public authorities",
        )
    if file and not verifies:
        raise UsageError(
            f"{file_name} is given, but {mode_name} {mode} verifies no certificate",
            hint=f"choose {mode_name} verify_ca or verify_identity",
        )
    if file and not Path(file).is_file():
        raise UsageError(f"{file_name} {file} is not a file", hint=engine.SSL_CA)


class EngineOptions(engine.Connected, frozen=True, kw_only=True):
    """Options of workloads that the engine drives; see `record.LoadSpec`. `failover` reconnects, too."""

    reset: ClassVar[Reset] = "each"

    name: str = ""
    threads: Annotated[int, takes("Connections.", 1, 4096)] = 16
    seed: int = 1
    rate: Annotated[
        float, takes("Target rate per second (open loop); 0 is as fast as possible.", 0, 10_000_000)
    ] = 0.0
    rate_kind: Annotated[
        Literal["constant", "poisson"],
        takes("How a rate's events are spaced: evenly, or at random as from many independent users."),
    ] = "constant"
    profile: Annotated[
        str,
        takes("A rate that changes: ramp:100-5000/60s, step:1000,2000,4000/10s or burst:1000-5000/1s/10s."),
    ] = ""
    client_sched: Annotated[
        Literal["batch", "normal"],
        takes("How the kernel schedules the client's thread: batch (SCHED_BATCH) or normal."),
    ] = "batch"
    reconnect: Annotated[
        Switch, takes("On: a lost connection is counted and reopened; off: it ends the load.")
    ] = "off"
    cluster_load: Annotated[
        Literal["one", "spread", "failover"],
        takes(
            "Where connections to a cluster go: one node, spread over all, or to the first that takes them."
        ),
    ] = "one"
    hdr_log: str = ""
    per_second: str = ""

    @classmethod
    def read(cls, name: str, folder: Path | None, options: Mapping[str, Value]) -> Self:
        return msgspec.convert({**options, "name": name}, cls)

    def check(self, spelling: Spelling) -> None:
        """Refuses options that make no sense together, before there is a server."""
        try:
            _core.check_schedule(self.rate, self.profile, self.rate_kind)
        except _core.CoreError as error:
            raise UsageError(error.message, hint=error.hint) from error

    @property
    def slice_s(self) -> float | None:
        """Any; but a profile, and files of its seconds, take a window in one piece."""
        return None if self.profile or self.hdr_log or self.per_second else 0.0

    def load(self, endpoint: Endpoint, **what: Any) -> LoadSpec:
        fields = {
            name: getattr(self, name) for name in EngineOptions.__struct_fields__ if name != "name"
        } | what
        fields["reconnect"] = self.reconnect == "on" or self.cluster_load == "failover"
        return LoadSpec(endpoint=endpoint, **fields)

    def driving(self, server: Server) -> Driving:
        raise NotImplementedError

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        return engine.drive(self.driving(server), server, timing, window)


RandType = Annotated[
    Literal["special", "uniform", "gaussian", "pareto", "zipfian"],
    takes(
        "Distribution of rows: special (default of sysbench 1.0), uniform (1.1), gaussian, pareto, zipfian."
    ),
]


class TableOptions(EngineOptions, frozen=True, kw_only=True):
    """Options of workloads on several tables, whose rows are drawn by sysbench's distributions."""

    tables: Annotated[int, takes("Number of tables.", 1, 10_000)] = 8
    table_size: Annotated[int, takes("Rows per table.", 1, 1_000_000_000)] = 10_000
    rand_type: RandType = "special"
    rand_spec_iter: Annotated[
        int, takes("Uniform draws behind each number of special's bell and of gaussian.", 1, 1000)
    ] = 12
    rand_spec_pct: Annotated[int, takes("Percentage of rows that special favors.", 0, 100)] = 1
    rand_spec_res: Annotated[int, takes("Percentage of special's draws that hit those rows.", 0, 100)] = 75
    rand_pareto_h: Annotated[
        float, takes("pareto: the first h of the rows get 1 - h of the draws.", 0.001, 0.999)
    ] = 0.2
    rand_zipfian_exp: Annotated[
        float, takes("zipfian: the n-th row gets a share proportional to 1/n^exponent.", 0, 30)
    ] = 0.8

    @property
    def rand(self) -> RandSpec:
        return RandSpec(**{name: getattr(self, f"rand_{name}") for name in RandSpec.__struct_fields__})

    def load(self, endpoint: Endpoint, **what: Any) -> LoadSpec:
        fields = {name: getattr(self, name) for name in ("tables", "table_size", "rand_type", "rand")}
        return super().load(endpoint, **fields, **what)


def drawing(workload: Workload, number: int) -> Workload:
    """The workload with other draws for each number, 0 for its own.

    Loads that change the same data need different draws. With the same draws, the second load would find
    every row already changed, and a transaction that changes nothing costs next to nothing.
    """
    if not isinstance(workload, EngineOptions):
        return workload
    return _with(workload, seed=workload.seed + number)


def reaching(workload: EngineOptions, transport: str, ssl_mode: SslMode, ssl_ca: str) -> Workload:
    return _with(workload, transport=transport, ssl_mode=ssl_mode, ssl_ca=ssl_ca)


def seeded(workload: Workload, seed: int | None) -> Workload:
    """The workload with the draws of a seed; None: some of its own, for data that earlier runs may have
    changed."""
    if isinstance(workload, EngineOptions):
        return _with(workload, seed=secrets.randbelow(_SEEDS) if seed is None else seed)
    if seed is not None:
        raise UsageError(f"{workload.name} takes no --seed", hint="remove it")
    return workload


def _with(workload: EngineOptions, **changes: object) -> Workload:
    return cast(Workload, msgspec.structs.replace(workload, **changes))
