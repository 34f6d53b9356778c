"""`data`: a load made from the user's data, which stands in for the application's.

`plan` makes it on a server that has the data, `columns` knows the types, `workload` drives it as transactions
of the engine.
"""

from flushlab.workload.data.workload import NAME, DataWorkload
