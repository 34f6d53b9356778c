"""Files of somebody else in a folder that every user may write to: no check and no start changes them."""

from __future__ import annotations

from pathlib import Path

from flushlab.build import Build
from flushlab.build.inspect import verbose_help
from flushlab.settings.option_names import load_option_names, read_help

_FILES = {
    **{f"bin.00000{number}": b"\xfebin" + bytes(200) for number in (1, 2)},
    "bin.index": b"",
    "relay.000001": b"\xfebin" + bytes(200),
    "relay.index": b"./relay.000001\n",
    "relay-log.info": b"7\n./relay.000001\n4\n",
    "master.info": b"25\n\n4\n",
    "slow.log": b"# Time: 2020-01-01\n",
    "general.log": b"Id Command Argument\n",
    "error.log": b"[Note] ready for connections\n",
    "keyring": b"Keyring file version:2.0" + bytes(32),
    "ibdata1": bytes(1 << 16),
    "ib_logfile0": bytes(1 << 16),
    "undo001": bytes(1 << 12),
    "ib_buffer_pool": b"0,1\n",
    "aria_log_control": bytes(52),
    "tc.log": bytes(4096),
    "mysqld.pid": b"1\n",
    "mysqld.sock": b"",
    "init.sql": b"CREATE DATABASE planted;\n",
    "mysql/user.frm": b"\xfe\x01",
}


class Planted:
    """The files below a folder, and what was done to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, content in _FILES.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        (folder / "bin.index").write_text(f"{folder}/bin.000001\n{folder}/bin.000002\n")
        for one in (folder, *folder.rglob("*")):
            one.chmod(0o777 if one.is_dir() else 0o666)
        self._before = self._now()

    def lines(self, build: Build, prefix: str = "") -> list[str]:
        """Each option of a build, by its own help and by the lists, with one of the files as its value."""
        listed = load_option_names()
        names = {one for one in listed.names() if listed.knows(one, build.flavor, build.version)}
        names |= read_help(verbose_help(build).text).names
        files = ["bin", "relay", *_FILES]
        spelled = (one.replace("_", "-") if place % 2 else one for place, one in enumerate(sorted(names)))
        return [
            f"{prefix}{name} = {self.folder}/{files[place % len(files)]}"
            for place, name in enumerate(spelled)
        ]

    def changes(self) -> list[str]:
        """Names of files that are gone, new or different."""
        now = self._now()
        return sorted(
            one for one in now.keys() | self._before.keys() if now.get(one) != self._before.get(one)
        )

    def _now(self) -> dict[str, tuple[bytes, int]]:
        found = (one for one in self.folder.rglob("*"))
        return {
            str(one.relative_to(self.folder)): (
                one.read_bytes() if one.is_file() else b"",
                one.stat().st_mtime_ns,
            )
            for one in found
        }
