"""Workload: anything that makes the server write and yields one result.

- `tables`: sysbench's OLTP and `upsert`, loads of the native engine.
- `sql`: a script, and the user's own transactions (`txn:FILE`); the engine runs both.
- `data`: a load of the engine, made from the user's data.
- `command`: any program.
- `protocol`: what they have in common; the load that a running server has, which is observed, not driven.

`parse` makes a workload from a name and options; `options` has the options of those that the engine drives.
"""
