"""Generate: plans of rows, from a file, built in or from a schema, and rows written to files.

`read_plan` finds and checks a plan; `flushlab._core` writes its rows; loading them is `flushlab.bulk`.
"""
