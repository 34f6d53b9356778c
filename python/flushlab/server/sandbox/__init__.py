"""Sandbox: a private server in its own folder, from its option file to its end."""
