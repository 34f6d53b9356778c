"""flushlab: how fast MySQL and MariaDB can write for a workload, at the durability that its user needs.

What the commands do, from Python; docs/reference/python.md is the guide:

    import flushlab

    facts = flushlab.tune(server="mariadb", floor="strict", minutes=30, progress=print)

Arguments have the names of the command line's flags. Nothing is printed: `progress` takes a line at a time.
What stops a function is a `FlushlabError` with a `message` and perhaps a `hint`. A function's libraries load
with its first use, not with this module.
"""

from importlib import import_module

from flushlab.version import __version__

TYPE_CHECKING = False  # typing takes longer to import than all else here
if TYPE_CHECKING:
    from flushlab.bulk.fill import fill as fill
    from flushlab.campaign.bench import bench as bench
    from flushlab.campaign.bench import bench_on_fleet as bench_on_fleet
    from flushlab.campaign.compare import compare as compare
    from flushlab.campaign.crash.crash import crash as crash
    from flushlab.campaign.series import series as series
    from flushlab.campaign.tune import tune as tune
    from flushlab.diagnosis.doctor import doctor as doctor
    from flushlab.errors import FlushlabError as FlushlabError
    from flushlab.server.start import sandbox as sandbox
    from flushlab.store.store import records as records
    from flushlab.suite.database import database as database
    from flushlab.watch.watch import watching as watching

_MODULES = {
    "FlushlabError": "flushlab.errors",
    "bench": "flushlab.campaign.bench",
    "bench_on_fleet": "flushlab.campaign.bench",
    "compare": "flushlab.campaign.compare",
    "crash": "flushlab.campaign.crash.crash",
    "database": "flushlab.suite.database",
    "doctor": "flushlab.diagnosis.doctor",
    "fill": "flushlab.bulk.fill",
    "records": "flushlab.store.store",
    "sandbox": "flushlab.server.start",
    "series": "flushlab.campaign.series",
    "tune": "flushlab.campaign.tune",
    "watching": "flushlab.watch.watch",
}

__all__ = ["__version__", *_MODULES]

if not TYPE_CHECKING:  # else every name would be one of the module's

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
