"""What must not change while pods use GPUs."""

from dataclasses import dataclass
from typing import Final

from node.user import AnyUser


@dataclass(frozen=True)
class Running:
    """Pods' containers, and the processes of MPS."""

    containers: frozenset[tuple[str, str, int]]
    daemons: frozenset[str]


async def what_runs(user: AnyUser) -> Running:
    pods = (await user.get("pods"))["items"]
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    statuses = [(pod["metadata"]["name"], status) for pod in pods for status in pod["status"]["containerStatuses"]]
    return Running(
        frozenset((name, status["containerID"], status["restartCount"]) for name, status in statuses),
        await mps_daemons(user),
    )


async def mps_daemons(user: AnyUser) -> frozenset[str]:
    return frozenset((await user.cluster.node.run("sh", "-c", _DAEMONS)).split())


# With their starts: numbers are used again.
_DAEMONS: Final = """
for name in $(grep -ls ^nvidia-cuda-mps /proc/[0-9]*/comm); do
    cut -d' ' -f1,22 --output-delimiter=@ "${name%comm}stat"
done
"""
