from flushlab.near import nearest
from flushlab.settings.catalog import load_catalog


def test_only_names_about_as_near_as_the_nearest_are_suggested() -> None:
    names = [one.name for one in load_catalog().settings()]
    assert nearest("innodb_flush_log_at_trx_comit", names) == ["innodb_flush_log_at_trx_commit"]
    assert nearest("stat", ["start", "status", "stop"]) == ["start", "status"]
    assert nearest("nothing_alike", ["start"]) == []


def test_a_misspelled_beginning_finds_the_names_that_go_on_from_it_the_foremost_first() -> None:
    names = [one.name for one in load_catalog().settings()]
    assert nearest("inodb_flush", names)[0] == "innodb_flush_log_at_trx_commit"
    assert nearest("inodb_flush_log", names) == [
        "innodb_flush_log_at_trx_commit",
        "innodb_flush_log_at_timeout",
    ]
    assert nearest("innodb_bufer_pool", names)[0] == "innodb_buffer_pool_size"
