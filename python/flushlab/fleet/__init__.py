"""Fleet: several machines, joined by Ray: start, join, status, stop; content that reaches a machine once.

Beside the campaign's runs, below the campaign. Ray places work, carries it, and detects failures.
Ray is imported only inside the functions that need it: flushlab runs without it.
"""

PORT = 9377
"""Of the first machine, if none is asked for; below 10002, from where on Ray numbers its workers."""
