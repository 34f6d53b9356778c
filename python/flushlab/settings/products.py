"""Products: whose option a name is that neither MySQL nor MariaDB has. Pure; sits in `settings`.

Sources: "List of variables introduced in Percona Server for MySQL" for 8.0 and 5.7
(https://docs.percona.com/percona-server/8.0/ps-variables.html), the wsrep and pxc variables of Percona XtraDB
Cluster (https://docs.percona.com/percona-xtradb-cluster/8.0/wsrep-system-index.html), "Aurora MySQL
configuration parameters" (https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/), "Track database
activity with Audit Logs in Azure Database for MySQL" (https://learn.microsoft.com/azure/mysql/).
"""

from __future__ import annotations

import re

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
