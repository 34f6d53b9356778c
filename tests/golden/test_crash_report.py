from __future__ import annotations

import msgspec

from flushlab.campaign.crash.experiment import warnings_of
from flushlab.record import Warning
from flushlab.report.crash import document, said
from tests.golden.test_reports import check, text_of
from tests.unit.crashes import ALONE, BASE, CLUSTER, CONTROL, LOSING, REPLICATED, facts


def test_what_kept_everything() -> None:
    check("crash-kept.txt", text_of(document(facts(BASE, CONTROL))))


def test_what_lost() -> None:
    found = msgspec.structs.replace(
        facts(BASE, LOSING), ending="interrupted", warnings=(Warning("positive-control-kept", "a caveat"),)
    )
    check("crash-lost.txt", text_of(document(found)))


def test_a_cluster_as_one_and_its_nodes() -> None:
    found = msgspec.structs.replace(facts(CLUSTER), nodes=3, crashed="all")
    check("crash-cluster.txt", text_of(document(found)))


def test_a_command_of_which_no_commits_are_known() -> None:
    found = facts(ALONE)
    warnings = tuple(warnings_of(found.arms))
    check(
        "crash-command.txt",
        text_of(document(msgspec.structs.replace(found, workload="command: ./import.sh", warnings=warnings))),
    )


def test_replicas() -> None:
    check("crash-replica.txt", text_of(document(facts(REPLICATED))))


def test_nothing_shows_that_damage_to_a_commands_tables_would_have_been_seen() -> None:
    sound = msgspec.structs.replace(ALONE, crashes=ALONE.crashes[:7])
    assert said(facts(sound)).startswith("unknown: the tables are sound, but nothing proves")
    killed = msgspec.structs.replace(facts(sound), failure="process")
    assert said(killed).startswith("unknown: the tables are sound, but no setting would break them")
    broken = msgspec.structs.replace(ALONE, name="control", positive_control=True)
    assert said(facts(sound, broken)).startswith("sound: the server starts and its tables are sound")
