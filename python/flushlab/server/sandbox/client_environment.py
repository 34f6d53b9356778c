"""Client environment: the variables by which clients, libraries and frameworks find a server.

Sits in `server`; commands of workloads and suites, and `flushlab server env`, get the same.
"""

from __future__ import annotations

from collections.abc import Mapping


def client_environment(fields: Mapping[str, str]) -> dict[str, str]:
    """Variables for a server.

    `MYSQL_HOST`, `MYSQL_TCP_PORT`, `MYSQL_UNIX_PORT` and `MYSQL_PWD` are those that the servers' own clients
    read (MySQL 8.0 reference manual, 4.9), the other `MYSQL_…` those of container images and frameworks.

    Args:
        fields: `host`, `port`, `socket`, `user`, `password`, `database`, `url`; an empty one has no variable.
    """
    named = {
        "MYSQL_HOST": fields["host"],
        "MYSQL_PORT": fields["port"],
        "MYSQL_TCP_PORT": fields["port"],
        "MYSQL_UNIX_PORT": fields["socket"],
        "MYSQL_USER": fields["user"],
        "MYSQL_PASSWORD": fields["password"],
        "MYSQL_PWD": fields["password"],
        "MYSQL_DATABASE": fields["database"],
        "DATABASE_URL": fields["url"],
    }
    return {name: value for name, value in named.items() if value}
