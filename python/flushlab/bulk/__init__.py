"""Bulk: rows of a plan into a server, as fast as it takes them; what `flushlab fill` does.

Sits above `workload` and `telemetry`. `native` drives the loader; `loading` is the story of one load;
`choice` finds the fastest way on a slice; `notes` make a load that was killed go on without a duplicate or a
hole; `verify` reads back; `before` looks at the server first; `bound` says what the limit was; `ladder`
climbs from one row a statement to all of it.
"""
