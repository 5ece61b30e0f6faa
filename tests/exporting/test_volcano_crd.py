"""The real API server, with Volcano's own CRD, takes the queues of an export. Volcano itself was not run."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from exporting.test_kueue import MPS, SHARED, TEAM, WHOLE, namespace, policy
from gpusharing.exporting.volcano import export
from harness import toolchain
from harness.controlplane import ControlPlane
from harness.definitions import until_established

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]

NAMES = ("scheduling.volcano.sh_queues.yaml", "batch.volcano.sh_jobs.yaml")
CRDS = Path("config/crd/volcano/bases")
RECIPE = Path(__file__).parents[2] / "docs/recipes/volcano.md"
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    crds = [f"--filename={toolchain.volcano_source() / CRDS / name}" for name in NAMES]
    await control_plane.kubectl("create", *crds)
    await until_established(control_plane)
    yield control_plane
    await control_plane.kubectl("delete", *crds)


async def create(server: ControlPlane, body: Any) -> Any:
    command = ("create", "--validate=strict", "--output=json", "--filename=-")
    return json.loads(await server.kubectl(*command, stdin=json.dumps(body)))


async def test_its_crd_takes_the_queues(server: ControlPlane) -> None:
    quota = {"exclusive": 2, "timeSlicing": 3, "mps": 4}
    offers = {**WHOLE, **SHARED, **MPS}
    found = export(
        [policy(offers=offers, tenants={"namespaces": TEAM, "quota": quota}), policy("open")],
        [namespace("a", team="a")],
    )
    stored = [await create(server, one.body) for one in found.documents]
    assert [one["spec"].get("capability", {}) for one in stored] == [
        one.body["spec"].get("capability", {}) for one in found.documents
    ]


async def test_its_crd_takes_the_job_of_the_recipe(server: ControlPlane) -> None:
    [job] = map(yaml.safe_load, YAML.findall(RECIPE.read_text()))
    await server.kubectl("create", "namespace", job["metadata"]["namespace"])
    stored = await create(server, job)
    assert stored["spec"]["queue"] == "namespace-models"
