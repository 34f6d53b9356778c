"""Given: settings as `--set` and callers from Python give them, typed by the catalog. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.record import Value
from flushlab.record.server import Flavor
from flushlab.settings.admission import require_admitted
from flushlab.settings.catalog import Catalog


def parse_settings(
    given: Mapping[str, Value], flavor: Flavor, version: tuple[int, ...], catalog: Catalog
) -> dict[str, Value]:
    """Settings typed by the catalog; as they stand where only the server knows their type.

    Raises:
        UsageError: a setting may not enter a sandbox.
        UnknownSetting: not known, or not in this version.
        ValueOutOfRange: the type or the range does not allow it.
    """
    settings: dict[str, Value] = {}
    for spelled, value in given.items():
        name = spelled.strip().replace("-", "_")
        if name in catalog:
            value = catalog.require(name, flavor, version).parse(value)
        elif isinstance(value, str) and value.lstrip("-").isdigit():
            value = int(value)
        settings[name] = value
    return require_admitted(settings)
