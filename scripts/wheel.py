"""Builds the source distribution and the wheels into a folder, and checks them: `make wheel`.

    . scripts/cargo.sh && .venv/bin/python scripts/wheel.py [--out dist] [--arch x86_64 --arch aarch64]

The wheels are built from the unpacked source distribution, so a file that it lacks fails the build. Zig links
against glibc 2.17 (manylinux2014) and cross-compiles. Maturin and auditwheel check the symbols against the
policy, abi3audit the stable ABI of Python 3.11. The programs are those of scripts/release_tools.txt.

The folder receives the files after all checks. They replace files of an earlier build, which are known by the
checksums in target/wheels.sha256. Any other wheel or source distribution of flushlab there refuses the build.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "target" / "tools" / "bin"
ARCHITECTURES = ("x86_64", "aarch64")
MADE = ROOT / "target" / "wheels.sha256"
"""A line per file that a build of this clone handed out: its checksum."""
POLICY = "manylinux2014"
LARGEST_BYTES = 12_000_000
NAME = re.compile(r"flushlab-[^-]+-cp311-abi3-manylinux2014_(?P<arch>\w+)\.manylinux_2_17_(?P=arch)\.whl")
_NOT_FOR_USERS = re.compile(r"^flushlab/.*(\.pyc|\.orig|\.rej|~)$|(^|/)(tests|benchmarks|\.git)/")


class Unfit(Exception):
    """A file that must not be handed out or replaced; the text says why."""


def main() -> None:
    """Builds and checks."""
    parser = argparse.ArgumentParser(description="Build the wheels and the source distribution.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="default: all")
    given = parser.parse_args()
    out: Path = given.out.resolve()
    MADE.parent.mkdir(exist_ok=True)
    try:
        earlier(out)
        with tempfile.TemporaryDirectory(prefix="wheels-", dir=MADE.parent) as folder:
            built = Path(folder)
            source = unpacked(build_sdist(built))
            for arch in given.arch or ARCHITECTURES:
                install_target(arch)
                wheel = build_wheel(source, arch, built)
                check_contents(wheel)
                check_symbols(wheel)
                size = f"{wheel.stat().st_size / 1e6:.1f} MB"
                sys.stdout.write(f"{wheel.name}: {size}, {POLICY}, abi3\n")
            hand_out(built, out)
    except Unfit as unfit:
        sys.exit(f"error: {unfit}")


def earlier(out: Path) -> list[Path]:
    """The wheels and source distributions in a folder, all of them made by earlier builds.

    Raises:
        Unfit: a file there is not proven to be of an earlier build.
    """
    if not out.exists():
        return []
    if not out.is_dir():
        raise Unfit(f"{out} is not a folder\nhint: name another by --out")
    made = set(MADE.read_text().split()) if MADE.exists() else set()
    found = sorted([*out.glob("flushlab-*.whl"), *out.glob("flushlab-*.tar.gz")])
    for file in found:
        if file.is_symlink() or not file.is_file() or checksum(file) not in made:
            raise Unfit(
                f"{file} is not a file that an earlier build in {ROOT} made\n"
                "hint: move it away, or name another folder by --out"
            )
    return found


def hand_out(built: Path, out: Path) -> None:
    """Moves all files of a folder to another one, in place of those of earlier builds."""
    files = sorted(built.iterdir())
    with MADE.open("a") as lines:
        lines.writelines(f"{checksum(file)}\n" for file in files)
    for old in earlier(out):
        old.unlink()
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.move(file, out / file.name)


def checksum(file: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def build_sdist(out: Path) -> Path:
    """The source distribution: the files that git tracks."""
    run(TOOLS / "maturin", "sdist", "--out", out, cwd=ROOT)
    (sdist,) = out.glob("flushlab-*.tar.gz")
    return sdist


def unpacked(sdist: Path) -> Path:
    """The folder of a source distribution; the same folder each time, so that cargo can reuse its work."""
    folder = ROOT / "target" / "sdist"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return source.rename(folder / "flushlab")


def install_target(arch: str) -> None:
    """Rust's standard library for an architecture; rustup installs it if it is absent."""
    target = f"{arch}-unknown-linux-gnu"
    library = Path(captured("rustc", "--print", "sysroot").strip()) / "lib" / "rustlib" / target / "lib"
    if library.is_dir():
        return
    if shutil.which("rustup") is None:
        raise Unfit(
            f"rustc has no standard library for {target}\nhint: build with a Rust of rustup, or leave out"
            f" --arch {arch}"
        )
    run("rustup", "target", "add", target)


def build_wheel(source: Path, arch: str, out: Path) -> Path:
    """The wheel of an architecture."""
    target = f"{arch}-unknown-linux-gnu"
    run(
        *(TOOLS / "maturin", "build", "--release", "--locked", "--zig", "--compatibility", POLICY),
        *("--target", target, "--target-dir", ROOT / "target" / "wheel", "--out", out),
        cwd=source,
    )
    (wheel,) = out.glob(f"flushlab-*_{arch}.whl")
    return wheel


def check_contents(wheel: Path) -> None:
    """The tags, the size and the files of a wheel."""
    if not NAME.fullmatch(wheel.name):
        raise Unfit(f"{wheel.name} has other tags than cp311-abi3 and {POLICY}")
    if wheel.stat().st_size > LARGEST_BYTES:
        raise Unfit(f"{wheel.name} has {wheel.stat().st_size} bytes, more than {LARGEST_BYTES}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    roots = {name.partition("/")[0] for name in names}
    if strangers := {root for root in roots if root != "flushlab" and not root.endswith(".dist-info")}:
        raise Unfit(f"{wheel.name} installs {sorted(strangers)} beside flushlab")
    if libraries := [name for name in names if ".so" in name and name != "flushlab/_core.abi3.so"]:
        raise Unfit(f"{wheel.name} has other libraries than flushlab/_core.abi3.so: {libraries}")
    if rubbish := [name for name in names if _NOT_FOR_USERS.search(name)]:
        raise Unfit(f"{wheel.name} has files that are not for users: {rubbish}")
    if absent := tracked() - set(names):
        raise Unfit(f"{wheel.name} lacks files of the package: {sorted(absent)}")


def check_symbols(wheel: Path) -> None:
    """The policy and the stable ABI, as auditwheel and abi3audit judge them."""
    judged = " ".join(captured(TOOLS / "auditwheel", "show", wheel).split())
    if not re.search(r'consistent with the following platform tag: "manylinux_2_(5|12|17)_', judged):
        raise Unfit(f"auditwheel finds that {wheel.name} does not satisfy {POLICY}: {judged}")
    run(TOOLS / "abi3audit", "--strict", "--assume-minimum-abi3", "3.11", wheel)


def tracked() -> set[str]:
    """The files of the package in git, as a wheel names them."""
    listed = captured("git", "-C", ROOT, "ls-files", "python/flushlab").splitlines()
    return {name.removeprefix("python/") for name in listed}


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Runs a command; its output is shown."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment())
    if done.returncode:
        raise Unfit(f"{Path(command[0]).name} ended with code {done.returncode}")


def captured(*command: str | Path) -> str:
    """The output of a command."""
    done = subprocess.run([str(word) for word in command], env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise Unfit(f"{Path(command[0]).name} ended with code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def environment() -> dict[str, str]:
    """This environment, the tools first on PATH: maturin looks for Zig there."""
    return {**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"}


if __name__ == "__main__":
    main()
