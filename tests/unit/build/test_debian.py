from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from flushlab.build import apt, debian
from flushlab.build.apt import Package
from flushlab.build.debian import upstream_version
from flushlab.build.find import find_build
from flushlab.errors import ServerError
from flushlab.progress import silent

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


@pytest.mark.usefixtures("private_home")
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


@pytest.mark.usefixtures("private_home")
def test_version_that_apt_would_download_is_obtainable(scripts: Path) -> None:
    command(scripts, "apt-cache", "echo 'Package: mariadb-server-core'; echo 'Version: 1:10.11.19-0+deb12u1'")
    (one,) = debian.SOURCE.obtainable()
    assert (one.name, one.what) == ("mariadb@10.11.19", "package mariadb-server-core")


@pytest.mark.usefixtures("private_home")
def test_nothing_is_obtainable_without_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(debian.SOURCE.obtainable()) == []


@pytest.mark.usefixtures("private_home")
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


@pytest.mark.usefixtures("private_home")
def test_failing_download_names_apts_reason(scripts: Path, tmp_path: Path) -> None:
    command(scripts, "apt-get", "echo 'W: noise' >&2; echo 'E: Could not resolve the mirror' >&2; exit 100")
    with pytest.raises(ServerError, match="E: Could not resolve the mirror") as caught:
        apt.unpack(["libaio1"], tmp_path / "prefix", silent)
    assert caught.value.hint is not None
    assert "--basedir" in caught.value.hint


@pytest.mark.usefixtures("private_home")
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


MIRROR = "http://mirror.invalid/debian"
LISTS = "mirror.invalid_debian_dists_sid_main_binary-{architecture}_Packages"

# As `apt-get indextargets` prints them: address, suite, component, origin.
TARGETS = """\
https://packages.invalid/vendor bookworm main Vendor
http://mirror.invalid/debian-security/ bookworm-security main Debian
http://mirror.invalid/debian/ bookworm-updates main Debian
http://mirror.invalid/debian/ bookworm contrib Debian
http://mirror.invalid/debian/ bookworm main Debian
"""

# The fields that matter of sid's packages, with shortened dependencies; two providers of one library.
PACKAGES = """\
Package: mysql-server-core
Version: 9.7.4-2
Depends: libc6 (>= 2.38), libaio1t64 (>= 0.3.93) | libaio1, libicu78, perl:any
Conflicts: mariadb-server-core

Package: mysql-client-core
Version: 9.7.4-2
Depends: libc6 (>= 2.38), libedit2

Package: libc6
Version: 2.43-7
Depends: libgcc-s1
Recommends: libnss-nis

Package: libgcc-s1
Version: 16.2.0-4
Depends: libc6

Package: libaio1t64
Version: 0.3.113-10
Provides: libaio1 (= 0.3.113-10)

Package: libicu78
Version: 78.3-2
Pre-Depends: libstdc++6

Package: libstdc++6
Version: 16.2.0-4

Package: libedit2
Version: 3.1-20260512-1

Package: libnss-nis
Version: 3.2-5

Package: unrelated
Version: 1
"""


def packages(text: str, architecture: str) -> str:
    """Package lists with what every stanza has: files, sizes, hashes."""
    stanzas = []
    for number, stanza in enumerate(text.strip().split("\n\n")):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines())
        file = f"{fields['Package']}_{fields['Version']}_{architecture}.deb"
        stanzas.append(
            f"{stanza}\nArchitecture: {architecture}\nMaintainer: none\nDescription: none\n"
            f"Filename: pool/{file}\nSize: 10\nSHA256: {number:064x}\n"
        )
    return "\n".join(stanzas)


