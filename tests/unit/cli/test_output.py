"""What becomes of a result when a file, or stdout itself, cannot be written."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from flushlab.campaign.request import TuneRequest
from flushlab.cli import output
from flushlab.cli.main import main
from flushlab.errors import NotWritable
from flushlab.record import Launch, Trial
from flushlab.report.document import Code, Document, Section
from flushlab.settings.floor import Floor
from flushlab.spec.kinds import TuneSpec
from flushlab.store import Store
from flushlab.workload.protocol import Timing
from tests.unit.probes import probe_record
from tests.unit.records import trial
from tests.unit.report import campaigns as made
from tests.waiting import PATIENCE_S

FLUSHLAB = f"{sys.executable} -m flushlab"


def shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80", **env},
    )


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A device that is always full."""
    if os.getuid():
        return Path("/dev/full")
    device = tmp_path / "full"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    return device


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Trial:
    """`flushlab bench --server sandbox:x` measures this at once."""
    found = trial(result=12_345.0)
    monkeypatch.setattr("flushlab.campaign.bench.bench", lambda **_: found)
    return found


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """The exit code of a command in this process."""
    monkeypatch.setattr(sys, "argv", ["flushlab", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


@pytest.mark.parametrize(
    "words", ["settings sync_binlog", "settings sync_binlog --json -", "settings", "server list"]
)
def test_a_full_disk_behind_stdout_is_an_error_with_a_hint(words: str) -> None:
    done = shell(f"{FLUSHLAB} {words} >/dev/full")
    assert done.returncode == 5
    assert "error: standard output cannot be written: No space left on device" in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_the_help_is_an_error_that_names_standard_output(unbuffered: str) -> None:
    done = shell(f"{FLUSHLAB} --help >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 5
    assert "error: standard output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("words", ["settings", "settings --json -", "server list"])
def test_a_closed_pipe_ends_quietly_whatever_is_printed(words: str, private_home: Path) -> None:
    done = shell(f"{FLUSHLAB} {words} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) in ((141, ""), (0, ""))  # 0: all fitted into the pipe in time


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_disturb_nothing(closed: str, tmp_path: Path) -> None:
    done = shell(f"{FLUSHLAB} settings sync_binlog --json {tmp_path}/x.json {closed}")
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads((tmp_path / "x.json").read_text())["settings"][0]["name"] == "sync_binlog"


def test_a_full_disk_behind_stderr_changes_no_exit_code() -> None:
    assert shell(f"{FLUSHLAB} settings no_such_setting 2>/dev/full").returncode == 2


def test_the_figure_is_printed_though_a_file_cannot_be_written(
    measured: Trial, full: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "bench", "--server", "sandbox:x", "--json", str(full)) == 5
    said = capsys.readouterr()
    assert "12,345" in said.out
    assert f"error: {full} cannot be written: No space left on device" in said.err.replace("\n", " ")
    assert "hint:" in said.err


def test_a_document_that_cannot_be_written_goes_to_stdout(
    measured: Trial, full: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "bench", "--server", "sandbox:x", "--json", str(full))
    said = capsys.readouterr().out
    assert json.loads(said[said.index("\n{") :])["result"] == 12_345.0


@pytest.fixture
def ends_at_once(monkeypatch: pytest.MonkeyPatch, private_home: Path) -> None:
    """`flushlab tune --resume tune-1` and `series --resume series-1` have measured all that there is."""
    request = TuneRequest(
        build="mariadb@10.11.19",
        build_id="mariadb-x",
        machine=made.MACHINE,
        spec=TuneSpec(),
        base=made.BASE,
        original=made.BASE,
        candidates=(),
        lowest=Floor.SECOND,
        timing=Timing(),
    )
    tuned, serial = made.tune_facts(campaign_id="tune-1"), made.series_facts(campaign_id="series-1")
    with Store(private_home / "store.sqlite") as store:
        for facts, (row, trials) in ((tuned, made.tuned()), (serial, made.serial())):
            plan = msgspec.json.encode(request) if facts is tuned else row.plan
            store.create_campaign(facts.campaign_id, row.kind, plan)
            for one in trials:
                store.save(facts.campaign_id, msgspec.structs.replace(one, launch=Launch()))
            store.set_state(facts.campaign_id, "done", msgspec.json.encode(facts))
    monkeypatch.setattr("flushlab.campaign.tune.tune", lambda **_: tuned)
    monkeypatch.setattr("flushlab.campaign.series.series", lambda **_: serial)


@pytest.mark.parametrize("kind", ["tune", "series"])
def test_a_campaign_whose_files_cannot_be_written_is_printed_and_says_where_it_is_kept(
    kind: str,
    ends_at_once: None,
    full: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    words = ["--resume", f"{kind}-1", "--out", str(out), "--json", str(full)]
    assert run(monkeypatch, kind, *words) == 5
    said = capsys.readouterr()
    assert "×" in said.out
    assert f"hint: nothing is lost: flushlab report {kind}-1" in said.err
    assert {f"{kind}.json", "report.html"} <= {path.name for path in out.iterdir()}
    assert run(monkeypatch, "report", f"{kind}-1", "--json", "-", "--html", str(tmp_path / "x.html")) == 0
    assert json.loads(capsys.readouterr().out) == {
        **json.loads((out / f"{kind}.json").read_text()),
        "files": list(made.tune_facts().files) if kind == "tune" else [],
    }


def test_a_probe_is_printed_before_it_is_stored(
    full: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("flushlab.probe.run.probe", lambda *_: probe_record())
    monkeypatch.setattr("flushlab.store.open_store", lambda: Store(private_home / "nowhere" / "store.sqlite"))
    assert run(monkeypatch, "probe", "--data-root", str(private_home), "--json", str(full)) == 5
    said = capsys.readouterr()
    assert "commits/s" in said.out
    assert said.err.count("error:") == 2 and said.err.count("hint:") == 2


def test_a_device_or_a_pipe_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    output.emit_json({"schema": "flushlab.test/1", "result": 1}, str(pipe))
    reader.join(PATIENCE_S)
    assert json.loads(heard[0]) == {"schema": "flushlab.test/1", "result": 1}
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    done = shell(f"{FLUSHLAB} settings sync_binlog --json /dev/stdout | cat; ls -l /dev/stdout")
    assert '"sync_binlog"' in done.stdout
    assert done.stdout.splitlines()[-1].startswith("l")
    done = shell(f"{FLUSHLAB} settings sync_binlog --json >(cat 1>&2) >{tmp_path}/x; sleep 0.1")
    assert '"sync_binlog"' in done.stderr


def test_a_command_that_is_wider_than_the_terminal_is_printed_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = "mysql --defaults-file=/etc/mysql/of-the-nightly-import.cnf < " + "x" * 80
    section = Section("todo", "What to do", code=(Code(command, "Time the import:", "always"),))
    output.print_document(Document("tune", "Done.", todo=(section,)))
    assert f"   {command}\n" in capsys.readouterr().out


def test_a_symbolic_link_is_not_written_through(tmp_path: Path) -> None:
    other, link = tmp_path / "other", tmp_path / "link"
    other.write_text("mine")
    link.symlink_to(other)
    with pytest.raises(NotWritable, match="symbolic link"):
        output.require_writable(str(link))
    with pytest.raises(NotWritable, match="symbolic link"):
        output.write_file(link, b"new")
    assert other.read_text() == "mine" and link.is_symlink()


def test_a_file_that_is_written_again_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    target.touch(mode=0o600)
    output.emit_json({"schema": "flushlab.test/1"}, str(target))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (OSError(28, "No space left on device", "/srv/x"), 5, "error: /srv/x: No space left on device"),
        (PermissionError(13, "Permission denied", "/srv/x"), 5, "error: /srv/x: Permission denied"),
        (ZeroDivisionError("division by zero"), 6, "ZeroDivisionError: division by zero"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_goes_wrong_is_an_error_with_a_hint_and_no_traceback(
    raised: BaseException,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(**_: object) -> None:
        raise raised

    monkeypatch.setattr("flushlab.campaign.bench.bench", fails)
    assert run(monkeypatch, "bench", "--server", "sandbox:x") == code
    said = capsys.readouterr().err
    assert told in said.replace("\n", " ")
    assert ("hint:" in said) == bool(told)
    assert "Traceback" not in said
    monkeypatch.setenv("FLUSHLAB_DEBUG", "1")
    assert run(monkeypatch, "bench", "--server", "sandbox:x") == code
    assert ("Traceback" in capsys.readouterr().err) == bool(told)


def test_a_home_of_nobody_is_a_mistake_of_the_users(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "bench", "--dataset", "~no-such-user/shop.sql") == 2
    assert "error: a path begins with ~ and the name of no user" in capsys.readouterr().err


def test_a_path_that_is_too_long_is_a_mistake_of_the_users(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "series", "x" * 300, "--dry-run") == 2
    assert "longer than the file system allows" in capsys.readouterr().err


def test_a_thread_that_fails_is_an_error_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise ZeroDivisionError("division by zero")

    def starts_it(**_: object) -> Trial:
        thread = threading.Thread(target=fails, name="counter")
        thread.start()
        thread.join()
        return trial()

    monkeypatch.setattr("flushlab.campaign.bench.bench", starts_it)
    assert run(monkeypatch, "bench", "--server", "sandbox:x") == 0
    said = capsys.readouterr().err
    assert "ZeroDivisionError: division by zero" in said and "Traceback" not in said


@pytest.mark.parametrize("when", ["import click", "import msgspec", "atexit"])
def test_ctrl_c_shows_no_traceback_however_early_or_late_it_comes(when: str, tmp_path: Path) -> None:
    """SIGINT while the module is imported, or when the command is done."""
    stop = f"import os, signal; os.kill(os.getpid(), {int(signal.SIGINT)})"
    if when == "atexit":
        program = f"import atexit; atexit.register(lambda: exec({stop!r}))\n"
    else:
        name = when.removeprefix("import ")
        program = (
            "import importlib.abc, sys\n"
            "class Finder(importlib.abc.MetaPathFinder):\n"
            "    def find_spec(self, name, path, target=None):\n"
            f"        if name == {name!r}:\n"
            f"            exec({stop!r})\n"
            "sys.meta_path.insert(0, Finder())\n"
        )
    program += "import sys\nfrom flushlab.cli.main import main\n"
    program += "sys.argv = ['flushlab', 'settings', 'sync_binlog']\nmain()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in (130, -signal.SIGINT)
