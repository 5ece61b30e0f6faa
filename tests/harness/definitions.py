"""CRDs that were just created."""

from harness.controlplane import ControlPlane
from harness.eventually import eventually


async def until_established(control_plane: ControlPlane) -> None:
    """All of them. `kubectl wait` fails on one that has no conditions yet."""

    async def are_established() -> None:
        for one in (await control_plane.get("crd"))["items"]:
            conditions = {found["type"]: found["status"] for found in one["status"].get("conditions") or ()}
            assert conditions.get("Established") == "True", one["metadata"]["name"]

    await eventually(are_established)
