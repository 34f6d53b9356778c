"""numpy and scipy with one thread: the machine is measured while statistics are computed.

OpenBLAS, which both call, otherwise keeps a thread for each processor. The threads wait in loops, and take
processor time from the servers. OpenBLAS reads OPENBLAS_NUM_THREADS when it is loaded; programs that flushlab
starts do not see the value. Where numpy was loaded before, or the variable is set, nothing changes.
"""

import os

_THREADS = "OPENBLAS_NUM_THREADS"

_is_free = _THREADS not in os.environ
if _is_free:
    os.environ[_THREADS] = "1"
try:
    import numpy as np
    import scipy.special  # noqa: F401 (it has an OpenBLAS of its own)
finally:
    if _is_free:
        del os.environ[_THREADS]

__all__ = ["np"]
