"""Plan: what a series asks for, read from TOML with line and column for every mistake. Pure.

Public names stand in the modules: `plan`, `parse`, `shipped`.
"""
