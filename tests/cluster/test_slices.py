"""The real API server takes every slice that we can produce, and gives it back as we compare it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from building.boards import ALL, MIG_CAPABLE, board
from core.offers.test_menu import COMBINATIONS, MODES, POLICY, instance, offered
from gpusharing.api.dra import ResourceSlice
from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing import MigOffer, Offers
from gpusharing.core.offers import Entry, OfferedGpu, PublishedGpu, Standing, full_menu, slice_specs
from gpusharing.core.pool import plan_pool, slice_name
from harness.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

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


@pytest.mark.parametrize("model", ALL)
async def test_every_model_in_every_way(control_plane: ControlPlane, model: str) -> None:
    pools = [pool_of(gpu) for gpu in everything(model)]
    stored = iter(await accepted(control_plane, [spec for pool in pools for spec in pool]))
    for pool in pools:
        slices = [
            ResourceSlice(metadata=ObjectMeta(name=slice_name(index, pool=NODE, driver=DRIVER)), spec=next(stored))
            for index in range(len(pool))
        ]
        again = plan_pool(slices, lambda _, pool=pool: pool, pool=NODE, driver=DRIVER, last_generation=1)  # type: ignore[misc]
        # What is read back would not be written again.
        assert again.writes == ()


async def test_a_node_with_sixteen_of_the_largest(control_plane: ControlPlane) -> None:
    gpus = [standing(offered("RTX-PRO-6000", MODES, slot), Standing.CLOSING) for slot in range(16)]
    assert len(await accepted(control_plane, pool_of(*gpus))) == 18
