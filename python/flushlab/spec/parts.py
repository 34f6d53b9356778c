"""Parts: what specifications of several commands have in common.

Sits in `spec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from msgspec import Meta, structs

from flushlab.record import Value
from flushlab.spec.option import DATA, SERVER, SURE, Option, Panel, Spec, flag
from flushlab.units import parse_latency

DEFAULT_SERVER = "mariadb"
LOGIN = (
    *("dsn", "host", "user", "ask_pass", "port", "socket"),
    *("defaults_file", "defaults_group_suffix"),
)
"""Fields of `RemoteAccess` any of which names the user's running server."""


Nodes = Annotated[int, Meta(ge=2, le=9)]
Port = Annotated[int, Meta(ge=1, le=65535)]


class _Nodes(Spec, frozen=True, kw_only=True):
    panel: ClassVar[Panel] = SERVER

    basedir: Annotated[
        str | None, Option("Use the server installed in this directory.", path=True, started=True, rare=True)
    ] = None
    cluster: Annotated[
        Nodes | None,
        Option(
            "Use a Galera cluster of this many nodes of --server, on this machine (MariaDB).", started=True
        ),
    ] = None
    network_latency: Annotated[
        str | None,
        Option(
            "Round-trip time between a cluster's nodes, such as 1ms (root).",
            needs="cluster",
            hint="add --cluster 3",
            started=True,
            rare=True,
        ),
    ] = None

    @property
    def latency_s(self) -> float | None:
        """The time between nodes, there and back, in seconds.

        Raises:
            UsageError: it is no latency.
        """
        return None if self.network_latency is None else parse_latency(self.network_latency)


class ServerSpec(_Nodes, frozen=True, kw_only=True):
    """The server that flushlab starts, alone or as a cluster of its nodes."""

    server: Annotated[
        str | None,
        Option(
            "A build (mariadb, mysql@5.7), or a tarball (path or URL, also with #sha256=…); default: by your"
            " files, or mariadb.",
            started=True,
        ),
    ] = None

    @property
    def build(self) -> str:
        """The build that is meant."""
        return self.server or DEFAULT_SERVER

    @property
    def named(self) -> bool:
        """Whether a build is named."""
        return self.server is not None

    def of(self, build: str) -> Self:
        """The same of this build."""
        return structs.replace(self, server=build)


_BUILD_OR_KEPT = (
    "A build (mariadb, mariadb@10.11, mysql@5.7), a tarball (path or URL, optionally with #sha256=…), or what"
    " is kept (sandbox:NAME, cluster:NAME); default: "
)


class ServerOrKeptSpec(ServerSpec, frozen=True, kw_only=True):
    """The server that flushlab starts, or one that it keeps."""

    server: Annotated[str | None, Option(f"{_BUILD_OR_KEPT}by your files, or mariadb.", started=True)] = None


class FilledServerSpec(ServerOrKeptSpec, frozen=True, kw_only=True):
    """The same for a fill, which has no files of the user that choose a server."""

    server: Annotated[str | None, Option(f"{_BUILD_OR_KEPT}mariadb.", started=True)] = None


class ServersSpec(_Nodes, frozen=True, kw_only=True):
    """Servers that flushlab starts, to be compared with each other."""

    servers: Annotated[
        tuple[str, ...],
        Option(
            "A build (mariadb, mysql@5.7) or a tarball (path or URL); default: by your files, or mariadb."
            " Repeatable: compares them, each with all configurations.",
            key="server",
            started=True,
        ),
    ] = ()

    @property
    def build(self) -> str:
        """The build of the first."""
        return self.servers[0] if self.servers else DEFAULT_SERVER

    @property
    def named(self) -> bool:
        """Whether a build is named."""
        return bool(self.servers)

    def of(self, build: str) -> Self:
        """The same of this build alone."""
        return structs.replace(self, servers=(build,))

    @property
    def others(self) -> tuple[str, ...]:
        """The builds of the others."""
        return self.servers[1:]


class StorageSpec(Spec, frozen=True, kw_only=True):
    """Where data directories lie, and how slow that is."""

    panel: ClassVar[Panel] = DATA

    data_root: Annotated[str | None, Option("Where to put data directories.", path=True, started=True)] = None
    disk: Annotated[
        str | None,
        Option(
            "Run on a disk as slow as this one: gp3, 7200rpm, … or flush=1ms,write=0.1ms,iops=3000 (root).",
            metavar="PROFILE",
            started=True,
        ),
    ] = None


class RemoteAccess(Spec, frozen=True, kw_only=True):
    """The user's running server: how to log in, as with every MySQL client, and the permissions there."""

    with_resume: ClassVar[bool] = True
    panel: ClassVar[Panel] = SERVER

    host: Annotated[
        str | None,
        Option(
            "Host of your own server; a cluster: NODE1,NODE2,NODE3 (doctor and watch: one node). What the"
            " flags leave open is read from option files such as ~/.my.cnf.",
            short="h",
        ),
    ] = None
    user: Annotated[
        str | None, Option("Account on your own server; default: your login name.", short="u")
    ] = None
    ask_pass: Annotated[bool, Option("Ask for the account's password.", short="p")] = False
    port: Annotated[Port | None, Option("Port of your own server; default: 3306.", short="P")] = None
    socket: Annotated[str | None, Option("Socket of your own server.", short="S", path=True)] = None
    defaults_file: Annotated[
        str | None, Option("Read only this option file, not ~/.my.cnf and /etc/my.cnf.", path=True)
    ] = None
    defaults_group_suffix: Annotated[
        str | None,
        Option(
            "Also read the option groups with this suffix: _two for [client_two].",
            metavar="SUFFIX",
            rare=True,
        ),
    ] = None
    dsn: Annotated[
        str | None,
        Option("Your own server as an address: mysql://USER@HOST:PORT, optionally with /DATABASE."),
    ] = None
    allow_writes: Annotated[
        bool,
        Option(
            "Let the load write to your own server; tables that flushlab makes are dropped at the end.",
        ),
    ] = False
    allow_set_global: Annotated[
        bool,
        Option(
            "Let flushlab change settings of your own server, on every node of a cluster, and restore them.",
        ),
    ] = False

    @property
    def named_by(self) -> str:
        """The first flag that names the server or the account; empty if there is none."""
        return next((flag(name) for name in LOGIN if getattr(self, name) not in (None, False)), "")

    @property
    def has_flags(self) -> bool:
        """Whether flags other than --dsn name the server or the account."""
        return any(getattr(self, name) not in (None, False) for name in LOGIN[1:])

    @property
    def place(self) -> str:
        """Where the server of a campaign is, without the account; empty for servers that flushlab started."""
        return (self.dsn or "").rpartition("@")[2].replace(",", ", ")


