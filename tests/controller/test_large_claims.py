"""Claims as large as etcd takes them, by anybody who may write claims: the operator starts and goes on."""

import json
from typing import Any, Final

import aiohttp
import pytest

from bench.operating.process import peak_mib
from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import open_session
from harness.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

_PATH: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_JSON: Final = {"Content-Type": "application/json"}
_CLAIMS: Final = 31
# The limit of manifests/base/operator.yaml is 1 GiB.
_MOST_MIB: Final = 400


def large(name: str) -> dict[str, Any]:
    """1 MiB in etcd, 6 MiB as JSON, and with the character 24 MiB as text of Python's."""
    expression = f'"{"<" * 10_200}" != device.driver'
    selectors = [{"cel": {"expression": expression}}] * 25
    requests = [
        {"name": f"r{number}", "exactly": {"deviceClassName": "none", "selectors": selectors}} for number in range(4)
    ]
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {"name": name, "annotations": {"e": "😀"}},
        "spec": {"devices": {"requests": requests}},
    }


def not_utf8(name: str) -> bytes:
    """With opaque parameters that the API server takes, and gives back as they are."""
    parameters = {"opaque": {"driver": "example.com", "parameters": {"a": "BYTE"}}}
    body = large(name) | {"spec": {"devices": {"requests": [{"name": "r"}], "config": [parameters]}}}
    body["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": "none"}
    return json.dumps(body).encode().replace(b"BYTE", b"\xff")


async def create(control_plane: ControlPlane, *bodies: bytes) -> None:
    credentials = await client_credentials.load(control_plane.kubeconfig)
    async with open_session(credentials) as session:
        for body in bodies:
            async with session.post(credentials.server + _PATH, data=body, headers=_JSON) as response:
                assert response.status == 201, await response.text()


async def are_known(operator: Operator) -> float:
    try:
        return await operator.metric('gpusharing_objects{kind="ResourceClaim"}')
    except (aiohttp.ClientError, StopIteration):
        return -1


async def goes_on(they: Everybody, name: str) -> None:
    await they.make_node(name, labels={"pool": "good"})
    await eventually(lambda: they.winners(name), ["good"], within=60)


async def test_large_claims_neither_end_the_operator_nor_fill_its_memory(toolchain: object) -> None:
    control_plane = ControlPlane()
    async with control_plane:
        await install(control_plane)
        async with await Operator.of(control_plane) as operator, everybody(control_plane) as they:
            await they.apply_policy("good", nodes={"matchLabels": {"pool": "good"}})
            await create(control_plane, *(json.dumps(large(f"large-{number}")).encode() for number in range(_CLAIMS)))
            await create(control_plane, not_utf8("bytes"))
            for number in range(10):
                patch = {"metadata": {"annotations": {"x": str(number)}}}
                await they.api.merge_patch(RESOURCE_CLAIMS, "large-0", patch, namespace="default")
            await eventually(lambda: are_known(operator), _CLAIMS + 1, within=60)
            await goes_on(they, "watched")
            watched = peak_mib(operator.pid)

            await operator.kill()
            await operator.start()
            await eventually(lambda: are_known(operator), _CLAIMS + 1, within=60)
            await goes_on(they, "listed")
            listed = peak_mib(operator.pid)
            print(f"most memory with {_CLAIMS} claims: {watched:.0f} MiB watched, {listed:.0f} MiB listed")
            assert max(watched, listed) < _MOST_MIB
            logged = {entry["event"] for entry in operator.logged()}
            assert not logged & {"watch failed", "watch broken", "object unreadable"}
