"""Watch: the writes while they happen, on a page, in a terminal and for Prometheus.

Sits beside `report`. One sampler asks one server one question at a time (`questions`, `poller`), once a
second what is known becomes a frozen document (`sample`, `sampler`) in the ring of an hour (`ring`), and
viewers and scrapers are handed what is there (`http`, `exporter`): however many they are, the server is asked
no more often. Nothing is enabled on the server. No SQL text and no password is in any of it.
"""

from flushlab.watch.watch import Watch, watching

__all__ = ["Watch", "watching"]
