"""Crashed: one crash of a server, what it leaves, and whether that is what the server had promised.

Beside `trial`, above `workload`. A server has one node or several. `acks` reads what was acknowledged,
`judge` compares it with what is there, `points` chooses where a recorded run is cut: all three pure. `live`
drives a server until it is killed; `killed` does so over and over, `recording` once, on
disks that record; what then stands beside the records is a `run`, and `recorded` cuts it. `recovered_server`
asks a server on what is left, `nodes` those of a cluster, `binlog` reads its binary log. A `side_workload`
runs beside the load or without one; `ddl_workload` is one of DDL.
"""
