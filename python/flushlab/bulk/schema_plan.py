"""A plan from a schema: where the schema is, and what its plan is; behind `flushlab fill --from-schema`.

Sits in `campaign`. The plan itself is made by `flushlab.generate.schema`; the server is only asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flushlab.errors import UsageError
from flushlab.generate.schema import Query, plan_of
from flushlab.server import Sandbox
from flushlab.server.remote.server import RemoteServer, from_dsn, from_option_file

_KEPT = "sandbox:"


def plan_from_schema(
    schema: str,
    *,
    server: str | None = None,
    dsn: str | None = None,
    defaults_file: Path | str | None = None,
) -> str:
    """The TOML of a plan for the tables of a database.

    Args:
        schema: a DSN that names the database; or the database's name, and one of the others says where it is.
        server: a kept sandbox (`sandbox:NAME`).
        dsn: a server.
        defaults_file: a server, by an option file.

    Raises:
        UsageError: no server or no database is named, or the database has no tables.
        ServerError: the server cannot be reached, or refuses.
    """
    named = [one for one in (server, dsn, defaults_file) if one]
    if "://" in schema:
        if named:
            raise UsageError("--from-schema names a server, and so does another flag", hint="name one")
        address = from_dsn(schema)
        if not address.database:
            raise UsageError("--from-schema names no database", hint="write it behind the server: …/DATABASE")
        with _asked(None, schema, None) as query:
            return plan_of(query, address.database)
    if len(named) != 1:
        hint = "name a DSN, or the database's name with --dsn, --defaults-file or --server sandbox:NAME"
        raise UsageError(f"--from-schema {schema} does not say which server has it", hint=hint)
    with _asked(server, dsn, defaults_file) as query:
        return plan_of(query, schema)


@contextmanager
def _asked(server: str | None, dsn: str | None, defaults_file: Path | str | None) -> Iterator[Query]:
    if server is not None:
        if not server.startswith(_KEPT):
            what = f"{server} has no schema yet: it is a build"
            raise UsageError(what, hint="name a kept sandbox (sandbox:NAME), or use --dsn")
        with Sandbox.attach(server.removeprefix(_KEPT)) as kept:
            yield kept.query
        return
    address = from_dsn(dsn) if dsn else from_option_file(Path(str(defaults_file)))
    with RemoteServer(address) as attached:
        yield attached.query
