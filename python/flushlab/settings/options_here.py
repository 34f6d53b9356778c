"""Options here: what one server takes as options, from the lists and, if it was asked, from its build. Pure.

Sits in `settings`, on the catalog and `option_names`; `check` asks here.
"""

from __future__ import annotations

from flushlab.record import ServerIdentity
from flushlab.settings.admission import PLUGIN
from flushlab.settings.catalog import Catalog, SettingHere, load_catalog, version_of
from flushlab.settings.option_names import HelpText, OptionNames, Shape, load_option_names, load_option_shapes
from flushlab.settings.optionfile import groups_of
from flushlab.settings.plugins import Way, plugin_ended, plugin_named, plugin_where

_EARLY = ("max_connections", "getopt_prefix_matching")


class OptionsHere:
    """The known facts about the server: its groups, its options, its catalog.

    Args:
        known: the options that its build reports, if it was asked.
        suffix: the --defaults-group-suffix.
    """

    def __init__(self, identity: ServerIdentity, known: HelpText | None, suffix: str = "") -> None:
        self.identity = identity
        self.catalog: Catalog = load_catalog()
        self.names: OptionNames = load_option_names()
        self.groups = groups_of(identity, suffix)
        self._told = known.names if known else None
        self.key = (identity.flavor, identity.version)

    def here(self, name: str) -> SettingHere | None:
        """The catalog's setting of exactly this name (aliases are names of variables, not of options)."""
        if name not in self.catalog or self.catalog.setting(name).name != name:
            return None
        return self.catalog.here(name, *self.key)

    def shape(self, name: str) -> Shape | None:
        """Which values an option outside the catalog takes; None if that is not known."""
        listed = load_option_shapes().here(name, *self.key)
        return listed or (Shape(kind="plugin", optional=True) if self.plugin(name) else None)

    def plugin(self, name: str) -> Way | None:
        """How this server has the plugin that an option of this name loads; None if it is no plugin's."""
        return None if self.takes(name) else plugin_named(name, *self.key)

    def plugin_elsewhere(self, name: str) -> str:
        """The versions that have the plugin of this option, which this server lacks."""
        return "" if self.takes(name) or self.plugin(name) else plugin_where(name)

    def takes(self, name: str) -> bool | None:
        """Whether the server takes the option; None if that is not known."""
        if self._told is not None:
            return name in self._told
        if self.names.removed(name, *self.key):
            return False
        listed = self.names.knows(name, *self.key)
        if name in self.catalog and self.catalog.setting(name).name == name:
            return self.here(name) is not None and listed is not False
        return listed

    def ignores(self, name: str) -> bool:
        """Whether the server takes the option and does nothing with it."""
        return not self.takes(name) and self.names.ignores(name, *self.key)

    def unheard_of(self, name: str) -> bool:
        """Whether the server is newer than all that is listed, and no listed one takes the option."""
        return self.takes(name) is None and name not in self.names.names() and not PLUGIN.match(name)

    @property
    def told_as(self) -> str:
        """`mysql 8.0.15`."""
        return f"{self.identity.flavor} {'.'.join(map(str, self.identity.version))}"

    def ended(self, name: str) -> str:
        """The version in which this flavor dropped the option, `8.0.3`; empty if it did not."""
        end = self.names.removed(name, *self.key) or (
            None if self.takes(name) or self.abbreviated(name) else plugin_ended(name, *self.key)
        )
        if end is not None:
            return ".".join(map(str, end))
        if name not in self.catalog or self.catalog.setting(name).name != name:
            return ""
        ends = [
            one.until
            for one in self.catalog.setting(name).version
            if one.flavor == self.identity.flavor and one.until
        ]
        gone = [end for end in ends if version_of(end) <= self.identity.version]
        return max(gone, key=version_of, default="") if self.here(name) is None else ""

    def next_end(self, name: str) -> str:
        """The later version in which this flavor dropped the option; empty if none is known to."""
        ends = [one.ends.get(self.identity.flavor) for one in (self.names.removals.get(name),) if one]
        if name in self.catalog:
            own = (one for one in self.catalog.setting(name).version if one.flavor == self.identity.flavor)
            ends.append(max((version_of(one.until or "99") for one in own), default=None))
        later = [end for end in ends if end is not None and self.identity.version < end < (99,)]
        return ".".join(map(str, min(later, default=())))

    def successors(self, name: str) -> tuple[str, ...]:
        """Options of this server that do the work of one that it lacks."""
        found = self.names.successors(name, *self.key)
        return found or (self.catalog.successor(name, *self.key) if name in self.catalog else ())

    def had(self, name: str) -> bool:
        """Whether any known release of this flavor has the option."""
        flavor = self.identity.flavor
        listed = any(one.flavor == flavor and name in self.names.of(one) for one in self.names.releases)
        known = self.catalog.setting(name).version if name in self.catalog else ()
        return listed or any(one.flavor == flavor for one in known)

    def had_before(self, name: str) -> bool:
        """Whether an earlier listed release of this flavor takes the option."""
        flavor, version = self.key
        return any(
            one.flavor == flavor and one.version < version and name in self.names.of(one)
            for one in self.names.releases
        )

    def near(self, name: str) -> str | None:
        """The option that a misspelled name may mean, or the only one that begins so."""
        if near := self.names.near(name, *self.key):
            return near
        found = self.names.starting_with(name, *self.key)
        return found[0] if len(found) == 1 and found[0] != name else None

    def abbreviated(self, name: str) -> tuple[str, ...]:
        """The options that MariaDB takes the beginning of a name for; with several it ends. MySQL takes none.

        It looks for a few before all others; of those only `_EARLY` share their beginnings (10.11.19 and
        11.8.9 start with `m=1` and `g=1`). Plugins come last, each alone (`my_getopt.c`, `sql_plugin.cc`).
        """
        if self.identity.flavor != "mariadb" or not name or self.takes(name):
            return ()
        found = self.names.starting_with(name, *self.key)
        if early := [one for one in _EARLY if one in found]:
            return (early[0],)
        loading = [one for one in found if (shape := self.shape(one)) and shape.kind == "plugin"]
        innodb = [one for one in found if one.startswith("innodb_") and one not in loading]
        own = [one for one in found if one not in (*loading, *innodb)]
        return tuple(own or innodb or loading[:1])
