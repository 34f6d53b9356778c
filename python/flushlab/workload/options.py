"""What shapes a workload: every option declared once, whoever asks (flags, a plan's TOML, a stored request).

Pure. A workload lists the options that it takes; `settle` checks what was asked for against that list
and fills in the rest.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import msgspec

from flushlab import _core
from flushlab.errors import UsageError
from flushlab.record import Endpoint, LoadSpec, RandSpec, SslMode, Value
from flushlab.server.protocol import Server
from flushlab.workload import engine
from flushlab.workload.protocol import Driving, Measured, Reset, Timing, Window, Workload

SWITCH = ("on", "off")

Spelling = Callable[[str], str]
"""How the place that was asked spells an option: `table_size` in a plan, `--table-size` as a flag."""


class OptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An option of workloads; made by the functions below.

    Attributes:
        name: as a plan spells it.
        kind: what its value is; a switch is `on` or `off`, in a plan also true or false.
        default: where nobody says otherwise.
        help: one sentence.
        low, high: bounds of a number, inclusive.
        words: all values of a word.
    """

    name: str
    kind: Literal["integer", "number", "word", "text", "switch"]
    default: Value
    help: str
    low: float = 0
    high: float = 0
    words: tuple[str, ...] = ()

    def check(self, value: object, spelling: Spelling = str) -> Value:
        """The value, if the option takes it.

        Raises:
            UsageError: wrong type, out of range, or none of the words.
        """
        name = spelling(self.name)
        if self.kind in ("integer", "number"):
            right = (int,) if self.kind == "integer" else (int, float)
            if not isinstance(value, right) or isinstance(value, bool):
                what = "a whole number" if self.kind == "integer" else "a number"
                raise UsageError(f"{name} is {value!r}; it takes {what}", hint=self._range)
            if not self.low <= value <= self.high:
                raise UsageError(f"{name} {value} is out of range", hint=self._range)
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

    @property
    def _range(self) -> str:
        return f"it takes {self.low:.12g} to {self.high:.12g}"

    def read(self, text: str, spelling: Spelling = str) -> Value:
        """The value that a flag's text stands for.

        Raises:
            UsageError: see `check`.
        """
        value: Value = text
        if self.kind in ("integer", "number"):
            with suppress(ValueError):
                value = float(text)
                value = int(text)
        return self.check(value, spelling)


def integer_option(name: str, default: int, low: int, high: int, help: str) -> OptionInfo:
    """A whole number."""
    return OptionInfo(name=name, kind="integer", default=default, help=help, low=low, high=high)


def number_option(name: str, default: float, low: float, high: float, help: str) -> OptionInfo:
    """A number."""
    return OptionInfo(name=name, kind="number", default=default, help=help, low=low, high=high)


def word_option(name: str, default: str, words: tuple[str, ...], help: str) -> OptionInfo:
    """One of several words."""
    return OptionInfo(name=name, kind="word", default=default, help=help, words=words)


def text_option(name: str, default: str, help: str) -> OptionInfo:
    """Any text."""
    return OptionInfo(name=name, kind="text", default=default, help=help)


def switch_option(name: str, default: str, help: str) -> OptionInfo:
    """`on` or `off`."""
    return OptionInfo(name=name, kind="switch", default=default, help=help)


