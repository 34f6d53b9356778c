"""Crashed: one crash of a server, what it leaves, and whether that is what the server had promised.

Beside `trial`, above `workload`. A server has one node or several.

- `judge`: compares acknowledged commits with the recovered rows; pure, as `measured`, which counts outcomes.
- `recording`: drives a server until it is killed; records that on disks that record.
- `killed`: kills again and again; `recorded` cuts a recorded run at chosen moments.
- `recovered_server`: asks a server, or a cluster's nodes, on the disk's content after a crash.
- `replica`: real replicas of what crashes.
"""
