"""Evidence and diagnosis of files: what they tell, what they do not, and what does not belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.diagnosis.diagnose import UNKNOWN, diagnose
from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.files.folder import FoundFiles, tell
from flushlab.diagnosis.files.samples import evidence_of
from flushlab.errors import SamplesDisagree
from flushlab.report.doctor import document
from tests.golden.test_reports import text_of
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import (
    MYSQL51_INNODB,
    MYSQL80_INNODB,
    SCRAPE,
    VARIABLES,
    box,
    connection,
    diagnosis,
    processlists,
    tabs,
    vertical,
)

COMMITTING = [
    connection(7, "Query", 0, "waiting for handler commit", "COMMIT"),
    connection(8, "Query", 0, "updating", "UPDATE stock SET n = n - 1"),
]


def evidence(**texts: str) -> Evidence:
    return evidence_of(outputs.found_files(**texts))


def test_the_window_is_from_the_first_status_to_the_last() -> None:
    found = evidence(
        a=box(outputs.status()), b=box(outputs.status(9)) + box(outputs.status(30, Com_insert=60))
    )
    assert found.seconds == 30.0
    assert found.per_s("com_insert") == 2.0
    assert [at_s for at_s, _ in found.commit_counts] == [0.0, 9.0, 30.0]


def test_an_uptime_of_zero_is_one() -> None:
    found = evidence(a=box(outputs.status(-1000)) + box(outputs.status(-998, Com_insert=8)))
    assert (found.seconds, found.per_s("com_insert")) == (2.0, 4.0)


def test_variables_give_the_server_and_its_settings() -> None:
    found = evidence(a=tabs(VARIABLES), b=box(outputs.status()))
    assert found.server == "mysql@8.0.40"
    assert found.settings["sync_binlog"] == 1
    assert diagnose(found).floor.startswith("strict")


@pytest.mark.parametrize(
    ("version", "server"),
    [
        ("5.5.5-10.11.6-MariaDB-log", "mariadb@10.11.6"),
        ("10.11.6-MariaDB", "mariadb@10.11.6"),
        ("8.0.32-24", "mysql@8.0.32"),
        ("", "mysql of unknown version"),
        ("MariaDB", "mariadb of unknown version"),
    ],
)
def test_the_flavor_is_that_of_the_version(version: str, server: str) -> None:
    assert evidence(a=tabs({**VARIABLES, "version": version})).server == server


def test_an_unknown_server_has_no_floor_and_no_change_to_try() -> None:
    found = diagnosis(a=box(outputs.status()) + box(outputs.status(10, Innodb_log_waits=50)))
    assert [one.name for one in found.findings] == ["log_buffer"]
    assert (found.floor, found.guarantees, found.findings[0].changes) == (UNKNOWN, {}, ())
    assert any("shows the server's version" in one for one in found.not_judged)


def test_one_status_tells_no_rates() -> None:
    waits = outputs.status(Innodb_buffer_pool_wait_free=1350, Innodb_row_lock_waits=15)
    found = diagnosis(a=tabs(VARIABLES), b=tabs(waits))
    assert found.answer.startswith("What bounds writes cannot be judged: the files have no rates")
    assert found.findings == ()
    (rates,) = (one for one in found.not_judged if one.startswith("rates"))
    assert "take a second" in rates
    assert (
        "16 min 40 s before, the server counted 1,350 waits for a free page, 15 waits for row locks" in rates
    )
    assert "whether they go on is not told" in rates


def test_two_statuses_of_the_same_second_tell_no_rates() -> None:
    assert evidence(a=box(outputs.status()) + box(outputs.status())).seconds == 0.0


def test_no_statement_that_writes_is_the_answer() -> None:
    found = diagnosis(a=box(outputs.status()) + box(outputs.status(30, Com_select=900, Questions=900)))
    assert found.answer == "Nothing bounds writes: no statement wrote in 30 s."


def test_redo_without_statements_is_a_replicas() -> None:
    found = diagnosis(a=box(outputs.status()) + box(outputs.status(10, Innodb_os_log_written=10_485_760)))
    assert "cannot be judged: no statement of a client wrote in 10 s, but 1 MiB/s of redo" in found.answer


def test_few_statements_with_nobody_else_at_work_are_idle() -> None:
    few = [outputs.status(at, Com_insert=at // 5, Threads_running=-1) for at in range(0, 30, 5)]
    assert diagnosis(a="".join(map(box, few))).answer.startswith(
        "Nothing bounds writes: the server is idle, 0.2"
    )
    busy = [outputs.status(at, Com_insert=at // 5, Threads_running=9) for at in range(0, 30, 5)]
    assert diagnosis(a="".join(map(box, busy))).answer == (
        "What bounds writes cannot be judged: 0.2 write statements/s in 25 s, and the files have no lists of"
        " connections."
    )


def test_lists_of_connections_give_the_writers_time() -> None:
    found = evidence(
        a=tabs(VARIABLES),
        b=box(outputs.status()) + box(outputs.status(30, Com_insert=900)),
        c=processlists([COMMITTING] * 30),
    )
    assert found.write_time is not None
    assert (found.write_time.samples, found.write_time.writers) == (30, 2)
    assert found.write_time.connections == {"commit": 1.0, "statement": 1.0}
    judged = diagnose(found)
    assert judged.findings[0].name == "commit_sync"
    assert judged.findings[0].strength == "binds"
    assert not any("where writers" in one for one in judged.not_judged)


def test_few_lists_are_no_sample() -> None:
    found = diagnosis(a=box(outputs.status()), b=processlists([COMMITTING] * 4))
    assert {one.share for one in found.findings} == {None}
    assert found.answer.startswith("In 4 lists of connections, 1 of 2 busy writers commit, 1 of 2 busy")
    assert any("It takes 5 lists of connections" in one for one in found.not_judged)


def test_waits_for_row_locks_are_those_that_the_monitor_lists() -> None:
    found = evidence(
        a=tabs(VARIABLES),
        b=processlists([[connection(8, "Query", 3, "updating", "UPDATE stock SET n = 1")]] * 10),
        c=MYSQL80_INNODB,
    )
    assert found.write_time is not None
    assert found.write_time.connections == {"statement": 0.0, "row lock": 1.0}
    assert diagnose(found).findings[0].name == "row_locks"


def test_the_monitor_alone_tells_of_the_redo_log_of_transactions_and_of_latches() -> None:
    found = diagnosis(a=tabs(VARIABLES), b=MYSQL80_INNODB)
    assert [one.name for one in found.findings] == [
        "row_locks",
        "latches",
        "redo_capacity",
        "idle_transactions",
        "pending_io",
    ]
    assert "cannot be judged: InnoDB changed 14 rows/s in the 12 s before" in found.answer
    assert found.answer.startswith("1 transaction waits for row locks; threads wait for InnoDB's latches")


def test_the_monitor_of_an_idle_server_says_so() -> None:
    found = diagnosis(a=MYSQL51_INNODB)
    assert found.answer == (
        "Nothing bounds writes: InnoDB changed no row in the 34 s before SHOW ENGINE INNODB STATUS."
    )
    assert any("its size" in one for one in found.not_judged)


def test_scrapes_tell_rates_and_syncs() -> None:
    later = SCRAPE.replace("uptime 1000", "uptime 1010").replace('mode="misc"} 200', 'mode="misc"} 700')
    later = later.replace('mode="misc"} 0.4', 'mode="misc"} 1.4').replace('"insert"} 500', '"insert"} 900')
    found = evidence(a=SCRAPE, b=later)
    assert found.server == "mysql@8.0.40"
    assert found.per_s("com_insert") == 40.0
    assert found.after.files["binlog"].syncs - found.before.files["binlog"].syncs == 500
    assert found.settings["sync_binlog"] == 1


def test_where_values_came_from_is_not_said() -> None:
    state = diagnosis(a=tabs(VARIABLES)).state
    assert state.unseen == ("where values came from, and what a restart changes: files do not tell",)
    assert {one.name: one.at_restart for one in state.settings}["sync_binlog"] is None
    assert diagnosis(a=MYSQL51_INNODB).state.unseen == ()


def test_settings_that_no_file_has_are_named() -> None:
    few = {name: value for name, value in VARIABLES.items() if name != "sync_binlog"}
    says = "no file has their values, so the guarantees are those of the defaults"
    found = diagnosis(a=tabs(few)).not_judged
    assert f"sync_binlog, innodb_doublewrite, innodb_flush_method: {says}" in found


def test_what_was_cut_is_said() -> None:
    cut = box(outputs.status(10)).partition("| Threads_connected")[0]
    whole = box(outputs.status()) + box(outputs.status(5))
    found = diagnosis(a=whole + cut, b=MYSQL80_INNODB.partition("---\nLOG")[0])
    assert "1 status: without Uptime, as if cut short" in found.not_judged
    assert (
        "parts of SHOW ENGINE INNODB STATUS: LOG, ROW OPERATIONS, its last line, cut off" in found.not_judged
    )
    assert "how full the redo log is: the section LOG is missing" in found.not_judged


def test_statuses_without_uptime_have_no_rates_and_are_judged_all_the_same() -> None:
    """Such as those of SHOW GLOBAL STATUS LIKE 'Innodb_row_lock%'."""
    before, after = (
        {name: one[name] for name in one if name.startswith("Innodb_row_lock")}
        for one in (
            outputs.status(),
            outputs.status(Innodb_row_lock_waits=9, Innodb_row_lock_current_waits=3),
        )
    )
    found = diagnosis(a=tabs(before), b=tabs(after))
    assert found.answer.startswith("3 transactions wait for row locks. What bounds writes cannot be judged")
    assert found.not_judged[0].startswith(
        "rates: no status has Uptime, so nothing tells the time between two"
    )


def test_a_version_beside_other_files_is_that_of_the_server() -> None:
    found = evidence(a="10.11.6-MariaDB\n", b=box(outputs.status()))
    assert found.server == "mariadb@10.11.6"
    assert "a: version" in found.files
    assert evidence(a="8.0.39\n", b=tabs(VARIABLES)).server == "mysql@8.0.40"


def test_a_list_with_the_column_of_mariadb_is_one_of_its_connections() -> None:
    assert evidence(a=processlists([[{**COMMITTING[0], "Progress": "0.000"}]])).server.startswith("mariadb")


def test_a_size_that_no_file_has_is_not_zero() -> None:
    after = outputs.status(10, Innodb_log_waits=50, Innodb_buffer_pool_wait_free=9)
    after |= {"Binlog_cache_disk_use": "5", "Binlog_cache_use": "9"}
    before = outputs.status() | {"Binlog_cache_disk_use": "0", "Binlog_cache_use": "0"}
    found = {one.name: one for one in diagnosis(a=box(before) + box(after)).findings}
    for name, size in (
        ("log_buffer", "innodb_log_buffer_size"),
        ("buffer_pool", "innodb_buffer_pool_size"),
        ("binlog_cache", "binlog_cache_size"),
    ):
        assert any(f"{size} is not known" in seen.text for seen in found[name].seen)
        assert not any("0 B" in seen.text for seen in found[name].seen)


def test_settings_of_commits_that_no_file_has_are_no_relaxed_ones() -> None:
    found = diagnosis(a=processlists([COMMITTING] * 6)).findings[0]
    assert (found.name, found.title) == ("commit_sync", "commits take time; whether they sync is not known")
    assert found.waits == ("commit", "row lock")
    assert any("=unknown, sync_binlog=unknown" in seen.text for seen in found.seen)


def test_a_setting_whose_value_is_not_known_has_no_change_to_try() -> None:
    few = {name: VARIABLES[name] for name in ("version", "sync_binlog", "innodb_buffer_pool_size")}
    found = diagnosis(a=tabs(few), b=box(outputs.status()) + box(outputs.status(10, Innodb_log_waits=50)))
    assert [(one.name, one.changes) for one in found.findings] == [("log_buffer", ())]


def test_files_that_tell_nothing_are_named_in_full() -> None:
    found = evidence_of(
        FoundFiles(
            key="/t",
            files={"a": tell(box(outputs.status()))},
            left_out=("b: not known",),
        )
    )
    judged = diagnose(found)
    assert "1 file: they tell nothing of a server" in judged.not_judged
    assert "b: not known" not in text_of(document(judged)) and "- left out: b: not known" in text_of(
        document(judged), full=True
    )


def test_reasons_of_what_was_not_judged_are_in_the_full_report() -> None:
    found = diagnosis(a=vertical([COMMITTING[0]]))
    short = text_of(document(found)).partition("Not judged")[2]
    assert short.startswith(" (--full): rates; where writers spend their time; how full the redo")
    assert len(short) < len(found.answer) + 200
    assert "no SHOW ENGINE INNODB STATUS" not in short
    assert "no SHOW ENGINE INNODB STATUS" in text_of(document(found), full=True)


def test_a_long_window_is_a_doubt() -> None:
    found = diagnosis(a=box(outputs.status()), b=box(outputs.status(7200, Com_insert=9)))
    assert found.doubts == ("rates are means over 2 h: a stall is not seen in them",)


def disagreement(**texts: str) -> str:
    with pytest.raises(SamplesDisagree) as caught:
        evidence(**texts)
    assert caught.value.hint
    return caught.value.message


def test_a_restart_between_is_refused() -> None:
    says = disagreement(a=box(outputs.status()), b=box(outputs.status(-980)))
    assert says == "Uptime falls from 1,000 s in a to 20 s in b"


def test_variables_of_two_servers_are_refused() -> None:
    other = {**VARIABLES, "hostname": "db2"}
    assert disagreement(a=tabs(VARIABLES), b=tabs(other)) == (
        "files of different servers: hostname is db1 in a, and db2 in b"
    )


def test_statuses_of_two_servers_are_refused() -> None:
    other = outputs.status(10, Bytes_received=-90_000, Innodb_data_written=-7_000_000)
    assert disagreement(a=box(outputs.status()), b=box(other)).startswith("a and b are statuses of different")
    few = {name: value for name, value in outputs.status(10).items() if name > "I"}
    few |= {f"Aria_{number}": "1" for number in range(9)}
    assert "they have different variables" in disagreement(a=box(outputs.status()), b=box(few))


def test_counters_that_were_reset_are_no_other_server() -> None:
    reset = outputs.status(10, Com_select=-700, Handler_commit=-510, Queries=-1000)
    found = evidence(a=box(outputs.status()), b=box(reset))
    assert found.per_s("com_select") is None


def test_files_and_what_they_were_read_as_are_kept(tmp_path: Path) -> None:
    found = evidence(a=box(outputs.status()) + box(outputs.status(1)), b=tabs(VARIABLES))
    assert found.files == ("a: SHOW GLOBAL STATUS (2)", "b: SHOW GLOBAL VARIABLES")
