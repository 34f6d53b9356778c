"""Command line: one command, one file; `main` mounts them."""
