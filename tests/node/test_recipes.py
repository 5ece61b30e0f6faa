"""The claims of docs/recipes on one node: each pod gets what its template says. And what k9s shows then."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from contrib.k9s import names, paths, views
from harness.gpu_cluster import GpuCluster
from harness.workloads import SHELL
from node.user import User
from recipes.pages import EXAMPLE, NAMESPACE, PAGES, pod_specs

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

IN_MODELS: Final = f"--namespace={NAMESPACE}"
MODES: Final = {
    "research-timeslicing": "TimeSlicing",
    "research-mps": "MPS",
    "research-large": "MPS",
    "research-exclusive": "Exclusive",
}


def pods() -> Iterator[dict[str, Any]]:
    """The tools' pods, with an image that is there."""
    for page in PAGES:
        for number, spec in enumerate(pod_specs(page)):
            containers = [
                {
                    "name": one["name"],
                    "image": SHELL,
                    "command": ["sleep", "1000000"],
                    "resources": {"claims": one["resources"]["claims"]},
                }
                for one in spec["containers"]
            ]
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{page}-{number}", "namespace": NAMESPACE, "labels": {"app": "recipes"}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "resourceClaims": spec["resourceClaims"],
                    "containers": containers,
                },
            }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    """The pods run."""
    # One exclusive, one time-sliced, and two with MPS: three servers have a third of a GPU and more.
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:4") as cluster:
        user = User(cluster)
        objects = {one["kind"]: one for one in yaml.safe_load_all(EXAMPLE.read_text())}
        await user.apply(objects["SharingPolicy"], objects["Namespace"])
        await user.wait("sharingpolicy/research", "--for=condition=Ready")
        for name in MODES:
            await cluster.kubectl("wait", "--for=create", f"resourceclaimtemplate/{name}", IN_MODELS)
        await cluster.kubectl("wait", "--for=create", "serviceaccount/default", IN_MODELS)
        await user.apply(*pods())
        await user.wait("pods", "--selector=app=recipes", IN_MODELS, "--for=condition=Ready")
        yield user


async def test_each_pod_has_what_its_template_says(user: User) -> None:
    async def environment(pod: dict[str, Any]) -> str:
        return await user.cluster.kubectl("exec", pod["metadata"]["name"], IN_MODELS, "--", "env")

    made = list(pods())
    assert len(made) >= len(PAGES)
    assert {one["resourceClaimTemplateName"] for pod in made for one in pod["spec"]["resourceClaims"]} == MODES.keys()
    for pod, found in zip(made, await asyncio.gather(*map(environment, made)), strict=True):
        (claim,) = pod["spec"]["resourceClaims"]
        assert f"_SHARING={MODES[claim['resourceClaimTemplateName']]}\n" in found, pod["metadata"]["name"]
    claims = (await user.get("resourceclaims", IN_MODELS))["items"]
    results = [claim["status"]["allocation"]["devices"]["results"][0] for claim in claims]
    consumed = sorted(one["consumedCapacity"]["memory"] for one in results if one["device"].endswith("-mps"))
    assert consumed == ["32Gi", "32Gi", "32Gi", "8Gi"]
    assert len({(one["pool"], one["device"]) for one in results}) == 4


@pytest.mark.parametrize("resource", views())
async def test_columns_of_k9s_show_something(user: User, resource: str) -> None:
    """k9s reads expressions as kubectl does, and other columns from the API server's table."""
    columns = views()[resource]
    kind = resource.rpartition("/")[2]
    custom = paths(columns)
    heading, *rows = (await user.cluster.kubectl("get", kind, "-A", "--output=wide")).splitlines()
    assert set(names(columns)) - custom.keys() <= {*heading.split(), "NAMESPACE"}
    assert rows
    for name, path in custom.items():
        _, *values = (
            await user.cluster.kubectl("get", kind, "-A", f"--output=custom-columns={name}:{path}")
        ).splitlines()
        # Nothing is wrong with the devices of this node.
        assert name == "TAINTS" or set(values) != {"<none>"}, f"{resource}: {name}"
