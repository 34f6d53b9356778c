from __future__ import annotations

from flushlab.settings.catalog import load_catalog
from flushlab.settings.configuration import layout_of


def test_settings_that_shape_files_are_picked_by_name() -> None:
    settings = {"lower_case_table_names": 1, "innodb_page_size": 8192, "sync_binlog": 0}
    assert layout_of(settings, load_catalog()) == {"innodb_page_size": 8192, "lower_case_table_names": 1}
