"""Change: what an arm's workload has otherwise than the base's, as a plan has it: options, and its `name`.

Sits in `spec`; pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.record import Value
from flushlab.spec.parts import WorkloadSpec

NAME = "name"
"""Key of a workload's name among its options, as plans have it; no option is called so."""
SAME_WORKLOAD = WorkloadSpec(name="")
"""A change of nothing."""


def difference(workload: WorkloadSpec, base: WorkloadSpec) -> dict[str, Value]:
    """What a workload has otherwise than the base, as a plan's arm has it: options, and its `name` if that
    is another."""
    named: dict[str, Value] = {} if workload.name == base.name else {NAME: workload.name}
    return named | {
        name: value for name, value in workload.options.items() if base.options.get(name) != value
    }


def as_change(difference: Mapping[str, Value]) -> WorkloadSpec:
    """The change that a difference is."""
    options = {name: value for name, value in difference.items() if name != NAME}
    return WorkloadSpec(name=str(difference.get(NAME, "")), options=options)


def as_told(difference: Mapping[str, Value]) -> dict[str, Value]:
    """A difference for people, to whom `name` would not tell whose."""
    return {"workload" if name == NAME else name: value for name, value in difference.items()}
