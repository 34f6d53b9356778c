"""Lists the nodes of a Ray cluster as JSON: `python -m flushlab.fleet.nodes_main ADDRESS`.

Fleet layer. A child process, because Ray ends a process that asks an address where no Ray is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import msgspec

from flushlab.fleet.connect import FleetNode


def listed(address: str) -> dict[str, Any]:
    """`{"nodes": [...]}`, or `{"refused": true}` for a wrong token."""
    from ray import exceptions

    raylet: Any = import_module("ray._raylet")
    try:
        found = raylet.GcsClient(address=address).get_all_node_info(timeout=10)
    except exceptions.AuthenticationError:
        return {"refused": True}
    nodes = [
        FleetNode(
            id=node.node_id.hex(),
            name=node.node_name,
            address=node.node_manager_address,
            is_head=bool(node.is_head_node),
            flushlab=node.labels.get("flushlab", ""),
            ray=node.labels.get("flushlab-ray", ""),
            python=node.labels.get("flushlab-python", ""),
        )
        for node in found.values()
        if node.state == 0
    ]
    return {"nodes": nodes}


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(listed(sys.argv[1])))
