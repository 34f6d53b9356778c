"""Server: the protocol that all servers keep to, the sandbox, and the cluster of sandboxes.

Names resolve when they are used: one module of this room, such as `identifier`, loads without the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flushlab.server.protocol import Applied as Applied
    from flushlab.server.protocol import Refusal as Refusal
    from flushlab.server.protocol import Server as Server
    from flushlab.server.sandbox.sandbox import Sandbox as Sandbox
    from flushlab.server.sandbox.spec import SandboxSpec as SandboxSpec

_MODULES = {
    "Applied": "flushlab.server.protocol",
    "Refusal": "flushlab.server.protocol",
    "Sandbox": "flushlab.server.sandbox.sandbox",
    "SandboxSpec": "flushlab.server.sandbox.spec",
    "Server": "flushlab.server.protocol",
}

__all__ = [*_MODULES]

if not TYPE_CHECKING:  # else every name would be one of the module's

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)
