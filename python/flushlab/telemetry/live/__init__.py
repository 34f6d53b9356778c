"""Live: a running server, only read: the questions, the session that asks them, what the answers say."""
