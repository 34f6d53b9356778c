"""Trial: one run of a workload on one server under one arm, from snapshot to record."""
