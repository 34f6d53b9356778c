from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.build import apt, debian
from flushlab.build.debian import upstream_version
from flushlab.errors import ServerError
from flushlab.progress import silent

pytestmark = pytest.mark.usefixtures("private_home")

# What `apt-get download --print-uris` prints, with the mirror's name left out.
URIS = (
    "'mirror/liba/libaio/libaio1_0.3.113-4_amd64.deb' libaio1_0.3.113-4_amd64.deb 13360"
    " SHA256:d1476e4beab3d85f8a7d31de94c27472711ed3ef399ce70708e24b259426125b"
)


def command(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with scripts in place of apt's commands."""
    command(tmp_path, "apt-get", "exit 100")
    command(tmp_path, "apt-cache", "exit 100")
    command(tmp_path, "dpkg-deb", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("1:10.11.19-0+deb12u1", (10, 11, 19)),
        ("1:11.8.3-0+deb13u1", (11, 8, 3)),
        ("8.0.42-0ubuntu0.22.04.1", (8, 0, 42)),
    ],
)
def test_upstream_version_of_a_debian_version(version: str, numbers: tuple[int, ...]) -> None:
    assert upstream_version(version) == numbers


def test_version_that_apt_would_download_is_obtainable(scripts: Path) -> None:
    command(scripts, "apt-cache", "echo 'Package: mariadb-server-core'; echo 'Version: 1:10.11.19-0+deb12u1'")
    (one,) = debian.SOURCE.obtainable()
    assert (one.name, one.what) == ("mariadb@10.11.19", "package mariadb-server-core")


def test_nothing_is_obtainable_without_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(debian.SOURCE.obtainable()) == []


def test_package_whose_content_is_not_what_the_lists_say_is_refused(scripts: Path, tmp_path: Path) -> None:
    command(
        scripts,
        "apt-get",
        f"""case "$*" in *--print-uris*) cat <<'END'
{URIS}
END
;; *) echo tampered > libaio1_0.3.113-4_amd64.deb;; esac""",
    )
    with pytest.raises(
        ServerError, match=r"libaio1_0.3.113-4_amd64.deb has SHA-256 .*, but apt's lists say d1476e"
    ):
        apt.unpack(["libaio1"], tmp_path / "prefix", silent)


def test_failing_download_names_apts_reason(scripts: Path, tmp_path: Path) -> None:
    command(scripts, "apt-get", "echo 'W: noise' >&2; echo 'E: Could not resolve the mirror' >&2; exit 100")
    with pytest.raises(ServerError, match="E: Could not resolve the mirror") as caught:
        apt.unpack(["libaio1"], tmp_path / "prefix", silent)
    assert caught.value.hint is not None
    assert "--basedir" in caught.value.hint


def test_lists_and_caches_lie_in_flushlabs_home(scripts: Path, private_home: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command(
        scripts,
        "apt-get",
        f'echo "$@" >> {seen}; cat "$2" >> {seen}; mkdir -p {private_home}/apt/state/lists;'
        f" touch {private_home}/apt/state/lists/x_Packages",
    )
    apt.refresh_lists(silent)
    text = seen.read_text()
    assert f'Dir::State "{private_home}/apt/state";' in text
    assert f'Dir::Cache "{private_home}/apt/cache";' in text
    assert "#clear APT::Update::Post-Invoke;" in text
    assert text.splitlines()[0].endswith("update")
