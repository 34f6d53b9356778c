"""`txn:FILE`: the user's own transactions, in TOML or in SQL.

`file` reads it, `parameters` and `statements` its parts, `workload` runs it. Every mistake is found, with
line and column, before anything starts.
"""

from flushlab.workload.txn.file import TxnFile, parse_txn
from flushlab.workload.txn.workload import OPTIONS, PREFIX, TxnWorkload

__all__ = ["OPTIONS", "PREFIX", "TxnFile", "TxnWorkload", "parse_txn"]
