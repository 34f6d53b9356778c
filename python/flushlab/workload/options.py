"""Options of workloads, declared as fields of them, whoever asks: flags, a plan's TOML, a stored request.

A field that is marked by `Option` is an option, with the field's type and default, as in specifications.
`settle` checks what was asked for against a workload's options and fills in the rest.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import msgspec
from msgspec import Meta

from flushlab import _core
from flushlab.errors import UsageError, nearest
from flushlab.record import Endpoint, LoadSpec, RandSpec, SslMode, Value
from flushlab.server.protocol import Server
from flushlab.spec.option import Field, Option, fields
from flushlab.workload import engine
from flushlab.workload.protocol import Driving, Measured, Reset, Timing, Window, Workload

Switch = Literal["on", "off"]
_FIRST = (
    *("threads", "tables", "table_size", "transport", "ssl_mode", "ssl_ca", "rand_type"),
    *("rand_spec_iter", "rand_spec_pct", "rand_spec_res", "rand_pareto_h", "rand_zipfian_exp"),
)
"""The order in which help shows options; the others follow as they are declared."""
_SEEDS = 1 << 31

Spelling = Callable[[str], str]
"""How the place that was asked spells an option: `table_size` in a plan, `--table-size` as a flag."""


@cache
def options_of(workload: type[msgspec.Struct]) -> Mapping[str, Field]:
    known = fields(workload)
    names = dict.fromkeys((*_FIRST, *workload.__struct_fields__))
    return {name: known[name] for name in names if name in known}


def settle(
    workload: str, known: Mapping[str, Field], asked: Mapping[str, Value], spelling: Spelling = str
) -> dict[str, Value]:
    for name in asked:
        if name not in known:
            hint = f"it takes {', '.join(map(spelling, known))}" if known else "it takes no options"
            if near := nearest(name, known, most=1):
                hint = f"did you mean {spelling(near[0])}?"
            raise UsageError(f"the workload {workload} takes no {spelling(name)}", hint=hint)
    return {
        name: option.check(asked[name], spelling(name)) if name in asked else option.default
        for name, option in known.items()
    }


def check_tls(load: engine.Connected, spelling: Spelling = str) -> None:
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
    reset: ClassVar[Reset] = "each"

    name: str = ""
    threads: Annotated[int, Meta(ge=1, le=4096), Option("Connections.")] = 16
    seed: int = 1
    rate: Annotated[
        float,
        Meta(ge=0, le=10_000_000),
        Option("Target rate per second (open loop); 0 is as fast as possible."),
    ] = 0.0
    rate_kind: Annotated[
        Literal["constant", "poisson"],
        Option("How a rate's events are spaced: evenly, or at random as from many independent users."),
    ] = "constant"
    profile: Annotated[
        str,
        Option("A rate that changes: ramp:100-5000/60s, step:1000,2000,4000/10s or burst:1000-5000/1s/10s."),
    ] = ""
    client_sched: Annotated[
        Literal["batch", "normal"],
        Option("How the kernel schedules the client's thread: batch (SCHED_BATCH) or normal."),
    ] = "batch"
    reconnect: Annotated[
        Switch, Option("On: a lost connection is counted and reopened; off: it ends the load.")
    ] = "off"
    cluster_load: Annotated[
        Literal["one", "spread", "failover"],
        Option(
            "Where connections to a cluster go: one node, spread over all, or to the first that takes them."
        ),
    ] = "one"
    hdr_log: str = ""
    per_second: str = ""

    @classmethod
    def read(cls, name: str, folder: Path | None, options: Mapping[str, Value]) -> Self:
        return msgspec.convert({**options, "name": name}, cls)

    def check(self, spelling: Spelling) -> None:
        try:
            _core.check_schedule(self.rate, self.profile, self.rate_kind)
        except _core.CoreError as error:
            raise UsageError(error.message, hint=error.hint) from error

    @property
    def slice_s(self) -> float | None:
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
    Option(
        "Distribution of rows: special (default of sysbench 1.0), uniform (1.1), gaussian, pareto, zipfian."
    ),
]


class TableOptions(EngineOptions, frozen=True, kw_only=True):
    tables: Annotated[int, Meta(ge=1, le=10_000), Option("Number of tables.")] = 8
    table_size: Annotated[int, Meta(ge=1, le=1_000_000_000), Option("Rows per table.")] = 10_000
    rand_type: RandType = "special"
    rand_spec_iter: Annotated[
        int,
        Meta(ge=1, le=1000),
        Option("Uniform draws behind each number of special's bell and of gaussian."),
    ] = 12
    rand_spec_pct: Annotated[int, Meta(ge=0, le=100), Option("Percentage of rows that special favors.")] = 1
    rand_spec_res: Annotated[
        int, Meta(ge=0, le=100), Option("Percentage of special's draws that hit those rows.")
    ] = 75
    rand_pareto_h: Annotated[
        float, Meta(ge=0.001, le=0.999), Option("pareto: the first h of the rows get 1 - h of the draws.")
    ] = 0.2
    rand_zipfian_exp: Annotated[
        float, Meta(ge=0, le=30), Option("zipfian: the n-th row gets a share proportional to 1/n^exponent.")
    ] = 0.8

    @property
    def rand(self) -> RandSpec:
        return RandSpec(**{name: getattr(self, f"rand_{name}") for name in RandSpec.__struct_fields__})

    def load(self, endpoint: Endpoint, **what: Any) -> LoadSpec:
        fields = {name: getattr(self, name) for name in ("tables", "table_size", "rand_type", "rand")}
        return super().load(endpoint, **fields, **what)


def threads_of(workload: Workload) -> int:
    return workload.threads if isinstance(workload, EngineOptions) else 1


def drawing(workload: Workload, number: int) -> Workload:
    """Loads that change the same data need different draws: else the second would find every row changed, at
    no cost."""
    if not isinstance(workload, EngineOptions):
        return workload
    return _with(workload, seed=workload.seed + number)


def reaching(workload: EngineOptions, transport: str, ssl_mode: SslMode, ssl_ca: str) -> Workload:
    return _with(workload, transport=transport, ssl_mode=ssl_mode, ssl_ca=ssl_ca)


def seeded(workload: Workload, seed: int | None) -> Workload:
    """None: draws of its own, for data that earlier runs may have changed."""
    if isinstance(workload, EngineOptions):
        return _with(workload, seed=secrets.randbelow(_SEEDS) if seed is None else seed)
    if seed is not None:
        raise UsageError(f"{workload.name} takes no --seed", hint="remove it")
    return workload


def _with(workload: EngineOptions, **changes: object) -> Workload:
    return cast(Workload, msgspec.structs.replace(workload, **changes))