@pytest.fixture
def lists(tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of package lists that `apt-get update` takes for those of the mirror."""
    real = shutil.which("apt-get")
    if real is None or not apt.available():
        pytest.skip("this system has no apt")
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    architecture = apt.run(["dpkg", "--print-architecture"]).stdout.strip()
    file = tmp_path / "Packages"
    file.write_text(packages(PACKAGES, architecture))
    state = private_home / "apt" / "sid" / "state" / "lists"
    script = tmp_path / "bin" / "apt-get"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *update) cp {file} {state}/{LISTS.format(architecture=architecture)} ;;'
        f' *) exec {real} "$@" ;; esac\n'
    )
    script.chmod(0o755)
    empty = tmp_path / "apt.conf"
    empty.write_text('Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "/dev/null";\n')
    monkeypatch.setenv("APT_CONFIG", str(empty))  # this system's own lists take a second to parse
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setenv(debian.MIRROR, MIRROR)
    monkeypatch.setattr(debian, "KEYRING", keyring)
    return file


def names(files: list[Package]) -> set[str]:
    return {file.file.partition("_")[0] for file in files}


@pytest.mark.usefixtures("lists")
def test_packages_are_closed_over_what_they_depend_on_and_nothing_else() -> None:
    debian.refresh_lists("sid", silent)
    files = debian.resolve("sid", ["mysql-server-core", "mysql-client-core"])
    assert names(files) == {
        *("mysql-server-core", "mysql-client-core"),
        *("libc6", "libgcc-s1", "libaio1t64", "libicu78", "libstdc++6", "libedit2"),
    }


@pytest.mark.usefixtures("lists")
def test_hashes_are_those_of_the_lists() -> None:
    debian.refresh_lists("sid", silent)
    (libc,) = (file for file in debian.resolve("sid", ["mysql-server-core"]) if "libc6" in file.file)
    assert (libc.file.startswith("libc6_2.43-7_"), libc.sha256) == (True, f"{2:064x}")


def test_dependency_that_cannot_be_met_is_named(lists: Path) -> None:
    lists.write_text(lists.read_text().replace("libicu78, perl", "libicu99, perl"))
    debian.refresh_lists("sid", silent)
    with pytest.raises(ServerError, match=r"cannot resolve mysql-server-core in Debian sid.*libicu99"):
        debian.resolve("sid", ["mysql-server-core"])


@pytest.mark.usefixtures("lists")
def test_series_is_known_in_part_before_the_lists_are_fetched_and_whole_behind_that() -> None:
    def offered() -> list[tuple[str, str, str]]:
        return [
            (one.name, one.release, one.what) for one in debian.SOURCE.obtainable() if one.flavor == "mysql"
        ]

    what = "package mysql-server-core of Debian sid"
    assert offered() == [("mysql@9.7", "sid", what)]
    debian.refresh_lists("sid", silent)
    assert debian.candidate_version("sid", "mysql-server-core") == "9.7.4-2"
    assert offered() == [("mysql@9.7.4", "sid", what)]


def test_release_that_has_moved_on_says_to_what(lists: Path) -> None:
    lists.write_text(lists.read_text().replace("Version: 9.7.4-2", "Version: 10.7.1-1"))
    with pytest.raises(
        ServerError,
        match=r"Debian sid has moved on to mysql@10\.7 \(10\.7\.1-1\) and no longer has mysql@9\.7",
    ) as caught:
        find_build("mysql@9.7")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("use mysql@10.7, or a tarball")


def test_same_packages_make_the_same_prefix_and_others_another(
    lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    monkeypatch.setattr(debian, "publish", lambda key, _fill: keys.append(key))
    source = debian.SOURCE
    (wanted,) = (one for one in source.obtainable() if one.flavor == "mysql")
    for _ in range(2):
        source.get(wanted, silent)
    lists.write_text(lists.read_text().replace(f"{2:064x}", f"{99:064x}"))  # another libc6
    source.get(wanted, silent)
    assert keys[0] == keys[1] != keys[2]
    assert all(key.startswith("debian-sid-mysql-9.7.4-2-") for key in keys)


@pytest.mark.usefixtures("private_home")
def test_mirror_is_the_one_of_this_systems_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apt-get").write_text(f"#!/bin/sh\ncat <<'END'\n{TARGETS}END\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv(debian.MIRROR, raising=False)
    monkeypatch.setattr(debian, "os_release", lambda: {"ID": "debian", "VERSION_CODENAME": "bookworm"})
    assert debian.mirror() == "http://mirror.invalid/debian"
    script = (tmp_path / "apt-get").read_text()
    (tmp_path / "apt-get").write_text(re.sub(r" (Vendor|Debian)$", " $(ORIGIN)", script, flags=re.MULTILINE))
    monkeypatch.setattr(debian, "os_release", lambda: {"ID": "vendor", "VERSION_CODENAME": "horizon"})
    assert debian.mirror() is None
    monkeypatch.setenv(debian.MIRROR, "http://other.invalid/debian/")
    assert debian.mirror() == "http://other.invalid/debian"


def test_no_mirror_is_an_error_that_says_how_to_name_one(
    tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "mirror", lambda: None)
    with pytest.raises(ServerError, match="has no Debian mirror") as caught:
        debian.refresh_lists("sid", silent)
    assert caught.value.hint == "set FLUSHLAB_DEBIAN_MIRROR to the address of one"


@pytest.mark.usefixtures("strict_umask")
def test_programs_run_by_the_prefixs_own_linker_wherever_it_lies(tmp_path: Path) -> None:
    prefix = tmp_path / "made here"
    libraries = prefix / "usr" / "lib" / "some-linux-gnu"
    for folder in (libraries, prefix / "usr" / "bin", prefix / "usr" / "sbin", prefix / "usr" / "share"):
        folder.mkdir(parents=True)
    linker = libraries / "ld-linux-some.so.2"
    linker.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    linker.chmod(0o755)
    (libraries / "libc.so.6").touch()
    (prefix / "usr" / "bin" / "client").write_bytes(b"\x7fELF and so on")
    (prefix / "usr" / "bin" / "script").write_text("#!/bin/sh\necho plain\n")
    (prefix / "usr" / "bin" / "script").chmod(0o755)
    base = debian.make_launchers(prefix)
    assert {one.stat().st_mode & 0o005 for one in (base, base / "bin", base / "bin" / "client")} == {0o005}
    moved = prefix.rename(tmp_path / "used there")
    said = apt.run([str(moved / debian.LAUNCH / "bin" / "client"), "--help", "two words"]).stdout.splitlines()
    assert said == [
        "--inhibit-cache",
        "--library-path",
        str(moved / "usr" / "lib" / "some-linux-gnu"),
        str(moved / "usr" / "bin" / "client"),
        "--help",
        "two words",
    ]
    assert apt.run([str(moved / debian.LAUNCH / "bin" / "script")]).stdout == "plain\n"
