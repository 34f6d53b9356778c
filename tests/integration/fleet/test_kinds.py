"""Commands on a fleet of two machines, each in a network namespace of its own: `crash`, `tune`."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fleet_testbed import Node, needs_ray, needs_root
from tests.waiting import wait_until

pytestmark = [
    needs_ray,
    needs_root,
    pytest.mark.long,
    pytest.mark.server("mariadb@10.11"),
]


def has_no_server(node: Node) -> bool:
    names = list[str]()
    for pid in node.pids():
        try:
            names.append(Path(f"/proc/{pid}/comm").read_text())
        except OSError:
            continue
    return not any("mariadbd" in name for name in names)


def on_both(pair: tuple[Node, Node], *words: str) -> Any:
    """The document of a command that runs on the fleet; no server is left behind it."""
    done = pair[0].flushlab(*words, "--server", "mariadb@10.11", "--fleet", pair[0].address, "--json", "-")
    assert done.returncode == 0, done.stderr
    for node in pair:
        wait_until(partial(has_no_server, node), f"the end of the servers of {node.name}")
    return json.loads(done.stdout)


def test_crashes_of_a_campaign_run_on_both_machines(pair: tuple[Node, Node]) -> None:
    facts = on_both(
        pair,
        "crash",
        "base",
        "innodb_flush_log_at_trx_commit=0",
        *("--failure", "process"),
        *("--crashes", "4", "--duration", "0.5", "--threads", "2", "--no-positive-control"),
    )
    arms = {arm["name"]: arm["crashes"] for arm in facts["arms"]}
    assert {name: len(crashes) for name, crashes in arms.items()} == dict.fromkeys(arms, 4)
    machines = Counter(one["machine"] for crashes in arms.values() for one in crashes)
    assert set(machines) == {"one", "two"}
    assert {one["outcome"] for one in arms["base"]} == {"kept"}


@pytest.mark.skipif(shutil.which("mariadb") is None, reason="the load needs the client mariadb")
def test_one_machine_selects_settings_and_the_other_confirms_them(
    pair: tuple[Node, Node], tmp_path: Path
) -> None:
    # One candidate is left, and the load sleeps a third as long with it: screening keeps it.
    fixed = ("innodb_flush_method", "innodb_log_buffer_size", "innodb_log_file_buffering")
    query = "SELECT IF(@@innodb_flush_log_at_trx_commit = 1, 1.5, 0.5)"
    facts = on_both(
        pair,
        *("tune", "--workload", f"command: sleep $(mariadb -u $MYSQL_USER -NBe '{query}')"),
        *("--floor", "second", "--trials", "14", "--out", str(tmp_path / "out")),
        *(word for name in fixed for word in ("--fixed", name)),
    )
    assert facts["ending"] in ("done", "budget spent")
    (told,) = [one["text"] for one in facts["warnings"] if one["slug"] == "confirmed-elsewhere"]
    assert "which did not select" in told
    (arm,) = [one for one in facts["arms"] if one["changes"]]
    assert arm["changes"]["innodb_flush_log_at_trx_commit"] != 1
    assert arm["comparison"]["ratio"]["estimate"] > 1, (
        "whether that is proven is a matter of the machine's calm"
    )
