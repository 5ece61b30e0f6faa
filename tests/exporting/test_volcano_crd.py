"""The real API server, with Volcano's own CRD, takes the queues of an export. Volcano itself was not run."""

import json
from pathlib import Path
from typing import Any

import pytest

from exporting.test_kueue import MPS, SHARED, TEAM, WHOLE, namespace, policy
from gpusharing.exporting.volcano import export
from harness import toolchain
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]

CRD = Path("config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml")


async def test_its_crd_takes_the_queues(control_plane: ControlPlane) -> None:
    quota = {"exclusive": 2, "timeSlicing": 3, "mps": 4}
    offers = {**WHOLE, **SHARED, **MPS}
    found = export(
        [policy(offers=offers, tenants={"namespaces": TEAM, "quota": quota}), policy("open")],
        [namespace("a", team="a")],
    )
    bodies: list[Any] = [one.body for one in found.documents]
    await control_plane.kubectl("create", "--filename", toolchain.volcano_source() / CRD)
    try:
        await control_plane.kubectl("wait", "--for=condition=Established", "crd/queues.scheduling.volcano.sh")
        queues = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
        created = await control_plane.kubectl(
            "create", "--validate=strict", "--output=json", "--filename=-", stdin=queues
        )
    finally:
        await control_plane.kubectl("delete", "crd", "queues.scheduling.volcano.sh")
    stored = json.loads(created)["items"]
    assert [one["spec"].get("capability", {}) for one in stored] == [
        one["spec"].get("capability", {}) for one in bodies
    ]
