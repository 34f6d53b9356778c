"""Refusals: the way out where a server, or a stranger in its place, lets nobody in. Pure.

Sits in `server`, beside `control`. Numbers: "Server Error Message Reference" and "Client Error Message
Reference" of the MySQL manual; MariaDB has the same ones, but for 4150 and 4151
(sql/share/errmsg-utf8.txt).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pymysql.constants import CR

OTHER_PROTOCOL = CR.CR_VERSION_ERROR
PASSWORD_EXPIRED = 1820
"""ER_MUST_CHANGE_PASSWORD: the login succeeds, and no statement but a change of the password."""
NOT_IN_THE_CLEAR = CR.CR_AUTH_PLUGIN_ERR
"""As MySQL's clients refuse to send a password in the clear."""
ACCESS_DENIED = {1044, 1045, 1130, 1698}
"""ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR, ER_HOST_NOT_PRIVILEGED,
ER_ACCESS_DENIED_NO_PASSWORD_ERROR."""

_LOGIN = (
    "check user and password, from which hosts the account may log in, and whether it or the server requires"
    " TLS (ssl-mode)"
)
_TLS = "set ssl-mode in the group [flushlab] of the option file, or in the DSN, to the server's demand"
_PLUGIN = (
    "use an account with mysql_native_password, caching_sha2_password or, on MariaDB, ed25519;"
    " MySQL may name another plugin if there is no such account"
)
_EXPIRED = "log in with the server's own client and change the password: ALTER USER USER() IDENTIFIED BY '…'"
_UNLOCK = "unlock the account: ALTER USER … ACCOUNT UNLOCK"
_STRANGER = "is it the address and port of a MySQL or MariaDB server?"
_FINAL: Mapping[int, str] = {
    1044: _LOGIN,
    1045: _LOGIN,
    1129: "find the client on this host that fails to connect, then unblock the host on the server: FLUSH"
    " HOSTS, or from MySQL 8.4 on TRUNCATE TABLE performance_schema.host_cache",
    1130: "use an account that may log in from this host, or the server's socket",
    1184: "correct init_connect on the server, or use an account for which it is not run (SUPER; MySQL:"
    " CONNECTION_ADMIN)",
    1251: _PLUGIN,
    1524: "load the account's plugin on the server, or give the account another one",
    1698: _LOGIN,
    PASSWORD_EXPIRED: _EXPIRED,
    1862: _EXPIRED,
    CR.CR_SSL_CONNECTION_ERROR: _TLS,
    OTHER_PROTOCOL: _STRANGER,
    CR.CR_AUTH_PLUGIN_CANNOT_LOAD: _PLUGIN,
    NOT_IN_THE_CLEAR: "use ssl-mode=required",
    3118: _UNLOCK,
    3159: "set ssl-mode=required in the group [flushlab] of the option file, or in the DSN",
    3955: f"correct the password, then wait until the lock ends or {_UNLOCK}",
    4150: "correct the password, then let the server forget the failed logins: FLUSH PRIVILEGES",
    4151: _UNLOCK,
}
"""Errors that another try meets again, or makes worse: servers lock accounts and hosts after failed
logins."""
_PASSING: Mapping[int, str] = {
    1040: "close connections or raise max_connections; one more is kept for accounts with SUPER (from MySQL"
    " 8.0 on CONNECTION_ADMIN, from MariaDB 10.5 on CONNECTION ADMIN)",
    1203: "close connections of this account, or raise max_user_connections",
    1226: "raise the limit of this account: ALTER USER … WITH …",
    3032: "end the server's offline_mode, or use an account with SUPER (MySQL: CONNECTION_ADMIN)",
}
_ANSWERS = "does it answer other clients? Watch it from its own machine, by its socket"
_WORDS: Mapping[str, str] = {
    r"\[ssl|certificate": _TLS,
    "greeting": "does it answer other clients, and is it the port of a MySQL or MariaDB server? One that"
    " stalls sends no greeting, nor do web servers and PostgreSQL",
    "its version": _STRANGER,
    "refused": "does a server listen at this address and port?",
    "name or service|name resolution|no address": "check the name of the host",
    "no such file": "check the path of the socket; it exists only while its server runs",
    "permission denied": "let this user enter the folder of the socket, or connect by TCP",
    r"can't connect.*timed out|unreachable|no route": "check the address and the firewalls",
    "timed out": _ANSWERS,
}


def way_out(errno: int, text: str) -> str:
    """The way out of a connection that failed."""
    if known := _FINAL.get(errno) or _PASSING.get(errno):
        return known
    return next(
        (hint for words, hint in _WORDS.items() if re.search(words, text, re.IGNORECASE)),
        "is it running, and does it answer other clients?",
    )


def is_final(errno: int, text: str) -> bool:
    """Whether another try, with nothing changed, is refused again."""
    return errno in _FINAL or way_out(errno, text) == _TLS
