"""Crashed: one crash of a server, what it leaves, and whether that is what the server had promised.

Beside `trial`, above `workload`. A server has one node or several. Pure parts:

- `acks`: reads the acknowledged commits.
- `judge`: compares them with the recovered rows.
- `points`: chooses the moments at which a recorded run is cut.

Parts with servers:

- `live`: drives a server until it is killed.
- `killed`: repeats this; `recording` does it once, on disks that record their writes.
- `run`: the facts beside the records; `recorded` cuts a run at the chosen moments.
- `recovered_server`: queries a server on the disk's content after a crash; `nodes` queries a cluster's nodes.
- `binlog`: reads the binary log.
- `side_workload`: runs beside the load or without one.
"""
