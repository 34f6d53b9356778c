"""Settings: the catalog, option files, durability guarantees and candidates. Pure.

Public names stand in the modules: `catalog`, `optionfile`, `durability`, `floor`, `candidate`, `candidates`,
`redo`.
"""