class DataSpec(Spec, frozen=True, kw_only=True):
    """The user's own data."""

    panel: ClassVar[Panel] = DATA

    dataset: Annotated[
        str | None,
        Option(
            "Your data: an SQL dump (also .gz, .zst), a dump folder of mydumper or MySQL Shell, a prepared"
            " backup, or a stopped server's data directory.",
            path=True,
            started=True,
        ),
    ] = None
    database: Annotated[
        str | None,
        Option("The workload's database in --dataset; needed if there are several."),
    ] = None


class WorkloadSpec(Spec, frozen=True, kw_only=True):
    """What writes.

    Attributes:
        name: `upsert`, `oltp_update_non_index`, `data`, `txn:FILE`, `sql:FILE` (relative to the folder of the
            plan, or the present one), `command: …`.
        options: `threads`, `tables`, `key`, …: those that were given; the workload declares them.
    """

    name: Annotated[
        str,
        Option(
            "A sysbench workload (oltp_update_non_index, …), upsert, data (made from --dataset), txn:FILE,"
            " sql:FILE, or any program: 'command: ./load.sh'.",
            key="workload",
        ),
    ] = "oltp_update_non_index"
    options: Mapping[str, Value] = {}


NAME = "name"
"""Key of a workload's name among its options, as plans have it; no option is called so."""
SAME_WORKLOAD = WorkloadSpec(name="")
"""A change of nothing."""


def difference(workload: WorkloadSpec, base: WorkloadSpec) -> dict[str, Value]:
    """What an arm's workload has otherwise than the base's, as a plan has it: options, and its `name`."""
    named: dict[str, Value] = {} if workload.name == base.name else {NAME: workload.name}
    return named | {
        name: value for name, value in workload.options.items() if base.options.get(name) != value
    }


def as_change(difference: Mapping[str, Value]) -> WorkloadSpec:
    """The change that a difference is."""
    options = {name: value for name, value in difference.items() if name != NAME}
    return WorkloadSpec(name=str(difference.get(NAME, "")), options=options)


def as_told(difference: Mapping[str, Value]) -> dict[str, Value]:
    """A difference for people, to whom `name` would not tell whose."""
    return {"workload" if name == NAME else name: value for name, value in difference.items()}


class CrashWorkloadSpec(WorkloadSpec, frozen=True, kw_only=True):
    """What writes while a server crashes."""

    name: Annotated[
        str,
        Option(
            "acked_inserts runs one INSERT per commit into the acknowledgement table. Sysbench workloads,"
            " upsert and txn:FILE write that table too. 'command: …' and sql:FILE do not: their crashes are"
            " judged only by whether the server starts with sound tables.",
            key="workload",
        ),
    ] = "acked_inserts"


class FileSpec(Spec, frozen=True, kw_only=True):
    """The user's option file, and how it fits this machine."""

    base: Annotated[
        str | None,
        Option(
            "Your option file, used as the base; scaled to this machine if need be.", path=True, started=True
        ),
    ] = None
    memory: Annotated[
        str | None,
        Option("Memory the server may use, such as 2G; default: half of the machine's.", started=True),
    ] = None
    no_scale: Annotated[
        bool,
        Option("Refuse a base that this machine cannot hold; do not scale it.", started=True, rare=True),
    ] = False


class BaseSpec(FileSpec, frozen=True, kw_only=True):
    """The same, with settings on top."""

    settings: Annotated[
        Mapping[str, Value], Option("A setting on top of the base, NAME=VALUE; repeatable.", flag="set")
    ] = {}


CLIENT = Option(
    "Drive the load of a server here from this machine of the fleet; repeatable.",
    metavar="MACHINE",
    started=True,
    panel=SERVER,
    rare=True,
)


class RunSpec(Spec, frozen=True, kw_only=True):
    """How a campaign is run; nothing of it is kept with the campaign."""

    with_resume: ClassVar[bool] = True
    stored: ClassVar[bool] = False

    wait_for_quiet: Annotated[
        bool, Option("Wait, at most 30 minutes, until the machine is quiet.", panel=SURE, rare=True)
    ] = False
    dry_run: Annotated[
        bool,
        Option("Print the trials, the files and the duration of a run; start and write nothing."),
    ] = False
    fleet: Annotated[
        str | None,
        Option(
            "Run on the machines of this fleet: HOST:PORT; default: FLUSHLAB_FLEET.",
            metavar="ADDRESS",
            started=True,
            panel=SERVER,
            rare=True,
        ),
    ] = None
    client: Annotated[tuple[str, ...], CLIENT] = ()
    resume: Annotated[str | None, Option("Resume the campaign with this id.", metavar="ID")] = None