THREADS = integer_option("threads", 16, 1, 4096, "Connections.")
TABLES = integer_option("tables", 8, 1, 10_000, "Number of tables.")
TABLE_SIZE = integer_option("table_size", 10_000, 1, 1_000_000_000, "Rows per table.")
TRANSPORT = word_option("transport", "socket", ("socket", "tcp"), "How the load connects.")
SSL_MODE = word_option(
    "ssl_mode",
    "disabled",
    ("disabled", "required", "verify_ca", "verify_identity"),
    "TLS mode over tcp, as in MySQL's clients.",
)
SSL_CA = text_option("ssl_ca", "", "PEM file with the certificates that verify_ca and verify_identity trust.")
CONNECTING = (TRANSPORT, SSL_MODE, SSL_CA)
RAND_TYPE = word_option(
    "rand_type",
    "special",
    ("special", "uniform", "gaussian", "pareto", "zipfian"),
    "Distribution of rows: special (default of sysbench 1.0), uniform (1.1), gaussian, pareto, zipfian.",
)
RAND = (
    integer_option(
        "rand_spec_iter", 12, 1, 1000, "Uniform draws behind each number of special's bell and of gaussian."
    ),
    integer_option("rand_spec_pct", 1, 0, 100, "Percentage of rows that special favors."),
    integer_option("rand_spec_res", 75, 0, 100, "Percentage of special's draws that hit those rows."),
    number_option(
        "rand_pareto_h", 0.2, 0.001, 0.999, "pareto: the first h of the rows get 1 - h of the draws."
    ),
    number_option(
        "rand_zipfian_exp", 0.8, 0, 30, "zipfian: the n-th row gets a share proportional to 1/n^exponent."
    ),
)
"""Parameters of the distributions, under sysbench's names."""
RATE = number_option(
    "rate", 0.0, 0, 10_000_000, "Target rate per second (open loop); 0 is as fast as possible."
)


def settle(
    workload: str, declared: Iterable[OptionInfo], asked: Mapping[str, Value], spelling: Spelling = str
) -> dict[str, Value]:
    """Every declared option with its value: the one asked for, or its default.

    Args:
        workload: its name, for messages.
        declared: the options that it takes.
        asked: options that the user gave.
        spelling: of the place that was asked.

    Raises:
        UsageError: an option that the workload does not take, or a value that the option does not.
    """
    known = {option.name: option for option in declared}
    for name in asked:
        if name not in known:
            raise UsageError(
                f"the workload {workload} takes no {spelling(name)}", hint=_nearest(name, known, spelling)
            )
    return {
        name: option.check(asked[name], spelling) if name in asked else option.default
        for name, option in known.items()
    }


