"""The pool of servers: where a campaign's trials run.

`target.target_of` turns the command's parts into a `Target`, which opens a `ServerPool` (`protocol.py`):

    sandboxes.py   servers that flushlab starts, one for each arm
    clusters.py    Galera clusters that flushlab starts
    remote.py      the user's own running server, alone or a cluster

Above this package, no code asks which of them it has.
"""
