from flushlab.near import nearest
from flushlab.settings.catalog import load_catalog


def test_only_names_about_as_near_as_the_nearest_are_suggested() -> None:
    names = [one.name for one in load_catalog().settings()]
    assert nearest("innodb_flush_log_at_trx_comit", names) == ["innodb_flush_log_at_trx_commit"]
    assert nearest("stat", ["start", "status", "stop"]) == ["start", "status"]
    assert nearest("nothing_alike", ["start"]) == []