def check_tls(options: Mapping[str, Value], spelling: Spelling = str) -> None:
    """Refuses options of TLS that contradict each other or the transport.

    Args:
        options: settled ones, of a workload that takes TRANSPORT, SSL_MODE and SSL_CA.
        spelling: of the place that was asked.

    Raises:
        UsageError: they do.
    """
    mode, file = str(options["ssl_mode"]), options["ssl_ca"]
    verifies = mode.startswith("verify")
    mode_name, file_name = spelling("ssl_mode"), spelling("ssl_ca")
    if mode != "disabled" and options["transport"] != "tcp":
        raise UsageError(
            f"{mode_name} {mode} needs TCP, but {spelling('transport')} is {options['transport']}",
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
    if file and not Path(str(file)).is_file():
        raise UsageError(f"{file_name} {file} is not a file", hint=SSL_CA.help)


def _nearest(name: str, known: Mapping[str, OptionInfo], spelling: Spelling) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {spelling(near[0])}?"
    return f"it takes {', '.join(map(spelling, known))}" if known else "it takes no options"


DRIVING = (
    RATE,
    word_option(
        "rate_kind",
        "constant",
        ("constant", "poisson"),
        "How a rate's events are spaced: evenly, or at random as from many independent users.",
    ),
    text_option(
        "profile",
        "",
        "A rate that changes: ramp:100-5000/60s, step:1000,2000,4000/10s or burst:1000-5000/1s/10s.",
    ),
    word_option(
        "client_sched",
        "batch",
        ("batch", "normal"),
        "How the kernel schedules the client's thread: batch (SCHED_BATCH) or normal.",
    ),
    switch_option(
        "reconnect", "off", "On: a lost connection is counted and reopened; off: it ends the load."
    ),
    word_option(
        "cluster_load",
        "one",
        ("one", "spread", "failover"),
        "Where connections to a cluster go: one node, spread over all, or to the first that takes them.",
    ),
)

ON_TABLES = (THREADS, TABLES, TABLE_SIZE, *CONNECTING, RAND_TYPE, *RAND, *DRIVING)
"""Of workloads on tables of their own."""

_SEEDS = 1 << 31


def check_schedule(options: Mapping[str, Value]) -> None:
    """Refuses settled OPTIONS that make no schedule, before there is a server.

    Raises:
        UsageError: they do not.
    """
    try:
        _core.check_schedule(float(options["rate"]), str(options["profile"]), str(options["rate_kind"]))
    except _core.CoreError as error:
        raise UsageError(error.message, hint=error.hint) from error


class EngineOptions(engine.Connected, frozen=True, kw_only=True):
    """The options of workloads that the engine drives; see `flushlab.record.LoadSpec`.

    Attributes:
        threads: connections.
        seed: of the rows, keys and draws.
        rate, rate_kind, profile: when events are due; none of them: a closed loop.
        client_sched: `batch` or `normal`.
        reconnect: `on` or `off`.
        cluster_load: `one`, `spread` or `failover`, which reconnects.
        hdr_log, per_second: files that each second is written to as it ends.
    """

    reset: ClassVar[Reset] = "each"

    threads: int = 16
    seed: int = 1
    rate: float = 0.0
    rate_kind: Literal["constant", "poisson"] = "constant"
    profile: str = ""
    client_sched: Literal["batch", "normal"] = "batch"
    reconnect: str = "off"
    cluster_load: Literal["one", "spread", "failover"] = "one"
    hdr_log: str = ""
    per_second: str = ""

    @property
    def slice_s(self) -> float | None:
        """Any; but a profile, and files of its seconds, take a window in one piece."""
        return None if self.profile or self.hdr_log or self.per_second else 0.0

    def load(self, endpoint: Endpoint, **what: Any) -> LoadSpec:
        """The engine's input: these options, and `what` as further fields."""
        fields = {name: getattr(self, name) for name in EngineOptions.__struct_fields__} | what
        fields["reconnect"] = self.reconnect == "on" or self.cluster_load == "failover"
        return LoadSpec(endpoint=endpoint, **fields)

    def driving(self, server: Server) -> Driving:
        """As of `Workload.driving`."""
        raise NotImplementedError

    def run(self, server: Server, timing: Timing, window: Window) -> Measured:
        """Reads its data, warms up until throughput is level, measures one window."""
        return engine.drive(self.driving(server), server, timing, window)


class TableOptions(EngineOptions, frozen=True, kw_only=True):
    """The options of workloads on tables of their own. Rows are drawn by sysbench's distributions.

    Attributes:
        tables, table_size: number of tables and of their rows.
        rand_type: the distribution.
        rand_spec_iter, rand_spec_pct, rand_spec_res: of `special`; the first also of `gaussian`.
        rand_pareto_h: of `pareto`.
        rand_zipfian_exp: of `zipfian`.
    """

    tables: int = 8
    table_size: int = 10_000
    rand_type: str = "special"
    rand_spec_iter: int = 12
    rand_spec_pct: int = 1
    rand_spec_res: int = 75
    rand_pareto_h: float = 0.2
    rand_zipfian_exp: float = 0.8

    @property
    def rand(self) -> RandSpec:
        """The parameters as the engine takes them."""
        return RandSpec(**{name: getattr(self, f"rand_{name}") for name in RandSpec.__struct_fields__})

    def load(self, endpoint: Endpoint, **what: Any) -> LoadSpec:
        """As above, with the tables and how rows are drawn."""
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
    """The workload with connections of that kind."""
    return _with(workload, transport=transport, ssl_mode=ssl_mode, ssl_ca=ssl_ca)


def seeded(workload: Workload, seed: int | None) -> Workload:
    """The workload with the draws of that seed; with some of its own for data that earlier runs may have
    changed, if None.

    Raises:
        UsageError: the engine draws nothing for it.
    """
    if isinstance(workload, EngineOptions):
        return _with(workload, seed=secrets.randbelow(_SEEDS) if seed is None else seed)
    if seed is not None:
        raise UsageError(f"{workload.name} takes no --seed", hint="remove it")
    return workload


def _with(workload: EngineOptions, **changes: object) -> Workload:
    return cast(Workload, msgspec.structs.replace(workload, **changes))
