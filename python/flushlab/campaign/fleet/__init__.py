"""Fleet: a campaign's blocks on several machines: which runs where, what runs there, the results in order.

Sits in `campaign`, above `campaign.pool`. `ray_machines.py`, `clients.py` and `ray_workers.py` import Ray;
they are imported only where a fleet is asked for.
"""
