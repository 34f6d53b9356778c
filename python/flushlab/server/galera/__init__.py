"""Galera: several sandboxes joined into one cluster, on one machine."""
