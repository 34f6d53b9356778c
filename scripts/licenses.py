"""Checks the licenses of the Python packages that an installed flushlab brings along; needs no network.

    .venv/bin/python scripts/licenses.py

Reads the metadata of the installed packages: the dependencies of flushlab, and theirs. Prints each package
whose license is not in `ALLOWED`; the exit code is 1 if there is one.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata

from packaging.requirements import Requirement

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "HPND",
    "ISC",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "PSF-2.0",
    "Python-2.0",
    "Zlib",
}
EXTRAS = frozenset({"fleet"})
"""Of flushlab, for users."""
EXCEPTIONS = {
    "MPL-2.0": "certifi, which Ray's requests brings: a list of authorities, unchanged",
    "GPL-3.0-or-later WITH GCC-exception-3.1": "libgfortran inside scipy's and numpy's wheels",
    "LGPL-2.1-or-later": "libquadmath inside scipy's wheels",
}
"""Licenses of libraries inside wheels, with the place: linking against them is allowed to everybody."""
_CLASSIFIED = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
_WRITTEN = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "MIT License": "MIT",
}


def main() -> None:
    """Prints what is not allowed."""
    found = {name: license_of(name) for name in sorted(closure("flushlab", EXTRAS))}
    refused = {name: said for name, said in found.items() if not allowed(said)}
    for name, said in refused.items():
        sys.stdout.write(f"{name}: license {said!r} is not in scripts/licenses.py\n")
    sys.stdout.write(f"licenses of {len(found)} Python packages: {len(refused)} not allowed\n")
    sys.exit(1 if refused else 0)


def closure(root: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Names of the packages that a package needs at run time, with its extras."""
    names: set[str] = set()
    left: list[tuple[str, frozenset[str]]] = [(root, extras)]
    while left:
        name, extras = left.pop()
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            wanted = ("", *extras)
            if needed.marker and not any(needed.marker.evaluate({"extra": one}) for one in wanted):
                continue
            if needed.name not in names or needed.extras:
                names.add(needed.name)
                left.append((needed.name, frozenset(needed.extras)))
    return names


def license_of(name: str) -> str:
    """The SPDX expression of a package: its own, or what its classifiers or its field say."""
    said = metadata.metadata(name).json
    if expression := said.get("license_expression"):
        return str(expression)
    classified = [line.rpartition(" :: ")[2] for line in said.get("classifier", ()) if "License ::" in line]
    if known := [_CLASSIFIED[one] for one in classified if one in _CLASSIFIED]:
        return " OR ".join(known)
    written = str(said.get("license", "")).strip()
    return _WRITTEN.get(written, written[:60])


def allowed(expression: str) -> bool:
    """Whether an SPDX expression can be met with the allowed licenses."""
    for text in EXCEPTIONS:
        expression = expression.replace(text, "MIT")
    choices = re.split(r"\s+OR\s+", expression.replace("(", " ").replace(")", " ").strip())
    return any(all(one.strip() in ALLOWED for one in re.split(r"\s+AND\s+", choice)) for choice in choices)


if __name__ == "__main__":
    main()
