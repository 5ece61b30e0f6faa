"""A tenant's story: everything comes with the label of the namespace and goes with it; what runs goes on."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from harness.commands import CommandError
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from node.user import User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

EXAMPLE: Final = Path(__file__).parents[2] / "docs/examples/by-label.yaml"
TEMPLATES: Final = {"research-exclusive", "research-timeslicing", "research-mps", "research-large"}
IN_MODELS: Final = "--namespace=models"


@pytest.fixture
def user(gpu_cluster: GpuCluster) -> User:
    return User(gpu_cluster)


def example() -> dict[str, dict[str, Any]]:
    return {item["kind"]: item for item in yaml.safe_load_all(EXAMPLE.read_text())}


async def names(user: User, kind: str) -> set[str]:
    return {item["metadata"]["name"] for item in (await user.get(kind, IN_MODELS))["items"]}


async def has(user: User, *, quotas: set[str], templates: set[str]) -> None:
    async def check() -> None:
        assert await names(user, "resourcequotas") == quotas
        assert await names(user, "resourceclaimtemplates") == templates

    await eventually(check)


async def test_everything_comes_and_goes_with_the_label(user: User) -> None:
    objects = example()
    policy, namespace, server = objects["SharingPolicy"], objects["Namespace"], objects["Pod"]
    label = namespace["metadata"].pop("labels")
    await user.apply(policy, namespace)
    await user.wait("sharingpolicy/research", "--for=condition=Ready")
    for suffix in ("exclusive", "timeslicing", "mps"):
        await user.get("deviceclass", f"research-{suffix}")
    await has(user, quotas=set(), templates=set())

    labels = [f"{key}={value}" for key, value in label.items()]
    await user.cluster.kubectl("label", "namespace", "models", *labels)
    await has(user, quotas={"gpusharing-research"}, templates=TEMPLATES)

    await user.cluster.kubectl("wait", "--for=create", "serviceaccount/default", IN_MODELS)
    await user.apply(server)
    await user.wait("pod/server", IN_MODELS, "--for=condition=Ready")
    before = await user.get("pod", "server", IN_MODELS)
    claim = await the_claim(user)
    [result] = claim["status"]["allocation"]["devices"]["results"]
    assert result["pool"] == "node-1/research"
    assert {name: result["consumedCapacity"][name] for name in ("memory", "threads")} == {
        "memory": "32Gi",
        "threads": "50",
    }

    await user.cluster.kubectl("label", "namespace", "models", *(f"{key}-" for key in label))
    await has(user, quotas=set(), templates=set())
    await is_refused(user)
    # The agent goes over its claims when it starts.
    await user.cluster.agent.restart()
    after = await user.get("pod", "server", IN_MODELS)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["phase"] == "Running"
    [container] = after["status"]["containerStatuses"]
    assert (container["restartCount"], container["ready"]) == (0, True)
    assert (await the_claim(user))["status"]["allocation"] == claim["status"]["allocation"]
    shell = ("exec", "server", IN_MODELS, "--", "sh", "-c", "env")
    assert "GPUSHARING_GPU" in await user.cluster.kubectl(*shell)

    await user.delete("pod", "server", IN_MODELS)
    await user.delete("sharingpolicy", "research")
    await user.published("gpu-0", "gpu-1")
    await user.nothing_prepared()
    await user.delete("namespace", "models", "--wait=false")


async def the_claim(user: User) -> Any:
    [claim] = (await user.get("resourceclaims", IN_MODELS))["items"]
    return claim


async def is_refused(user: User) -> None:
    """Who is no tenant any more gets nothing new, whatever templates say."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "research-mps"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "another", "namespace": "models"},
        "spec": {"devices": {"requests": [request]}},
    }
    with pytest.raises(CommandError, match="is not one of its tenants"):
        await user.cluster.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(claim))
