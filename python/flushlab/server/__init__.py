"""Server: the protocol that all servers keep to, the sandbox, and the cluster of sandboxes."""

from flushlab.server.fake import FakeServer
from flushlab.server.protocol import Applied, Refusal, Server
from flushlab.server.sandbox.sandbox import Sandbox
from flushlab.server.sandbox.spec import DataDirectory, Instance, Startup

__all__ = [
    "Applied",
    "DataDirectory",
    "FakeServer",
    "Instance",
    "Refusal",
    "Sandbox",
    "Server",
    "Startup",
]
