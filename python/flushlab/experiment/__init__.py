"""Experiment: pure ask/tell planners; deterministic in their plan and the records told.

Import from the modules: `protocol`, `objective` and `frontier` are light; `blocks` and `tune` load numpy
and scipy, which `--help` must not wait for.
"""
