"""Watch: the writes while they happen, on a page, in a terminal and for Prometheus.

Sits beside `report`.

- One sampler asks one server one question at a time (`questions`, `poller`).
- Once a second the latest answers become a frozen document (`sample`, `sampler`) in the ring of an hour
  (`ring`).
- Viewers and scrapers get the documents of the ring (`http`, `exporter`). However many there are, the server
  gets no more questions.

Nothing is enabled on the server. No document has SQL text or a password.
"""

from flushlab.watch.watch import Watch, watching
