"""Crash: what configurations lose when the server is killed, the system crashes or the power goes.

`crash` is what users call. Below it: `request` (what was asked for), `plan` (what all arms share), `campaign`
(the arms, and the control of `control`), `arm` (one of them), `load` (what it is under), `judging` (its
images), `replay` and `stored`; `cluster` for clusters, `check` for `tune --crash`.
"""
