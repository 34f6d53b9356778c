"""Fleet: blocks of a campaign on several machines at once, with Ray Core. Sits in `campaign`.

`dispatch.py` decides which machine runs which block; `runner.py` gives the loop its trials in order;
`worker.py` runs blocks on a machine; `clients.py` has machines that load a server elsewhere.
`ray_machines.py` and `ray_clients.py` reach the machines by `ray_workers.py` and `ray_post.py`; these four
alone import Ray.
"""
