"""flushlab: finds how fast a MySQL or MariaDB server can write for a workload, at the durability it needs."""

from flushlab.version import __version__

__all__ = ["__version__"]
