"""Layout: the settings that shape the files of a data directory. Pure.

Sits in `settings`. One definition for all who start a server on files: its initialisation, the first start on
a copied directory, and the keys of snapshots. A server started with others than its files were made with
refuses them, or reads them wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.record import Value
from flushlab.settings.catalog import Catalog

# Beside those that the catalog marks. innodb_data_file_path: MySQL 8.0 manual, 17.6.3.1;
# lower_case_table_names: 9.2.3; innodb_checksum_algorithm: its strict_ values refuse pages of another kind;
# aria_block_size: fixed in aria_log_control.
_BESIDE = {"innodb_data_file_path", "lower_case_table_names", "innodb_checksum_algorithm", "aria_block_size"}


def layout_of(settings: Mapping[str, Value], catalog: Catalog) -> dict[str, Value]:
    """Those of the settings that shape files, by name."""
    return {
        name: value
        for name, value in sorted(settings.items())
        if name in _BESIDE or (name in catalog and catalog.setting(name).layout)
    }
