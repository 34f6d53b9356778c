"""Commands: the specification of the commands that run no campaign.

Sits in `spec`, beside `kinds`. The order of attributes is that of --help.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, structs

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.settings.floor import Floor
from flushlab.spec.option import DATA, OUTPUT, SERVER, SURE, Option, Panel, Spec, Without, fields
from flushlab.spec.parts import (
    DEFAULT_SERVER,
    DataSpec,
    FileSpec,
    Nodes,
    Port,
    RemoteAccess,
    ServerSpec,
    StorageSpec,
)

_Workers = Annotated[int, Meta(ge=1, le=64)]
LOOPBACK = "127.0.0.1"

_BaseDir = fields(ServerSpec)["basedir"].option
_Disk = fields(StorageSpec)["disk"].option
_DataRoot = fields(StorageSpec)["data_root"].option
_Settings = Option("A setting, NAME=VALUE; repeatable.", flag="set")
_Compared = {"needs": "compare", "hint": "add --compare"}


class StartSpec(Spec, frozen=True, kw_only=True):
    """What `server start` is asked for."""

    panel: ClassVar[Panel] = SERVER

    server: Annotated[
        str, Option("A build (mariadb, mysql@5.7), or a tarball (path or URL, also with #sha256=…).")
    ] = DEFAULT_SERVER
    basedir: Annotated[str | None, _BaseDir] = None
    name: Annotated[str | None, Option("Its name; default: random.")] = None
    settings: Annotated[Mapping[str, Value], _Settings] = {}
    data_root: Annotated[str | None, _DataRoot] = None
    disk: Annotated[str | None, _Disk] = None
    cluster: Annotated[Nodes | None, fields(ServerSpec)["cluster"].option] = None
    port: Annotated[Port | None, Option("Port on 127.0.0.1; default: a free one.")] = None


class DatabaseSpec(Spec, frozen=True, kw_only=True):
    """A throwaway database for tests."""

    server: Annotated[
        str | None,
        Option(
            "A build (mariadb, mysql@5.7), or a tarball (path or URL, also with #sha256=…); default: by your"
            " files, or mariadb."
        ),
    ] = None
    prepare: Annotated[
        str | None,
        Option(
            "A shell command that fills the database; the result is kept as a template.",
            needs="inputs",
            hint="--inputs tells when the template is out of date: for example --inputs 'db/migration/**'",
        ),
    ] = None
    inputs: Annotated[
        tuple[str, ...],
        Option(
            "Files that --prepare reads, as a quoted pattern; repeatable.",
            needs="prepare",
            hint="add --prepare 'COMMAND'",
        ),
    ] = ()
    keep_failed: Annotated[
        bool,
        Option(
            "Keep the result of --prepare although its output has an error, such as ERROR 1064 (42000) at"
            " line 3.",
            needs="prepare",
            rare=True,
        ),
    ] = False
    dataset: Annotated[str | None, fields(DataSpec)["dataset"].option] = None
    database: Annotated[
        str | None, Option("Database to create first; default: that of --dataset, or app.")
    ] = None
    charset: Annotated[
        str | None, Option("Character set of the database; default: the server's own.", rare=True)
    ] = None
    collation: Annotated[
        str | None, Option("Collation of the database; default: that of its character set.", rare=True)
    ] = None
    base: Annotated[str | None, fields(FileSpec)["base"].option] = None
    no_scale: Annotated[bool, fields(FileSpec)["no_scale"].option] = False
    settings: Annotated[Mapping[str, Value], _Settings] = {}
    clones: Annotated[
        Annotated[int, Meta(ge=0, le=8)] | None,
        Option(
            "Standby servers per worker, for resets that cannot be undone; default: 1 after three of them, if"
            " memory allows.",
            panel=SERVER,
        ),
    ] = None
    verify_resets: Annotated[
        bool, Option("Compare all tables with the template after each reset that was undone.", panel=SERVER)
    ] = False
    port: Annotated[
        Annotated[int, Meta(ge=1024, le=65535)] | None,
        Option("Port on 127.0.0.1; default: a free one.", panel=SERVER),
    ] = None
    in_memory: Annotated[bool, Option("Keep the data in memory if it fits.", panel=DATA)] = True
    cache: Annotated[
        str | None, Option("Folder for compressed templates, for a CI cache.", path=True, panel=DATA)
    ] = None
    cache_size: Annotated[
        str,
        Option(
            "Size limit of templates, here and in --cache; the least recently used go.", panel=DATA, rare=True
        ),
    ] = "8G"
    basedir: Annotated[str | None, _BaseDir] = None
    data_root: Annotated[str | None, _DataRoot] = None


class SuiteSpec(Spec, frozen=True, kw_only=True):
    """What `test` is asked for."""

    command: Annotated[
        tuple[str, ...],
        Option("The command that runs the suite.", positional=True, metavar="-- COMMAND"),
    ] = ()
    throwaway: DatabaseSpec = DatabaseSpec()
    env: Annotated[
        tuple[str, ...],
        Option(
            "A variable for the command, NAME=TEMPLATE with {host} {port} {socket} {user} {password}"
            " {database} {url} {jdbc_url}; repeatable."
        ),
    ] = ()
    workers: Annotated[_Workers, Option("Number of isolated servers, one per worker.")] = 1
    pool: Annotated[
        _Workers | None,
        Option(
            "Most servers that tests may take from FLUSHLAB_POOL_URL at a time; default: one per processor,"
            " at least 4."
        ),
    ] = None
    compare: Annotated[
        bool,
        Option("Also run the suite on a stock server, on the disk of --data-root, and compare.", panel=SURE),
    ] = False
    blocks: Annotated[
        int, Meta(ge=1, le=20), Option("How many times --compare runs both.", panel=SURE, **_Compared)
    ] = 1
    disk: Annotated[str | None, structs.replace(_Disk, **_Compared)] = None


class ProbeSpec(Spec, frozen=True, kw_only=True):
    """What `probe` is asked for."""

    data_root: Annotated[
        str | None,
        Option("A directory on the disk; default: where sandboxes keep their data.", path=True, panel=DATA),
    ] = None
    quick: Annotated[bool, Option("Measure less, in 15 s instead of 60 s.", panel=SURE)] = False
    window: Annotated[
        Annotated[float, Meta(ge=0.05, le=60)] | None,
        Option("Length of every window in seconds, instead of what fits.", panel=SURE),
    ] = None
    trx_commit: Annotated[
        tuple[str, ...],
        Option(
            "strict, second, relaxed, or innodb_flush_log_at_trx_commit/sync_binlog such as 2/1000;"
            " repeatable."
        ),
    ] = ()
    binlog_strategy: Annotated[
        tuple[str, ...],
        Option("Only this binlog write strategy: serial, parallel, redo or two-syncs; repeatable."),
    ] = ()
    threads: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=256)], ...],
        Option("Numbers of connections, as 1,16,64; --server uses the largest."),
    ] = ()
    own_us: Annotated[
        float,
        Meta(ge=0, le=1_000_000),
        Option("Processor time of the server itself per commit, in µs."),
    ] = 60.0
    switch: Annotated[
        bool, Option("Also switch between the binlog write strategies while commits go on.")
    ] = False
    against: Annotated[
        str | None,
        Option(
            "Compare a stored trial with the ceiling: CAMPAIGN:NUMBER, or CAMPAIGN for every arm.",
            metavar="TRIAL",
        ),
    ] = None
    server: Annotated[
        str | None, Option("Compare a short bench on this server with the ceiling.", panel=SERVER)
    ] = None
    settings: Annotated[
        Mapping[str, Value],
        Option(
            "A setting of the bench on --server, NAME=VALUE; repeatable.",
            flag="set",
            needs="server",
            hint="add --server, or remove --set",
            panel=SERVER,
        ),
    ] = {}
    disk: Annotated[str | None, _Disk] = None


class SettingsSpec(Spec, frozen=True, kw_only=True):
    """What `settings` is asked for."""

    name: Annotated[str | None, Option("A setting to explain; default: list all.", positional=True)] = None
    server: Annotated[
        str | None,
        Option("Show this server's values (a build or sandbox:NAME), or check against it.", panel=SERVER),
    ] = None
    floor: Annotated[Floor | None, Option("Floor for values to try, or for the checked file.")] = None
    check: Annotated[
        str | None, Option("Check an option file or SHOW VARIABLES' output.", metavar="FILE")
    ] = None
    remote: Annotated[
        RemoteAccess, Without(("allow_writes", "allow_set_global", "defaults_group_suffix"))
    ] = RemoteAccess()
    static: Annotated[bool, Option("Check against the catalog only; do not run the server's binary.")] = False
    fail_on_error: Annotated[bool, Option("Exit with 1 if the check finds an error.")] = False
    start: Annotated[bool, Option("Also start the real server with the file, on empty data.")] = False
    host_memory: Annotated[
        str | None, Option("Memory of the machine that the checked file is for, such as 64G.")
    ] = None
    defaults_group_suffix: Annotated[
        str | None,
        Option(
            "With --check, read the file as this instance: @NAME for mysqld@NAME, N for [mysqldN]; with your"
            " own server, also read the option groups with this suffix.",
            metavar="SUFFIX",
        ),
    ] = None
    basedir: Annotated[str | None, _BaseDir] = None


class DoctorSpec(Spec, frozen=True, kw_only=True):
    """What `doctor` is asked for."""

    seconds: Annotated[float, Meta(ge=2, le=3600), Option("How long to watch the server.", panel=SURE)] = 30.0
    server: Annotated[
        str | None, Option("A kept sandbox (sandbox:NAME), instead of your own server.", panel=SERVER)
    ] = None
    remote: Annotated[RemoteAccess, Without(("allow_writes", "allow_set_global"))] = RemoteAccess()
    files: Annotated[
        str | None,
        Option(
            "Judge files in place of a server: a folder or a file with outputs of SHOW GLOBAL STATUS and"
            " others, of pt-stalk, pt-mysql-summary, mysqld_exporter or flushlab watch --record.",
            flag="from",
            metavar="PATH",
            path=True,
            panel=SERVER,
        ),
    ] = None


class WatchSpec(Spec, frozen=True, kw_only=True):
    """What `watch` is asked for."""

    server: Annotated[
        str | None,
        Option(
            "A kept sandbox (sandbox:NAME), or a build (mariadb, mysql@8.0), started for as long as you"
            " watch it.",
            panel=SERVER,
        ),
    ] = None
    remote: Annotated[RemoteAccess, Without(("allow_writes", "allow_set_global"))] = RemoteAccess()
    campaign: Annotated[
        str | None, Option("Which campaign to show, if several are running.", metavar="ID")
    ] = None
    listen: Annotated[
        str | None,
        Option(
            "Address of the page; default: 127.0.0.1:9194, or a free port. Addresses of other machines need"
            " the token in the URL.",
            metavar="[HOST:]PORT",
            panel=OUTPUT,
        ),
    ] = None

    @property
    def address(self) -> tuple[str, int | None]:
        """Host and port to listen on; a port of None: the usual one, or a free one.

        Raises:
            UsageError: it is no address.
        """
        if self.listen is None:
            return LOOPBACK, None
        host, separator, port = self.listen.rpartition(":")
        if not port.isdecimal() or int(port) > 65535 or (separator and not host):
            raise UsageError(
                f"--listen {self.listen!r} is not [HOST:]PORT", hint="for example --listen 0.0.0.0:9194"
            )
        return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


class WatchCommandSpec(WatchSpec, frozen=True, kw_only=True):
    """What the command `watch` is asked for: to watch, or to record a load."""

    record: Annotated[
        str | None,
        Option(
            "Record the load of your own server in a new file: commits/s, write latency, syncs and bytes per"
            " commit. Serves no page.",
            metavar="FILE",
            path=True,
            panel=OUTPUT,
        ),
    ] = None
    seconds: Annotated[
        Annotated[float, Meta(ge=1, le=86_400)] | None,
        Option(
            "With --record: how long; default: until Ctrl-C.",
            needs="record",
            hint="add --record FILE",
            panel=SURE,
        ),
    ] = None
