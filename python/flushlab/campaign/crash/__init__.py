"""Crash: what configurations lose when the server is killed, the system crashes or the power goes.

`crash` is what users call. A campaign of crashes runs in the loop of `campaign`: `experiment` asks for
crashes, the positive control's included, `runner` makes them, `facts` summarises the rows. Beside
them: `request` (what was asked for), `plan` (what all configurations share), `load` (what servers are under),
`kept_recordings` (found again), `replay` (one crash again), and `check` for `tune --crash`.
"""
