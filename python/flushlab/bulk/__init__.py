"""Bulk: rows of a plan into a server, as fast as it takes them: `flushlab fill`.

Sits above `workload` and `telemetry`. `fill` checks the request and opens a server (`destinations`).
`loading` runs one load, with these parts:

- `preflight`: examines the server first.
- `tables`: creates the tables, or checks those that exist.
- `choice`: finds the fastest method on slices of rows.
- `native`: drives the loader.
- `notes`: let a killed load continue without a duplicate or a hole.
- `verify`: compares loaded rows with generated ones.
- `bound`: names the limit.
- `method_comparison`: measures the methods, from one row per statement to the fastest settings.
"""
