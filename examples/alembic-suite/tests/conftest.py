"""Fixtures: the throwaway database, a connection that is rolled back, and one for tests that commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine

from flushlab.pytest_plugin import Database
from library.database import engine


@pytest.fixture(scope="session")
def connections(flushlab_database: Database) -> Iterator[Engine]:
    """A pool of connections."""
    pool = engine(flushlab_database.url)
    yield pool
    pool.dispose()


@pytest.fixture
def db(connections: Engine) -> Iterator[Connection]:
    """A connection whose work is rolled back after the test."""
    with connections.connect() as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def committing(flushlab_clean: Database, connections: Engine) -> Engine:
    """For a test that commits: before and afterwards the database is as the migrations left it."""
    return connections
