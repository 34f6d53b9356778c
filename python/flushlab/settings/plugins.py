"""Plugins and products: options that neither MySQL nor MariaDB has by itself. Pure.

Sits in `settings`, pure apart from reading `plugins.txt` once. `--PLUGIN[=ON|OFF|FORCE|FORCE_PLUS_PERMANENT]`
loads a plugin or leaves it out. `--verbose --help` lists the options of built-in plugins. The options of a
loadable plugin exist once a file or a table loads its library.

Sources of the products:

- "List of variables introduced in Percona Server for MySQL" for 8.0 and 5.7
  (https://docs.percona.com/percona-server/8.0/ps-variables.html);
- the wsrep and pxc variables of Percona XtraDB Cluster
  (https://docs.percona.com/percona-xtradb-cluster/8.0/wsrep-system-index.html);
- "Aurora MySQL configuration parameters" (https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/);
- "Track database activity with Audit Logs in Azure Database for MySQL" (https://learn.microsoft.com/azure/mysql/).
"""

from __future__ import annotations

import functools
import re
from typing import Literal, NamedTuple, cast

from flushlab.record.server import Flavor
from flushlab.settings.catalog import packaged, version_of

Way = Literal["built-in", "loadable"]


class _Place(NamedTuple):
    """Where a plugin is: from one version on, before another one."""

    way: Way
    flavor: Flavor
    since: tuple[int, ...]
    until: tuple[int, ...] | None

    def __str__(self) -> str:
        since = f" since {'.'.join(map(str, self.since))}" if self.since else ""
        return self.flavor + since + (f" before {'.'.join(map(str, self.until))}" if self.until else "")

    def holds(self, flavor: Flavor, version: tuple[int, ...]) -> bool:
        return (
            flavor == self.flavor and self.since <= version and (self.until is None or version < self.until)
        )


def plugin_named(option: str, flavor: Flavor, version: tuple[int, ...]) -> Way | None:
    """How this server has the plugin that the option loads; None if the option is no plugin's there.

    Every such option is taken with `plugin_` in front, too.
    """
    return next((one.way for one in _places(option) if one.holds(flavor, version)), None)


def plugin_ended(option: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[int, ...] | None:
    """The version in which that flavor dropped the plugin; None if it has it still, or never had it."""
    if plugin_named(option, flavor, version):
        return None
    ends = [one.until for one in _places(option) if one.flavor == flavor and one.until]
    return max((end for end in ends if end <= version), default=None)


def plugin_where(option: str) -> str:
    """The versions that have the plugin: `mysql since 8.4 before 9.0`; empty if the option is no plugin's."""
    return ", ".join(map(str, _places(option)))


def _places(option: str) -> tuple[_Place, ...]:
    return _plugins().get(option) or _plugins().get(option.removeprefix("plugin_"), ())


@functools.cache
def _plugins() -> dict[str, tuple[_Place, ...]]:
    lists = map(str.split, packaged("plugins.txt"))
    return {name: tuple(map(_place, places)) for name, *places in lists}


def _place(word: str) -> _Place:
    """`built-in:mysql@8.4..9.0`; a flavor alone stands for all of its versions."""
    way, _, where = word.partition(":")
    flavor, _, versions = where.partition("@")
    since, _, until = versions.partition("..")
    end = version_of(until) if until else None
    return _Place(cast(Way, way), cast(Flavor, flavor), version_of(since) if since else (), end)


XTRADB_CLUSTER, PERCONA, AURORA = "Percona XtraDB Cluster", "Percona Server", "Amazon Aurora"

_PRODUCTS = (
    (XTRADB_CLUSTER, r"wsrep_\w+|pxc_\w+"),
    (
        PERCONA,
        r"binlog_space_limit|csv_mode|encrypt_tmp_files|ft_query_extra_word_chars|"
        r"enforce_storage_engine|expand_fast_index_creation|extra_(max_connections|port)|have_backup_locks|"
        r"have_backup_safe_binlog_info|have_snapshot_cloning|innodb_(cleaner_lsn_age_factor|"
        r"compressed_columns_(threshold|zip_level)|corrupt_table_action|empty_free_list_algorithm|"
        r"encrypt_(online_alter_logs|tables)|kill_idle_transaction|max_bitmap_file_size|max_changed_pages|"
        r"parallel_(dblwr_encrypt|doublewrite_path)|print_lock_wait_timeout_info|show_locks_held|"
        r"background_scrub_data_(un)?compressed|default_encryption_key_id|sys_tablespace_encrypt|temp_tablespace_encrypt|track_changed_pages|"
        r"use_global_flush_log_at_trx_commit)|kill_idle_transaction|"
        r"log_slow_(filter|rate_limit|rate_type|sp_statements|verbosity)|log_warnings_suppress|"
        r"max_(binlog_files|slowlog_files|slowlog_size)|proxy_protocol_networks|"
        r"slow_query_log_(always_write_time|use_global_control)|thread_statistics|userstat|"
        r"utility_user(_password|_privileges|_schema_access)?",
    ),
    (AURORA, r"aurora_\w+|aws_default_\w+_role|innodb_aurora_\w+"),
    ("Amazon RDS", r"rds_\w+"),
    (
        "Azure Database for MySQL",
        r"azure_\w+|audit_log_(enabled|events|include_users|exclude_users)|error_server_log_file",
    ),
    ("Google Cloud SQL", r"cloudsql_\w+"),
)


def product_of(name: str) -> str:
    """The product whose option that is; empty if it is of none that is known here."""
    return next((product for product, names in _PRODUCTS if re.fullmatch(names, name)), "")
