"""Kept: the environment of `flushlab test` for a server that was started by `flushlab server start`.

Suite layer.
"""

from __future__ import annotations

from flushlab.server import Sandbox
from flushlab.suite.environment import check_database, create_database, fields_of, variables


def environment(name: str, database: str) -> dict[str, str]:
    """The variables by which a suite finds the server, its password among them.

    Args:
        name: of a kept sandbox.
        database: made if it is missing.

    Raises:
        UsageError: there is no such sandbox, or the database cannot have that name.
        ServerError: it does not run.
    """
    check_database(database)
    with Sandbox.attach(name) as sandbox:
        sandbox.query(create_database(database, ""))
        fields = fields_of(sandbox.build, sandbox.endpoint, database)
    return variables([fields], ()) | {"FLUSHLAB_NAME": name, "FLUSHLAB_NAME_1": name}
