"""The cluster files of clouds, with the schema and the checks of Ray's own launcher."""

from __future__ import annotations

from copy import deepcopy
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs the extra: pip install 'flushlab[fleet]'")

FILES = Path(__file__).parents[3] / "examples" / "fleet"
CLOUDS = ("aws", "gcp")


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = import_module("yaml").safe_load((FILES / f"{name}.yaml").read_text())
    return found


def checked(cluster: dict[str, Any]) -> dict[str, Any]:
    """As `ray up` does before it asks the cloud."""
    launcher: Any = import_module("ray.autoscaler._private.util")
    prepared: dict[str, Any] = launcher.prepare_config(deepcopy(cluster))
    launcher.validate_config(prepared)
    return prepared


@pytest.mark.parametrize("cloud", CLOUDS)
def test_rays_launcher_takes_the_file(cloud: str) -> None:
    machines = checked(read(cloud))["available_node_types"]
    assert machines["worker"]["min_workers"] == machines["worker"]["max_workers"], "none is idle for Ray"
    wanted = read(cloud)["available_node_types"]["head"]["node_config"]
    assert wanted.items() <= machines["worker"]["node_config"].items()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_word_that_the_launcher_does_not_know_would_be_found(cloud: str) -> None:
    with pytest.raises(import_module("jsonschema").ValidationError, match="setup_command"):
        checked({**read(cloud), "setup_command": ["true"]})


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_machine_wants_a_token_and_leaves_workers_alone(cloud: str) -> None:
    commands = " ".join(read(cloud)["setup_commands"])
    assert "RAY_AUTH_MODE=token" in commands
    assert "RAY_memory_monitor_refresh_ms=0 RAY_process_group_cleanup_enabled=0" in commands
    assert "-c ~/flushlab/constraints.txt" in commands, "one version of Ray"


def test_pods_are_of_the_ray_that_is_installed_and_want_a_token() -> None:
    cluster = read("kuberay")["spec"]
    assert cluster["rayVersion"] == metadata.version("ray")
    assert cluster["authOptions"] == {"mode": "token"}
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    assert head["template"] == workers["template"], "machines are alike"
    assert workers["minReplicas"] == workers["replicas"] == workers["maxReplicas"]
    (container,) = head["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["image"].endswith(f":{metadata.version('ray')}")
