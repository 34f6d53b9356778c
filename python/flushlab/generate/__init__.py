"""Generate: plans of rows, from a file, built in or from a schema.

`read_plan` finds and checks a plan; `flushlab._core` makes its rows; loading them is `flushlab.bulk`.
"""
