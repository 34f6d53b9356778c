"""Given: settings as `--set` and callers from Python give them, typed by the catalog. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.record.server import Flavor
from flushlab.settings.admission import require_admitted
from flushlab.settings.catalog import Catalog


def parse_settings(
    given: Mapping[str, Value],
    flavor: Flavor,
    version: tuple[int, ...],
    catalog: Catalog,
    *,
    nodes: int | None = None,
) -> dict[str, Value]:
    """Settings typed by the catalog; as they stand where only the server knows their type.

    Args:
        given: names and values, as people write them.
        flavor: of the server.
        version: of the server.
        catalog: of settings.
        nodes: of the cluster that they are for, 1 for a single server; None: not known.

    Raises:
        UsageError: a setting may not enter a sandbox, or has no place on so many nodes.
        UnknownSetting: not known, or not in this version.
        ValueOutOfRange: the type or the range does not allow it.
    """
    settings: dict[str, Value] = {}
    for spelled, value in given.items():
        name = spelled.strip().replace("-", "_")
        if name in catalog:
            here = catalog.require(name, flavor, version)
            value = here.parse(value)
            if nodes is not None and (why := here.unfit(value, nodes)):
                raise UsageError(why, hint=f"remove {spelled.strip()}")
        elif isinstance(value, str) and value.lstrip("-").isdigit():
            value = int(value)
        settings[name] = value
    return require_admitted(settings)
