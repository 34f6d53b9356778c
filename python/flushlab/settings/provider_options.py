"""Provider options: the many settings that Galera holds in one variable, wsrep_provider_options. Pure.

Sits in `settings`, below whoever writes or reads a server's variables. The server keeps the options that SET
does not name; an option file names them all in one line. So callers handle single options
(`SettingHere.part`), and only here they become that line and come from that text.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from flushlab.errors import ValueOutOfRange
from flushlab.record import Value
from flushlab.record.server import Flavor
from flushlab.settings.catalog import PROVIDER_OPTIONS, load_catalog


def read_options(text: str) -> dict[str, str]:
    """The options in the variable's text: `gcache.size = 128M; gcs.fc_limit = 16; …`."""
    pairs = (one.partition("=") for one in text.split(";"))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def spell_options(options: Mapping[str, str]) -> str:
    """The variable's text for these options."""
    return ";".join(f"{name}={value}" for name, value in options.items())


def without_parts(
    settings: Mapping[str, Value], flavor: Flavor, version: tuple[int, ...]
) -> tuple[dict[str, Value], dict[str, str]]:
    """The settings that are variables of their own, and the provider's options under Galera's names.

    Raises:
        ValueOutOfRange: an option has a value that it does not take.
    """
    catalog, whole, options = load_catalog(), dict[str, Value](), dict[str, str]()
    for name, value in settings.items():
        here = catalog.here(name, flavor, version) if name in catalog else None
        if here is not None and here.part:
            options[here.part] = here.render(value)
        else:
            whole[name] = value
    return whole, options


def parts_of(text: str, flavor: Flavor, version: tuple[int, ...]) -> dict[str, Value]:
    """The options of a text that the catalog knows, as it has them; what cannot be read stays out."""
    catalog, told, found = load_catalog(), read_options(text), dict[str, Value]()
    for name in catalog.names(flavor, version):
        here = catalog.require(name, flavor, version)
        if here.part in told:
            with suppress(ValueOutOfRange):
                found[name] = here.parse(told[here.part])
    return found


def option_file_line(options: Mapping[str, str]) -> str:
    """The one line that sets all of these."""
    return f'{PROVIDER_OPTIONS} = "{spell_options(options)}"'
