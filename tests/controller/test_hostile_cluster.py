"""Hostile objects that a real API server has stored, and an operator that goes on with its work."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings

from controller.bed import Everybody, Operator, eventually, everybody, install
from controller.test_hostile import Object, crowds
from gpusharing.kube import kinds
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import ApiError
from harness.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

_STATUS: Final = (kinds.SHARING_POLICIES, kinds.NODE_SHARINGS, kinds.RESOURCE_CLAIMS)


def sample() -> list[Object]:
    """The same at each run."""
    found: list[Object] = []

    @hypothesis_settings(
        max_examples=12,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(crowds())
    def collect(crowd: list[Object]) -> None:
        found.extend(crowd)

    collect()
    return found


async def store(they: Everybody, number: int, item: Object) -> int:
    """With everything that the API server takes; 1 if it was stored at all."""
    raw: Kind[Any] = Kind(
        item.kind.api_version, item.kind.kind, item.kind.plural, dict[str, Any], namespaced=item.kind.namespaced
    )
    name = f"bad-{number}"
    kept = {"name": name, "labels": item.value["metadata"].get("labels", {})}
    namespace = "default" if item.kind.namespaced else ""
    body: Mapping[str, Any] = {**item.value, "metadata": kept}
    try:
        await they.api.create(raw, body, namespace)
        if item.kind in _STATUS and "status" in item.value:
            patch = {"status": item.value["status"]}
            await they.api.merge_patch(raw, name, patch, namespace=namespace, subresource="status")
    except (ApiError, UnicodeEncodeError) as error:
        return int(not isinstance(error, UnicodeEncodeError) and error.verb == "PATCH")
    return 1


async def test_the_operator_goes_on_among_hostile_objects(toolchain: object) -> None:
    control_plane = ControlPlane()
    async with control_plane:
        await install(control_plane)
        async with await Operator.of(control_plane) as operator, everybody(control_plane) as they:
            await they.make_node("good", gpus=2, labels={"pool": "good"})
            await they.apply_policy("good", priority=1000, nodes={"matchLabels": {"pool": "good"}})
            await eventually(lambda: they.winners("good"), ["good", "good"])
            await they.make_node("bad-1", gpus=2, labels={"pool": "bad", "a": "b"})
            crowd = sample()
            stored = [await store(they, number, item) for number, item in enumerate(crowd)]
            print(f"{len(crowd)} hostile objects, of which the API server stored {sum(stored)}")
            assert sum(stored) > len(crowd) / 4

            # It still decides, on the good as on the rest.
            await they.make_node("late", labels={"pool": "good"})
            await eventually(lambda: they.winners("late"), ["good"])
            assert await they.winners("good") == ["good", "good"]
            await operator.kill()
            await operator.start()
            await they.make_node("later", labels={"pool": "good"})
            await eventually(lambda: they.winners("later"), ["good"])
            logged = [entry["event"] for entry in operator.logged()]
            assert "decision failed" not in logged
            assert "write failed" not in logged
            assert "write refused" not in logged
