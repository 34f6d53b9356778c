"""The database that the environment names."""

from __future__ import annotations

import os

from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url


def engine(url: str | None = None) -> Engine:
    """Connections to `url`, or to DATABASE_URL, by PyMySQL."""
    address = make_url(url or os.environ["DATABASE_URL"])
    url = address.set(drivername="mysql+pymysql", query={"charset": "utf8mb4"})
    return create_engine(url, pool_pre_ping=True)
