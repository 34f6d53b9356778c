"""Diagnosis: what bounds the writes of a running server, how much a fix can gain at most, at what cost.

- `sampling` watches the server over a read-only session; `window` adds the answers up to `Evidence`.
- `waits` says what a connection waits for; `shares` says how large a part of the writers' time that is.
- `findings` has one file per finding; `diagnose` puts them in order. Pure, as `waits` and `shares` are.
- `doctor` is the function behind `flushlab doctor`.

docs/how-to/doctor.md is the page for people.
"""
