"""Suite: `flushlab test`: a test suite on a fast throwaway server.

Its parts: `profile` (the settings), `inputs`, `prepare` and `templates` (prepared data directories, kept as
snapshots), `archive` (their compressed form for a CI cache), `root` (memory or disk), `servers` (which can
be reset and moved), `environment` (how the command finds them), `command` (the child and its signals),
`watch` and `habits` (what happens while it runs), `endpoint` (resets between tests), `session` (the story).
"""
