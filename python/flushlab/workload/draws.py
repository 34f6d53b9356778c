"""How a workload draws the rows that it touches: sysbench's distributions under sysbench's names. Pure."""

from __future__ import annotations

from flushlab.record import RandSpec
from flushlab.workload.engine_options import EngineOptions


class Draws(EngineOptions, frozen=True, kw_only=True):
    """The options of workloads that draw rows.

    Attributes:
        rand_type: the distribution.
        rand_spec_iter, rand_spec_pct, rand_spec_res: of `special`; the first also of `gaussian`.
        rand_pareto_h: of `pareto`.
        rand_zipfian_exp: of `zipfian`.
    """

    rand_type: str = "special"
    rand_spec_iter: int = 12
    rand_spec_pct: int = 1
    rand_spec_res: int = 75
    rand_pareto_h: float = 0.2
    rand_zipfian_exp: float = 0.8

    @property
    def rand(self) -> RandSpec:
        """The parameters as the engine takes them."""
        return RandSpec(
            spec_iter=self.rand_spec_iter,
            spec_pct=self.rand_spec_pct,
            spec_res=self.rand_spec_res,
            pareto_h=self.rand_pareto_h,
            zipfian_exp=self.rand_zipfian_exp,
        )
