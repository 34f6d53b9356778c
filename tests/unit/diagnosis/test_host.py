"""The machine's side of a window: seen of a process on this machine, and judged."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.diagnosis import host as module
from flushlab.diagnosis.diagnose import diagnose
from flushlab.diagnosis.finding import verdict_now
from flushlab.diagnosis.findings import machine
from flushlab.diagnosis.findings import machine as disk_finding
from flushlab.diagnosis.host import HeldLimit, HostWatch, OtherWriter, ServerStart, _lines, read_start
from flushlab.machine import cgroup
from flushlab.machine.processes import ProcessIo
from flushlab.record import Launch, Storage
from flushlab.report.doctor import as_json, document
from tests.golden.test_reports import text_of
from tests.unit.diagnosis.hosts import NEIGHBOR, disk, host
from tests.unit.diagnosis.watched import COMMITTING, client, evidence, time_of, writer
from tests.unit.telemetry.live.told import MARIADB, MYSQL97

COMMITS = time_of([writer(1, COMMITTING)])


def test_the_folders_of_a_server_are_found(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    variables = {
        "datadir": f"{tmp_path}/",
        "innodb_log_group_home_dir": "./",
        "log_bin_basename": f"{tmp_path}/logs/binlog",
        "innodb_undo_directory": "./absent",
    }
    found = HostWatch(os.getpid(), variables).finish()
    assert found.places[0].path == str(tmp_path)
    assert found.places[0].holds == ("data", "redo log", "binary log")
    assert found.storage.visible and found.storage.redo_on_same_device
    assert any("innodb_undo_directory" in one and "No such file" in one for one in found.unseen)
    assert found.cpus >= 1 and found.memory_bytes > 0
    assert found.bytes_per_s is not None and found.launch.preload is None


def test_files_in_memory_are_known(tmp_path: Path) -> None:
    found = HostWatch(os.getpid(), {"datadir": str(tmp_path), "innodb_log_group_home_dir": "/dev/shm"})
    storage = found.finish().storage
    assert "innodb_log_group_home_dir" in storage.in_memory_files


def test_a_server_without_a_known_folder_is_not_judged_by_one() -> None:
    found = HostWatch(os.getpid(), {}).finish()
    assert not found.storage.visible and found.places == ()
    assert "the server's folders" in found.unseen[0]


def test_of_the_arguments_only_those_of_syncs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("/usr/sbin/mariadbd", "--wsrep-sst-auth=root:secret", "--debug-no-sync")
    monkeypatch.setattr(module, "command_line", lambda _: words)
    launch = HostWatch(os.getpid(), {"datadir": str(tmp_path)}).finish().launch
    assert launch.arguments == ("--debug-no-sync",)


def test_others_are_told_from_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server has the same name; flushlab itself is left out."""
    server, other, own = 7, 8, os.getpid()
    names = {(server, "1"): "mysqld", (other, "1"): "mysqld", (own, "1"): "python"}
    begins = dict.fromkeys(names, 1000)
    ends = {(server, "1"): 5000, (other, "1"): 3000, (own, "1"): 9000}
    told = iter(
        (ProcessIo(written=begins, names=names, unseen=2), ProcessIo(written=ends, names=names, unseen=2))
    )
    monkeypatch.setattr(module, "process_io", lambda: next(told))
    monkeypatch.setattr(module, "root_of", lambda _: Path("/"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = HostWatch(server, {"datadir": str(tmp_path)}).finish()
    (neighbor,) = found.writers
    assert (neighbor.name, neighbor.pids) == ("mysqld", (other,))
    assert found.bytes_per_s is not None
    assert found.bytes_per_s / neighbor.bytes_per_s == pytest.approx(2.0)
    assert "writes of 2 other processes: /proc/PID/io (root reads it)" in found.unseen


@pytest.mark.parametrize(("user", "who"), [(1000, "root reads it"), (0, "denied to root here")])
def test_what_this_user_may_not_read_is_named(
    user: int, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some containers deny it to root, too."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    nothing = ProcessIo(written={}, names={}, unseen=5)
    monkeypatch.setattr(module, "process_io", lambda: nothing)
    monkeypatch.setattr(cgroup, "group_of", lambda *_: None)
    found = HostWatch(os.getpid(), {"datadir": str(tmp_path)}).finish()
    assert found.bytes_per_s is None
    assert f"writes of 4 other processes: /proc/PID/io ({who})" in found.unseen
    assert any("bytes that the server writes" in one for one in found.unseen)
    assert any("no hierarchy is mounted" in one for one in found.unseen)


def test_a_limit_is_reached_by_the_use_of_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter((100, 1_000_000))
    group = cgroup.ControlGroup(version=1, top=tmp_path, path=tmp_path)
    monkeypatch.setattr(cgroup, "group_of", lambda *_: group)
    monkeypatch.setattr(
        cgroup,
        "io_limits",
        lambda *_: (cgroup.IoLimit(kind="wiops", per_s=120, used=next(used), folder=tmp_path),),
    )
    found = HostWatch(os.getpid(), {"datadir": str(tmp_path)}).finish()
    if found.places[0].disk is None:
        assert found.io_limits == ()
        return
    (limit,) = found.io_limits
    assert (limit.unit, limit.limit) == ("writes/s", 120) and limit.used > 120


def test_a_reached_limit_comes_before_the_commits_that_wait_for_it() -> None:
    limit = HeldLimit(disk="vda", unit="writes/s", limit=120, used=119.0)
    found = diagnose(evidence(write_time=COMMITS, host=host(io_limits=(limit,))))
    assert [one.name for one in found.findings][:2] == ["disk", "commit_sync"]
    assert found.answer.startswith("Writes are bound: the control group's limit on the disk is reached.")


@pytest.mark.parametrize(
    "seen",
    [
        host(io_limits=(HeldLimit(disk="vda", unit="writes/s", limit=120, used=60.0),)),
        host(disks=(disk(utilisation=1.0, queue=1.0),)),  # one request after the other: no queue
        host(disks=(disk(utilisation=0.5, queue=30.0),)),
        None,
    ],
)
def test_a_disk_with_room_is_no_finding(seen: object) -> None:
    assert disk_finding.find_disk(evidence(write_time=COMMITS, host=seen)) is None


def test_a_queue_is_a_part_of_the_time() -> None:
    found = disk_finding.find_disk(
        evidence(write_time=COMMITS, host=host(disks=(disk(utilisation=1.0, queue=5.0),)))
    )
    assert found is not None and found.share is not None
    assert [found.share.low, found.share.mid] == pytest.approx([0.0, 0.8])


@pytest.mark.parametrize(
    "change",
    [
        {"writers": (msgspec.structs.replace(NEIGHBOR, on_data=False),)},
        {"writers": ()},
        {"bytes_per_s": 1e9},
        {"disks": (disk(utilisation=0.1),)},
        {"disks": ()},
    ],
)
def test_a_neighbor_that_is_far_or_small_is_no_finding(change: dict[str, object]) -> None:
    near = {"disks": (disk(utilisation=0.9),), "writers": (NEIGHBOR,), "bytes_per_s": 1e6}
    assert machine.find_other_io(evidence(write_time=COMMITS, host=host(**near))) is not None
    assert machine.find_other_io(evidence(write_time=COMMITS, host=host(**(near | change)))) is None


def test_a_server_that_is_stopped_has_its_time_from_the_kernel() -> None:
    """Samples of connections are taken while it runs, and show the client's turns."""
    seen = evidence(
        write_time=time_of([client(1)], [writer(1)]),
        host=host(cpu_quota=0.8, cpu_throttled_share=0.5, cpu_stopped_share=0.3),
    )
    found = machine.find_cpu_quota(seen)
    assert found is not None and found.share is not None
    assert found.at_most is None
    assert found.share.unbounded.startswith("Mending may bring more than in proportion")
    assert [found.share.low, found.share.mid, found.share.high] == pytest.approx([0.3, 0.375, 0.45])
    rarely = host(cpu_quota=0.8, cpu_throttled_share=0.05, cpu_stopped_share=0.04)
    assert machine.find_cpu_quota(evidence(host=rarely)) is None


def test_the_bound_of_a_neighbor_has_the_statements_too() -> None:
    connections = time_of([writer(1, COMMITTING), writer(2)])
    small = OtherWriter(name="cron", pids=(9,), bytes_per_s=1e3, on_data=None)
    found = machine.find_other_io(
        evidence(
            write_time=connections,
            host=host(disks=(disk(utilisation=0.9),), writers=(NEIGHBOR, small), bytes_per_s=1e6),
        )
    )
    assert found is not None and found.share is not None
    assert found.share.mid == pytest.approx(0.375, abs=1e-3) and found.at_most is None
    assert "rsync (2 processes, most by 77) wrote 2.9 MiB/s; the server 977 KiB/s" in found.seen[0].text
    assert not any("cron" in one.text for one in found.seen)


def test_a_neighbor_is_told_as_it_was_seen_and_no_cause() -> None:
    found = diagnose(
        evidence(
            write_time=COMMITS,
            host=host(disks=(disk(utilisation=0.9),), writers=(NEIGHBOR,), bytes_per_s=1e6),
            variables={"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"},
        )
    )
    neighbor = next(one for one in found.findings if one.name == "other_io")
    assert neighbor.title == "rsync writes to the server's disk, which is busy 90% of the time"
    assert "flushlab cannot see whether writers wait for rsync." in neighbor.advice
    assert found.answer.startswith(f"Writes may be bound: {neighbor.title}.")


def test_the_machine_in_sight_joins_the_durability_model() -> None:
    def judged(*, launch: Launch | None = None, status: str = "ON", **storage: Any) -> str:
        on_disk: dict[str, Any] = {"filesystem": "ext4", "volatile_cache": False} | storage
        seen = evidence(
            {"innodb_redo_log_enabled": status},
            host=host(storage=Storage(**on_disk), launch=launch or Launch()),
        )
        return str(verdict_now(seen))

    assert judged().startswith("strict, as the disk has no volatile write cache")
    assert judged(volatile_cache=None).startswith("strict, if the disk")
    assert judged(in_memory=True).startswith("throwaway")
    assert judged(launch=Launch(preload="/usr/lib/libeatmydata.so.1")).startswith("throwaway")
    assert judged(status="OFF").startswith("throwaway")


def test_the_report_shows_the_machine_in_full_only() -> None:
    found = diagnose(
        evidence(
            write_time=COMMITS,
            host=host(
                bytes_per_s=1e6,
                cpu_quota=2.0,
                cpu_throttled_share=0.01,
                writers=(NEIGHBOR,),
                unseen=("preloaded libraries",),
            ),
        )
    )
    told = text_of(document(found), full=True)
    lines, told = told.splitlines(), " ".join(told.split())
    assert "data, redo log: /var/lib/mysql, ext4 on vda (INTEL SSDPE2), volatile cache" in told
    assert "mounted nobarrier" in " ".join(told.split())
    assert "400 flushes/s of 0.70 ms" in " ".join(told.split())
    assert "control group: 2.0 CPUs, throttled in 1% of the periods" in told
    assert "written by others, beside the data: rsync 2.9 MiB/s" in told
    assert "Not judged" in told and "preloaded libraries" in told
    assert all(len(line) <= 80 for line in lines if not re.search("SELECT|SHOW|SET GLOBAL|-- |# ", line))
    assert "INTEL" not in text_of(document(found))
    assert as_json(found).host == found.evidence.host


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with Debian's files."""
    for name, text in {
        "etc/mysql/my.cnf": "[mysqld]\nsync_binlog = 1\n!includedir /etc/mysql/conf.d/\n",
        "etc/mysql/conf.d/b.cnf": "[mysqld]\ninnodb_flush_log_at_trx_commit = 2\n",
        "etc/mysql/conf.d/a.cnf": "[mysqld]\ninnodb_flush_log_at_trx_commit = 1\n\nquery_cache_size = 1M\n",
        "etc/mysql/conf.d/c.txt": "[mysqld]\ninnodb_flush_log_at_trx_commit = 0\n",
        "srv/own.cnf": "[mysqld]\nsync_binlog = 7\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def started(root: Path, *words: str, named: Sequence[str] = ()) -> ServerStart:
    return read_start(("/usr/sbin/mysqld", *words), MYSQL97, named, root)


def test_the_last_included_file_wins(root: Path) -> None:
    found = started(root)
    assert found.files == ("/etc/mysql/my.cnf",)
    assert found.checked.settings["innodb_flush_log_at_trx_commit"] == 2
    assert found.checked.lines["innodb_flush_log_at_trx_commit"] == ("/etc/mysql/conf.d/b.cnf", 2)
    wrong = [one for one in found.checked.findings if one.name == "query_cache_size"]
    assert [one.place for one in wrong] == ["/etc/mysql/conf.d/a.cnf:4"]


@pytest.mark.parametrize(
    ("words", "files", "value"),
    [
        (["--defaults-file=/srv/own.cnf"], ("/srv/own.cnf",), 7),
        (["--defaults-extra-file=/srv/own.cnf"], ("/etc/mysql/my.cnf", "/srv/own.cnf"), 7),
        (["--no-defaults", "--sync-binlog=5"], (), None),
        (["--defaults-file=/srv/absent.cnf"], (), None),
    ],
)
def test_the_command_line_says_which(
    words: list[str], files: tuple[str, ...], value: int | None, root: Path
) -> None:
    found = started(root, *words, named=["/etc/mysql/my.cnf"])
    assert found.files == files
    assert found.checked.settings.get("sync_binlog") == value


def test_a_file_that_the_server_names_is_read(root: Path) -> None:
    found = started(root, named=["/etc/mysql/conf.d/a.cnf", "/srv/own.cnf", ""])
    assert found.files == ("/etc/mysql/my.cnf", "/srv/own.cnf")
    assert found.checked.settings["sync_binlog"] == 7


def test_options_follow_the_program_also_behind_a_loader(root: Path) -> None:
    words = (
        "/lib/ld.so",
        "--library-path",
        "/lib",
        "/usr/sbin/mysqld",
        "--sync-binlog=9",
        "--skip-log-bin",
        "--loose-innodb-doublewrite=0",
        "--innodb-flush-log-at-trx-commit",
        "2",
        "--defaults-group-suffix",
        "_two",
    )
    found = read_start(words, MYSQL97, (), root)
    assert found.arguments == {
        "sync_binlog": 9,
        "log_bin": "OFF",
        "innodb_doublewrite": "OFF",
        "innodb_flush_log_at_trx_commit": 2,
    }


def test_a_value_of_the_command_line_has_no_comment_and_no_quotes() -> None:
    words = ("/usr/sbin/mysqld", "--tmpdir=/tmp #1", "--init-connect", 'SET @a = "b"', "--skip-log-bin")
    lines = "".join(_lines(words)).splitlines()
    assert lines == [
        'tmpdir="/tmp #1"',
        'init-connect="SET @a = \\"b\\""',
        "skip-log-bin",
    ]


def test_a_suffix_chooses_groups(root: Path) -> None:
    (root / "etc/my.cnf").write_text("[mariadb]\nsync_binlog=1\n[mariadb.two]\nsync_binlog=2\n")
    (root / "etc/mysql/my.cnf").unlink()
    words = ("/usr/sbin/mariadbd", "--defaults-group-suffix=.two")
    assert read_start(words, MARIADB, (), root).checked.settings["sync_binlog"] == 2


def test_a_file_that_cannot_be_read_is_named(root: Path) -> None:
    (root / "etc/mysql/conf.d/b.cnf").unlink()
    (root / "etc/mysql/conf.d/b.cnf").mkdir()
    assert started(root).unread == ("/etc/mysql/conf.d/b.cnf",)


def test_a_file_that_anybody_may_write_to_was_not_read_by_the_server(root: Path) -> None:
    (root / "etc/mysql/my.cnf").unlink()
    (root / "etc/my.cnf").write_text("[mysqld]\nsync_binlog=7\n")
    assert read_start(("/usr/sbin/mysqld",), MYSQL97, (), root).checked.settings == {"sync_binlog": 7}
    (root / "etc/my.cnf").chmod(0o666)
    found = read_start(("/usr/sbin/mysqld",), MYSQL97, (), root)
    assert (found.checked.settings, found.unread) == ({}, ())
