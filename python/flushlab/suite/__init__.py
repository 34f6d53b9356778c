"""Suite: `flushlab test`: a test suite on a fast sandbox.

Parts:

- `request`: the checked request.
- `profile`: the settings.
- `inputs`, `prepare`, `templates`: prepared data directories, kept as snapshots and, compressed, for a CI
  cache.
- `root`: memory or disk.
- `servers`: sandboxes that can be reset and moved to disk.
- `environment`: variables of the command.
- `command`: the child and its signals.
- `monitor`: memory, and schema changes of the suite.
- `endpoint`: resets between tests.
- `session`: a run from start to end.
- `comparison`: with a stock server.
- `named`: servers by their names.
- `database`: for Python.
"""
