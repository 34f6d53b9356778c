"""Fleet: blocks of a campaign on several machines at once, with Ray Core. Sits in `campaign`.

`dispatch.py` decides which machine runs which block; `runner.py` gives the loop its trials in order;
`worker.py` runs blocks on a machine; `ray_machines.py` reaches the machines, and alone imports Ray.
"""
