"""The real API server takes every slice that we can produce, and gives it back as we compare it."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from building.boards import ALL, MIG_CAPABLE, board
from core.publishing.test_menu import COMBINATIONS, MODES, POLICY, instance, offered
from gpusharing.api import names
from gpusharing.api.dra import ResourceSlice
from gpusharing.api.meta import WholeMeta
from gpusharing.api.sharing.offers import MigOffer, Offers
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.slice_updates import plan_pool, slice_name
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

NODE, DRIVER = "n1", "gpu.nvidia.com"


def pool_of(*gpus: PublishedGpu, generation: int = 1) -> list[dict[str, Any]]:
    return slice_specs(gpus, node=NODE, pool=NODE, driver=DRIVER, generation=generation)


def standing(item: OfferedGpu, how: Standing) -> PublishedGpu:
    return PublishedGpu(
        item, [Entry(device=entry.device, policy=entry.policy, standing=how) for entry in full_menu(item)]
    )


def alone(item: OfferedGpu) -> Iterator[PublishedGpu]:
    """Narrowed to each of its devices."""
    for entry in full_menu(item):
        yield PublishedGpu(item, [entry])


def forgotten(model: str) -> PublishedGpu:
    """Devices of which nobody knows any more how they were offered."""
    entries = [Entry(device=device, standing=Standing.CLOSING) for device in ("gpu-0-timeslicing", "gpu-0-mps")]
    return PublishedGpu(offered(model, ("exclusive",)), entries)


def cut_for_good(model: str) -> Iterator[PublishedGpu]:
    gpu = board(model)
    for profile in gpu.mig.profiles if gpu.mig else ():
        item = OfferedGpu(
            gpu=gpu,
            offers=Offers(mig=MigOffer(layout={profile.name: 1})),
            policy=POLICY,
            configured=True,
            mig_enabled=True,
            instances=(instance(profile.id, profile.starts[0]),),
        )
        yield PublishedGpu(item, full_menu(item))


def everything(model: str) -> Iterator[PublishedGpu]:
    for chosen in COMBINATIONS:
        item = offered(model, chosen, mig_enabled=model in MIG_CAPABLE and chosen == ("mig",))
        yield PublishedGpu(item, full_menu(item))
    for allow in (Allowance(max_shares=1, max_memory="9Gi", max_threads=50), Allowance(max_memory="1Mi")):
        item = replace(offered(model, MODES), allow=allow, evicts=True)
        yield from (standing(item, how) for how in Standing)
    for mig_enabled in (False, True):
        longest = offered(model, MODES, restricted=True, mig_enabled=mig_enabled)
        for how in Standing:
            yield standing(longest, how)
        yield from alone(longest)
    yield forgotten(model)
    yield from cut_for_good(model)


async def accepted(server: ControlPlane, specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the server would store."""
    items = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{number}-n1"},
            "spec": spec,
        }
        for number, spec in enumerate(specs)
    ]
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    text = await server.kubectl("create", "--dry-run=server", "--output=json", "--filename=-", stdin=body)
    stored = []
    # One object after the other.
    while text := text.strip():
        item, end = json.JSONDecoder().raw_decode(text)
        stored.append(item["spec"])
        text = text[end:]
    return stored


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["1.37", "1.36"])
async def server(request: pytest.FixtureRequest, control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    if request.param == "1.37":
        yield control_plane
        return
    async with ControlPlane(emulated_version=request.param) as older:
        yield older


@pytest.mark.parametrize("model", ALL)
async def test_every_model_in_every_way(server: ControlPlane, model: str) -> None:
    pools = [pool_of(gpu) for gpu in everything(model)]
    stored = iter(await accepted(server, [spec for pool in pools for spec in pool]))
    for pool in pools:
        slices = [
            ResourceSlice(metadata=WholeMeta(name=slice_name(index, pool=NODE, driver=DRIVER)), spec=next(stored))
            for index in range(len(pool))
        ]
        again = plan_pool(slices, lambda _, pool=pool: pool, pool=NODE, driver=DRIVER, last_generation=1)  # type: ignore[misc]
        # What is read back would not be written again.
        assert again.writes == ()


async def test_a_node_with_sixteen_of_the_largest(server: ControlPlane) -> None:
    gpus = [standing(offered("RTX-PRO-6000", MODES, slot), Standing.CLOSING) for slot in range(16)]
    assert len(await accepted(server, pool_of(*gpus))) == 18


async def test_the_longest_names_of_a_pool_for_tenants(server: ControlPlane) -> None:
    """Hosts have at most 64 characters."""
    node, policy = ".".join("n" * 59 for _ in range(3)), "p" * names.MAX_POLICY_NAME
    pool = names.pool(node, restricted_to=policy)
    gpu = standing(offered("L4", MODES, restricted=True), Standing.OPEN)
    specs = slice_specs([gpu], node=node, pool=pool, driver=DRIVER, generation=1)
    for index, spec in enumerate(specs):
        metadata = {"name": slice_name(index, pool=pool, driver=DRIVER)}
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        await server.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(body))
