"""Probe: what this disk allows: its own rates, and the ceiling of commits/s at each pair of sync settings.

Beside workload and telemetry: it starts no server. Files are written in a folder of its own, which goes at
the end, on Ctrl-C, and, after SIGKILL, with the next command that looks for leftovers.
"""
