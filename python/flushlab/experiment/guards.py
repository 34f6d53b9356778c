"""Guards: how much worse a faster arm may be in other respects.

Sits in `experiment`; pure, and light: requests name its values.
"""

from __future__ import annotations

import msgspec


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """Limits beyond which a faster arm may not win, judged over the confirmation blocks.

    Attributes:
        p99_ratio: 99th percentile of the latency against the base's, paired by block. Beyond the limit means
            that the estimate is above it and the worsening is proven (its interval lies above 1): one run's
            p99 scatters far more than its throughput. Whoever needs p99 held tighter, or compared at equal
            load, makes it the objective at a fixed rate; in a closed loop more throughput alone moves it.
        stall_share: how much larger the share of stalled seconds may be than the base's (0.05 = 3 s more in
            a minute). A stalled second has less than a tenth of its window's median throughput.
    """

    p99_ratio: float = 2.0
    stall_share: float = 0.05
