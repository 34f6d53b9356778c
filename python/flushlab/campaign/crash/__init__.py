"""Crash: what configurations lose when the server is killed, the system crashes or the power goes.

`crash` is what users call. A campaign of crashes runs in the loop of `campaign`. `experiment` asks for
them, the positive control's included, and summarises them. `runner` makes them. `plan` has what all
configurations share, and the load. `check` is for `tune --crash`.
"""
