"""Request: what `crash` was asked for, and whether it makes sense. Sits in `campaign.crash`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from flushlab.datadir.fault_disk import LEAST_BYTES, FileSystemName
from flushlab.errors import StorageError, UsageError
from flushlab.record import CrashKind, SourceText, Value, Warning
from flushlab.settings import durability

FAILURES: Mapping[CrashKind, durability.Failure] = {
    "process": "process_crash",
    "os": "os_crash",
    "power": "power_loss",
    "lying-disk": "power_loss",
    "torn": "torn_page",
    "eio": "power_loss",
    "full": "power_loss",
}
"""What the durability model calls them."""
FILE_SYSTEMS: tuple[FileSystemName, ...] = ("ext4", "xfs", "btrfs")
MOST_IMAGES, MOST_SECONDS, MOST_ROWS, MOST_LYING_FLUSHES = 100_000, 600.0, 1000, 1_000_000
MOST_SEED = 999_999_999
READ = ("folder", "build_id", "workload_digest", "planned", "sources", "warnings")
"""Fields of a request that were read at the start: no flag gives them."""
LEAST_DISK_MIB, MOST_DISK_MIB = 256, 65_536
OF_DISKS: Mapping[str, Value | None] = {
    "fs": "ext4",
    "tear": 512,
    "lying_flushes": 10,
    "disk_size": 1024,
    "disk": None,
    "keep": None,
}
"""What is asked of a disk of its own, unless it is said otherwise."""
SECONDS = 3.0
"""Of load, unless it is said otherwise."""


class CrashRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `crash` was asked for; its arguments under their names, `options` those of the workload.

    What has been read at the start is in it as well, so that a campaign goes on with that whatever has become
    of the files: the build's id, a digest of the workload and the texts that it runs, the settings of each
    configuration, and what was said of them.
    """

    configurations: Any = ()
    server: str
    workload: str
    beside: str | None = None
    fail: str
    images: int
    seconds: float
    threads: int
    rows: int
    fs: str
    tear: int
    lying_flushes: int
    disk_size: int
    disk: str | None = None
    settings: dict[str, Value] | None = None
    base: str | None = None
    controls: bool
    seed: int
    cluster: int | None = None
    nodes: str | None = None
    network_latency: str | None = None
    replica: bool | None = None
    keep: str | None = None
    replay: str | None = None
    basedir: str | None = None
    data_root: str | None = None
    folder: str = ""
    build_id: str = ""
    workload_digest: str = ""
    planned: dict[str, dict[str, Value]] = {}
    sources: tuple[SourceText, ...] = ()
    warnings: tuple[Warning, ...] = ()
    options: dict[str, Value] = {}

    def plan(self) -> bytes:
        """As it is stored: one JSON object, without what is None."""
        fields = msgspec.structs.asdict(self)
        options = fields.pop("options")
        given = {name: value for name, value in {**fields, **options}.items() if value is not None}
        return msgspec.json.encode(given, enc_hook=str)

    @classmethod
    def of_plan(cls, plan: bytes) -> CrashRequest:
        """What was stored.

        Raises:
            StorageError: by another version of flushlab.
        """
        try:
            given: dict[str, Any] = msgspec.json.decode(plan, type=dict)
            own = {name: given.pop(name) for name in cls.__struct_fields__ if name in given}
            return msgspec.convert({**own, "options": given}, cls)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise StorageError(
                f"the campaign was planned by another version of flushlab: {error}",
                hint="start a new campaign",
            ) from error


def kind_of(text: str) -> CrashKind:
    """What crashes, of its name.

    Raises:
        UsageError: it is none.
    """
    for kind in FAILURES:
        if kind == text:
            return kind
    raise UsageError(f"--fail {text!r} is not known", hint=f"there are {', '.join(FAILURES)}")


def tear_of(tear: int) -> Literal[512, 4096] | None:
    """Bytes that a disk writes whole; None: all.

    Raises:
        UsageError: no disk does.
    """
    if tear == 512:
        return 512
    if tear == 4096:
        return 4096
    if tear == 0:
        return None
    raise UsageError(f"--tear is {tear}", hint="there are 512, 4096 and 0 for none")


def require_in_range(asked: CrashRequest) -> None:
    """Refuses what is too little or too much.

    Raises:
        UsageError: something is.
    """
    bounds: tuple[tuple[str, float, float, float], ...] = (
        ("images", asked.images, 1, MOST_IMAGES),
        ("seconds", asked.seconds, 0.2, MOST_SECONDS),
        ("threads", asked.threads, 1, 1000),
        ("rows", asked.rows, 1, MOST_ROWS),
        ("lying-flushes", asked.lying_flushes, 1, MOST_LYING_FLUSHES),
        ("disk-size", asked.disk_size, LEAST_DISK_MIB, MOST_DISK_MIB),
        ("seed", asked.seed, 0, MOST_SEED),
    )
    for name, value, least, most in bounds:
        if not least <= value <= most:
            typed = f"{value:.15g}" if isinstance(value, float) else value
            raise UsageError(f"--{name} {typed} is out of range", hint=f"it takes {least:.9g} to {most:.9g}")
    if asked.fs not in FILE_SYSTEMS:
        raise UsageError(f"--fs {asked.fs!r} is not known", hint=f"there are {', '.join(FILE_SYSTEMS)}")
    least_mib = LEAST_BYTES[asked.fs] >> 20
    if asked.fail != "process" and asked.disk_size < least_mib:
        raise UsageError(
            f"--disk-size {asked.disk_size} is too small for {asked.fs}",
            hint=f"it takes at least {least_mib} (MiB)",
        )


def require_effect(asked: CrashRequest) -> None:
    """Refuses what would have no effect.

    Raises:
        UsageError: it needs a disk, and a process is killed; or one that lies, and none does.
    """
    given = [name for name, default in OF_DISKS.items() if getattr(asked, name) != default]
    if given and asked.fail == "process":
        raise UsageError(
            f"--{given[0].replace('_', '-')} needs a disk of its own, and --fail process has none",
            hint="remove it",
        )
    if "tear" in given and asked.fail == "os":
        raise UsageError(
            "--tear has no effect with --fail os: the disk keeps what it was given", hint="remove it"
        )
    if asked.tear == 0 and asked.fail == "torn":
        raise UsageError(
            "--fail torn cuts a write short, and a disk with --tear 0 tears none", hint="remove --tear 0"
        )
    if "lying_flushes" in given and asked.fail != "lying-disk":
        raise UsageError(f"--lying-flushes is for --fail lying-disk, not {asked.fail}", hint="remove it")
