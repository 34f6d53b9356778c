"""Suite: `flushlab test`: a test suite on a fast throwaway server.

Its parts: `request` (checked), `profile` (the settings), `inputs`, `prepare` and `templates` (prepared data
directories, kept as snapshots and, compressed, for a CI cache), `root` (memory or disk),
`servers` (which can be reset and moved), `environment` (how the command finds them), `command` (the child and
its signals), `monitor` (memory and the suite's habits), `endpoint` (resets between tests), `session` (the
story), `comparison` (with a stock server), `named` (servers by their names), `database` (for Python).
"""
