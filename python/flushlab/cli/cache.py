"""`flushlab cache`: snapshots, templates and content of other machines, kept to save time; making room."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from flushlab.cli import options
from flushlab.cli.consoles import stdout
from flushlab.cli.declare import OptionGroup
from flushlab.cli.output import emit_json, require_writable
from flushlab.spec import Option

if TYPE_CHECKING:
    from flushlab.datadir import Snapshot
    from flushlab.datadir.kept import Cache
    from flushlab.fleet.received import ReceivedContent

app = OptionGroup("cache", "What is kept to save time: list it, or make room.")


@app.add("list")
def list_(json: options.Json = None) -> None:
    """List what is kept, the last used first.

    Each is a copy: of data, the server's own or yours, or of files that another machine of a fleet sent. It
    only saves the time to make or to send it again.

    \b
    Example:
      flushlab cache list
    """
    from flushlab.units import format_size

    require_writable(json)
    entries = [
        {**_entry(kind, one), "in_use": cache.in_use(one)}
        for kind, cache in _caches()
        for one in cache.list()
    ]
    entries.sort(key=lambda entry: str(entry["used_at"]), reverse=True)
    limits = {kind: cache.limit_bytes for kind, cache in _caches()}
    emit_json({"schema": "flushlab.cache-list/1", "limits_bytes": limits, "entries": entries}, json)
    if json == "-":
        return
    for entry in entries:
        used = f"{entry['used_at']:.16}".replace("T", " ")
        size = format_size(int(str(entry["bytes"])))
        state = "  in use" if entry["in_use"] else ""
        stdout.print(f"{entry['id']}  {used}  {size:>10}  {entry['what']}{state}", soft_wrap=True)
    total = format_size(sum(int(str(entry["bytes"])) for entry in entries))
    stdout.print(f"{len(entries)} kept, {total}; `flushlab cache prune` makes room")


@app.add("prune")
def prune(
    size: Annotated[
        str | None,
        Option("Keep at most this much of each kind, like 2G; 0 keeps only what is in use."),
    ] = None,
    json: options.Json = None,
) -> None:
    """Remove the least recently used data, except what is in use.

    Without --size the limit is $FLUSHLAB_CACHE_SIZE, or a fifth of the disk.

    \b
    Example:
      flushlab cache prune --size 2G
    """
    from flushlab.process import reap
    from flushlab.units import format_size, parse_size

    require_writable(json)
    reap()
    limit = parse_size(size) if size is not None else None
    removed = [
        _entry(kind, one)
        for kind, cache in _caches()
        for one in cache.evict(cache.limit_bytes if limit is None else limit)
    ]
    freed = sum(int(str(entry["bytes"])) for entry in removed)
    emit_json({"schema": "flushlab.cache-prune/1", "freed_bytes": freed, "removed": removed}, json)
    if json != "-":
        stdout.print(f"removed {len(removed)}, {format_size(freed)}")


def _caches() -> list[tuple[str, Cache[Any]]]:
    from flushlab.datadir import Snapshots
    from flushlab.fleet.received import ReceivedFiles
    from flushlab.machine import home

    folders = {kind: home() / f"{kind}s" for kind in ("snapshot", "template")}
    found: list[tuple[str, Cache[Any]]] = [
        (kind, Snapshots(folder)) for kind, folder in folders.items() if folder.is_dir()
    ]
    return [*found, *([("content", ReceivedFiles())] if (home() / "content").is_dir() else [])]


def _entry(kind: str, one: Snapshot | ReceivedContent) -> dict[str, object]:
    from flushlab.datadir import Snapshot
    from flushlab.datadir.kept import last_used

    id_, what = _named(kind, one) if isinstance(one, Snapshot) else (one.id, one.what)
    return {
        "id": id_[:12],
        "kind": kind,
        "what": what,
        "bytes": one.allocated_bytes,
        "used_at": datetime.fromtimestamp(last_used(one.folder), UTC).isoformat(timespec="seconds"),
        "folder": str(one.folder),
    }


def _named(kind: str, one: Snapshot) -> tuple[str, str]:
    parts = one.key.parts
    names = [parts[name] for name in ("what", "build", "dataset", "workload", "prepare") if parts.get(name)]
    return one.key.digest, " · ".join([*([] if "what" in parts else [kind]), *names])
