"""Supplies: the builds, files and data that a campaign needs on each machine, and the request as it is there.

Sits in `campaign.fleet`, on the driver. A file that a machine has at the same path is used as it is. Other
files have other paths there, so the machine gets a request with these paths. What holds a password is not
sent: an option file, a file with a password or a private key in it, a command line with a password.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from flushlab.build import list_builds
from flushlab.build.build import Build
from flushlab.build.galera import galera_for
from flushlab.build.prefix import prefix_of
from flushlab.build.tarball import build_in
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.request import BenchRequest, CampaignRequest, ComparingRequest, SeriesRequest
from flushlab.dataset import open_dataset
from flushlab.dataset.directory import Directory
from flushlab.errors import UsageError
from flushlab.fleet.content import OPTION_FILES, ContentManifest, manifest_of, text_of
from flushlab.fleet.transfer import ABSOLUTE, Needed, TransferPlace
from flushlab.machine import ownership
from flushlab.redact import option_file_without_passwords, without_passwords
from flushlab.spec.kinds import BenchSpec, CrashSpec, TuneSpec
from flushlab.spec.parts import ServerSpec, ServersSpec, WorkloadSpec
from flushlab.workload.command import files_named
from flushlab.workload.parse import ON_DATA, build_workload
from flushlab.workload.sql import TxnWorkload

PASSWORD = "there is a password or a private key in it"
OPTION_FILE = "option files can hold passwords"
_COMMAND, _SQL, _TXN, _ = ON_DATA
_OF_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr")
"""Each machine has its own programs there."""


Asked = CampaignRequest | BenchRequest
R = TypeVar("R", bound=Asked)


def needed_by(request: Asked) -> Needed:
    manifests, outside = list[ContentManifest](), list[tuple[Build, str | None]]()
    for build in _builds(request):
        if (prefix := prefix_of(build.prefix)) is None:
            basedir = request.spec.server.basedir if build.id == request.build_id else None
            outside.append((build, basedir))
            continue
        manifests.append(_of_prefix(build.name, prefix))
        if request.spec.server.cluster:
            galera = prefix_of(galera_for(build).provider)
            if galera not in (None, prefix):
                manifests.append(_of_prefix("Galera", galera))
    if files := _files(request):
        manifests.append(files)
    if isinstance(request, ComparingRequest | BenchRequest) and request.spec.data.dataset is not None:
        data = open_dataset(request.spec.data.dataset)
        path = Path(data.path)
        leave_out = data.left_out() if isinstance(data, Directory) else ()
        manifests.append(manifest_of("data", path.name, path.parent, [path], leave_out=leave_out))
    return Needed(manifests=tuple(manifests), builds=tuple(outside))


def _builds(request: Asked) -> Iterator[Build]:
    arms = request.arms if isinstance(request, SeriesRequest) else ()
    wanted = dict.fromkeys((request.build_id, *(arm.build_id for arm in arms if arm.build_id)))
    known = {one.id: one for one in list_builds()}
    if request.spec.server.basedir is not None:
        build = build_in(Path(request.spec.server.basedir))
        known[build.id] = build
    for id_ in wanted:
        if id_ not in known:
            raise UsageError(f"the build {id_} is gone", hint="see `flushlab server list`")
        yield known[id_]


def _of_prefix(name: str, prefix: Path) -> ContentManifest:
    return manifest_of("build", name, prefix, [prefix], leave_out=[prefix / ownership.MARK])


# -- files of workloads


def _workloads(request: Asked) -> Iterator[WorkloadSpec]:
    if isinstance(request, SeriesRequest):
        yield from (arm.workload for arm in (request.base, *request.running))
    elif isinstance(request.spec, TuneSpec | CrashSpec | BenchSpec):
        yield request.spec.workload
        if isinstance(request.spec, CrashSpec) and request.spec.background:
            yield WorkloadSpec(name=request.spec.background)


def _files(request: Asked) -> ContentManifest | None:
    folder, found, fixed, folders = Path(request.folder), dict[Path, str](), set[Path](), set[Path]()
    for workload in _workloads(request):
        if workload.name.startswith(_COMMAND):
            shown = option_file_without_passwords(workload.name)
            if shown != workload.name:
                raise UsageError(
                    f"the command line of a workload has a password in it, which would travel: {shown}",
                    hint="let the command read it from a file that each machine has",
                )
            folders.add(folder)
        for path in _files_of(workload, folder):
            found.setdefault(path, path.name)
            folders.add(folder)  # which names may lead out of, and back
        if (setup := Path(_setup_of(workload, folder)).expanduser()).is_absolute():
            fixed.add(_absolute(folder, str(setup)))
    base = _option_file(request)
    if base is not None:
        found.setdefault(base, base.name)
    if not found and not folders:
        return None

    def stays(path: Path) -> str:
        if path in fixed:
            return ABSOLUTE
        if path == base or OPTION_FILES.search(path.name):
            return OPTION_FILE
        text = text_of(path)
        return PASSWORD if without_passwords(text) != text else ""

    name = ", ".join(found.values()) or f"the folder {folder}"
    return manifest_of("files", name, Path("/"), found, stays=stays, folders=folders)


def _option_file(request: Asked) -> Path | None:
    if not isinstance(request, BenchRequest) or request.spec.base.base is None:
        return None
    return Path(request.spec.base.base)


def _files_of(workload: WorkloadSpec, folder: Path) -> Iterator[Path]:
    if ssl_ca := str(workload.options.get("ssl_ca") or ""):
        yield _absolute(folder, ssl_ca)
    for kind in (_SQL, _TXN):
        if workload.name.startswith(kind):
            file = _absolute(folder, workload.name.removeprefix(kind).strip())
            yield file
            if setup := _setup_of(workload, folder):
                yield _absolute(file.parent, setup)
    if workload.name.startswith(_COMMAND):
        for _, path in files_named(workload.name.removeprefix(_COMMAND), folder):
            if not any(path.is_relative_to(one) for one in _OF_SYSTEM):
                yield path


def _setup_of(workload: WorkloadSpec, folder: Path) -> str:
    if not workload.name.startswith(_TXN):
        return ""
    built = build_workload(workload.name, workload.options, folder=folder)
    return built.setup_file if isinstance(built, TxnWorkload) else ""


def _absolute(folder: Path, word: str) -> Path:
    return Path(os.path.normpath(folder / Path(word).expanduser()))


# -- the request of a machine


def request_at(request: Asked, needed: Needed, places: Sequence[TransferPlace]) -> Asked:
    server: ServerSpec | ServersSpec = request.spec.server
    if server.basedir is None:  # by its id: the machine may have other binaries of the same version
        if isinstance(server, ServerSpec):
            server = msgspec.structs.replace(server, server=request.build_id)
        else:
            server = msgspec.structs.replace(server, servers=(request.build_id, *server.others))
    request = _with(request, server=server)
    for manifest, place in zip(needed.manifests, places, strict=True):
        if manifest.kind == "files" and place.root != manifest.root:
            request = _with_files(request, place.root)
        elif manifest.kind == "data" and isinstance(request, ComparingRequest | BenchRequest):
            dataset = str(Path(place.root) / manifest.entries[0].path)
            request = _with(request, data=msgspec.structs.replace(request.spec.data, dataset=dataset))
            if isinstance(request, ComparingRequest):
                request = msgspec.structs.replace(request, dataset_key=place.key)
    return request


def _with(request: R, **changes: object) -> R:
    return msgspec.structs.replace(request, spec=msgspec.structs.replace(request.spec, **changes))


def _with_files(request: Asked, root: str) -> Asked:
    """With the workloads' files below another root. Digests would tell only that; the files were compared."""
    folder = Path(request.folder)

    def moved(arm: BoundArm) -> BoundArm:
        if arm.outcome != "measured":
            return arm
        return msgspec.structs.replace(arm, workload=_moved(arm.workload, folder, root), workload_digest="")

    base = _option_file(request)
    request = msgspec.structs.replace(request, folder=_below(root, folder))
    if isinstance(request, SeriesRequest):
        arms = tuple(map(moved, request.arms))
        return msgspec.structs.replace(request, base=moved(request.base), arms=arms)
    spec = request.spec
    assert isinstance(spec, TuneSpec | CrashSpec | BenchSpec), "other requests have arms"
    request = _with(request, workload=_moved(spec.workload, folder, root))
    if isinstance(spec, CrashSpec) and spec.background:
        moved_one = _moved(WorkloadSpec(name=spec.background), folder, root)
        request = _with(request, background=moved_one.name)
    if isinstance(request, BenchRequest):
        if base is None:
            return request
        return _with(request, base=msgspec.structs.replace(request.spec.base, base=_below(root, base)))
    return msgspec.structs.replace(request, workload_digest="")


def _moved(workload: WorkloadSpec, folder: Path, root: str) -> WorkloadSpec:
    options = dict(workload.options)
    if ssl_ca := str(options.get("ssl_ca") or ""):
        options["ssl_ca"] = _file_moved(ssl_ca, root)
    name = workload.name
    for kind in (_SQL, _TXN):
        if name.startswith(kind):
            name = f"{kind}{_file_moved(name.removeprefix(kind).strip(), root)}"
    if name.startswith(_COMMAND):
        for path in dict.fromkeys(_files_of(workload, folder)):
            whole = re.compile(rf"(?<![\w./-]){re.escape(str(path))}(?![\w./-])")
            there = _below(root, path)  # the path may stand in quotes
            name = (there if shlex.quote(root) == root else shlex.quote(there)).join(whole.split(name))
    return msgspec.structs.replace(workload, name=name, options=options)


def _file_moved(file: str, root: str) -> str:
    path = Path(os.path.normpath(Path(file).expanduser()))
    return _below(root, path) if path.is_absolute() else file


def _below(root: str, path: Path) -> str:
    return f"{root.rstrip('/')}{path}"
