"""Crashed: one crash of a server, what it leaves, and whether that is what the server had promised.

Beside `trial`, above `workload`. `ledger` reads what was acknowledged, `judge` compares it with what is
there, `points` chooses where a recorded run is cut: all three pure. `recovered_server` asks a server on what
is left, `binlog` reads its binary log, `live` drives a server until it is killed; `killed` does so over and
over, `recorded` once, on a disk that records. `recovery` crashes once more while a server recovers. A
`side_workload` runs beside the ledger's load or without one; `ddl_workload` is one of DDL, whose tables
`side_tables` knows.
"""
