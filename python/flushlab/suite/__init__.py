"""Suite: `flushlab test`: a test suite on a fast sandbox.

- `request`: the checked request; variables of the command.
- `profile`: the settings; memory or disk.
- `prepare`, `templates`: prepared data directories, kept as snapshots and, compressed, for a CI cache.
- `servers`: sandboxes that can be reset and moved to disk; `pool`: those that tests take.
- `command`: the child and its signals.
- `endpoint`: resets between tests, and what is watched meanwhile.
- `session`: a run from start to end; `comparison`: with a stock server.
- `database`: for Python, and servers by their names.
"""
