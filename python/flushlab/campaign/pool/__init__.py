"""The pool of servers: where a campaign's trials run.

`campaign.target` turns the command's parts into a target, which opens a `ServerPool` (`protocol.py`):

    sandboxes.py   servers, or Galera clusters, that flushlab starts
    remote.py      the user's own running server, alone or a cluster; `remote_use.py` has what a run may do
                   to it and undoes, `own_load.py` observes the load that it has

Above this package, no code asks which of them it has.
"""
