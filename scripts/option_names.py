"""Makes option_names.txt and option_shapes.txt of flushlab.settings by asking builds with `--verbose --help`.

    .venv/bin/python scripts/option_names.py mysql@9.7 …    # adds or replaces these releases in minutes

A release that is listed already and not named stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flushlab.build import find_build
from flushlab.build.option_shapes import ask_limited, ask_shapes
from flushlab.build.verbose_help import ask_ignored, verbose_help
from flushlab.settings import option_shapes
from flushlab.settings.option_names import Release, load_option_names, read_help, render

FOLDER = Path(__file__).parents[1] / "python" / "flushlab" / "settings"


def main(builds: list[str]) -> None:
    """Adds or replaces the releases of these builds."""
    known = load_option_names()
    taken = {release: known.of(release) for release in known.releases}
    ignored = {release: known.ignored_by(release) for release in known.releases}
    limited = {release: known.limited_by(release) for release in known.releases}
    shapes = dict(option_shapes.load_option_shapes().shapes)
    for wanted in builds:
        build = find_build(wanted)
        series = (build.flavor, build.version[:2])
        for older in [one for one in taken if (one.flavor, one.version[:2]) == series]:
            del taken[older], ignored[older]
            shapes.pop(older, None)
        release = Release(build.flavor, build.version)
        taken[release] = read_help(verbose_help(build).text).names
        ignored[release] = ask_ignored(build, known.names() - taken[release])
        limited[release] = ask_limited(build, taken[release])
        shapes[release] = ask_shapes(build)
    (FOLDER / "option_names.txt").write_text(render(taken, ignored, limited), encoding="utf-8")
    (FOLDER / "option_shapes.txt").write_text(option_shapes.render(shapes), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
