"""What happens to a node in its life, and programs on its GPUs that must not notice. Their heartbeats tell."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gpusharing.sim import cuda
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, policy, template
from node.user import SHARED, WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

OFFERS: Final = {
    "exclusive": {},
    "timeSlicing": {"maxClients": 4, "interval": "Short"},
    "mps": {"maxClients": 4, "memory": {"default": "8Gi", "max": "16Gi"}, "threads": {"default": 25}},
    "mig": {"profiles": ["1g.10gb"]},
}
CLASSES: Final = {"share": SHARED, "mps": "mps.gpu.nvidia.com", "mig": "mig.nvidia.com", "whole": WHOLE}

# On what it was given, until somebody wants the container to end.
_SCRIPT: Final = """
gpu=$(env | sed -n 's/^GPUSHARING_GPU_[0-9A-Z_]*=\\([A-Z]*-.*-.*\\)$/\\1/p')
"{directory}/bin/cuda-process" --gpu="$gpu" --memory=64M --heartbeat="{directory}/{name}.heartbeat" &
while kill -0 $! && ! [ -e "{directory}/{name}.end" ]; do sleep 0.1; done
kill $! && wait $!
rm "{directory}/{name}.heartbeat" "{directory}/{name}.end"
"""
_LONGEST_GAP: Final = 5.0
"""In seconds. Who is disturbed loses its GPU; who shares a busy machine with these tests waits now and then."""


class Witnesses:
    """Pods whose programs work on their GPUs all the time."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.directory = user.cluster.sim_node.directory
        self._began: dict[str, cuda.Heartbeat] = {}

    async def begin(self, name: str, claims: str) -> None:
        made = pod(name, template=claims)
        made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": str(self.directory)}}]
        (container,) = made["spec"]["containers"]
        container["volumeMounts"] = [{"name": "driver", "mountPath": str(self.directory)}]
        container["command"] = ["sh", "-c", _SCRIPT.format(directory=self.directory, name=name)]
        await self.user.apply(made)
        await self.works(name)

    async def works(self, name: str) -> None:
        """As from now on."""

        async def check() -> None:
            self._began[name] = self._heartbeat(name)

        await eventually(check)

    async def end_container(self, name: str) -> None:
        """And let its successor begin."""
        end = self.directory / f"{name}.end"
        end.touch()

        async def has_ended() -> None:
            assert not end.exists()

        await eventually(has_ended)
        await self.works(name)

    async def are_undisturbed(self) -> None:
        before = {name: self._heartbeat(name) for name in self._began}

        async def go_on() -> None:
            for name, heartbeat in before.items():
                assert self._heartbeat(name).count > heartbeat.count, name

        await eventually(go_on)
        for name, began in self._began.items():
            now = self._heartbeat(name)
            assert now.count > began.count, name
            assert now.longest_gap < _LONGEST_GAP, name

    def _heartbeat(self, name: str) -> cuda.Heartbeat:
        path: Path = self.directory / f"{name}.heartbeat"
        assert path.exists(), f"{name} does not work"
        return cuda.read_heartbeat(path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:4") as cluster:
        yield User(cluster)


async def test_nobody_who_runs_is_ever_disturbed(user: User) -> None:
    cluster = user.cluster
    before = cluster.sim_node.gpus()
    witnesses = Witnesses(user)
    await user.apply(policy("all-ways", offers=OFFERS))
    await user.wait("sharingpolicy/all-ways", "--for=condition=Ready")
    await user.apply(*(template(name, claim_spec(class_)) for name, class_ in CLASSES.items()))
    for way in CLASSES:
        await witnesses.begin(way, way)
    daemon = cluster.sim_node.mps_daemons()
    assert len(daemon) == 1

    await _the_agent_is_updated(user, witnesses)
    await _programs_are_killed(user, witnesses)
    await _the_api_server_is_away(user, witnesses)
    await _the_policy_changes(user, witnesses)
    assert cluster.sim_node.mps_daemons() == daemon

    await user.delete("pods", "--all")
    await user.delete("sharingpolicy", "all-ways")
    await user.nothing_prepared()

    async def as_before() -> None:
        assert cluster.sim_node.gpus() == before

    await eventually(as_before)


async def _the_agent_is_updated(user: User, witnesses: Witnesses) -> None:
    """The next one comes seconds after the one before has gone: pods that come meanwhile are not sent to the node,
    whose devices have a taint, and those that go wait for it."""
    goes = pod("goes", template="share")
    # Without a second of grace, the API forgets it at once.
    goes["spec"]["terminationGracePeriodSeconds"] = 1
    await user.apply(goes)
    await user.wait("pod/goes", "--for=condition=Ready")
    await user.cluster.agent.stop()
    await user.apply(pod("comes", template="share"))
    await user.delete("pod", "goes", "--wait=false")

    async def waits() -> None:
        events = (await user.get("events", "--field-selector=involvedObject.name=comes"))["items"]
        assert {event["reason"] for event in events} == {"FailedScheduling"}

    await eventually(waits)
    assert (await user.get("pod", "goes"))["metadata"]["deletionTimestamp"]
    await witnesses.are_undisturbed()
    await user.cluster.agent.start()
    await user.wait("pod/comes", "--for=condition=Ready")
    await user.wait("pod/goes", "--for=delete")
    await witnesses.are_undisturbed()


async def _programs_are_killed(user: User, witnesses: Witnesses) -> None:
    before = await _leader(user)
    for program in (user.cluster.agent, user.cluster.operator, user.cluster.node.kubelet):
        await program.kill()
        await witnesses.are_undisturbed()
        await program.start()

    async def another_leads() -> None:
        assert await _leader(user) != before

    # Who is killed does not give its lease back.
    await eventually(another_leads)
    await user.apply(pod("late", template="share"))
    await user.wait("pod/late", "--for=condition=Ready")
    await witnesses.are_undisturbed()


async def _leader(user: User) -> str:
    """The operator's process."""
    lease = await user.get("lease", "gpusharing-operator", "--namespace=gpusharing-system")
    return str(lease["spec"]["holderIdentity"])


async def _the_api_server_is_away(user: User, witnesses: Witnesses) -> None:
    """Whoever runs goes on, containers start again with what they had, also when the agent has started anew."""
    cluster = user.cluster
    slices = [(one["metadata"]["uid"], one["spec"]) for one in (await user.get("resourceslices"))["items"]]
    await cluster.apiserver.stop()
    await asyncio.gather(*map(witnesses.end_container, CLASSES))
    await cluster.agent.kill()
    await cluster.agent.start()
    await asyncio.gather(*map(witnesses.end_container, CLASSES))
    await witnesses.are_undisturbed()
    await cluster.apiserver.start()

    async def all_is_reported() -> None:
        assert len((await user.get("nodesharing", "node-1"))["status"]["claims"]) == len(CLASSES) + 2
        now = [(one["metadata"]["uid"], one["spec"]) for one in (await user.get("resourceslices"))["items"]]
        assert now == slices

    await eventually(all_is_reported)
    await witnesses.are_undisturbed()


async def _the_policy_changes(user: User, witnesses: Witnesses) -> None:
    """Whatever is offered from now on, who is there keeps what they have."""
    later: list[dict[str, Any]] = [
        {"exclusive": {}},
        {"timeSlicing": {"maxClients": 2}},
        {"mig": {"layout": {"1g.10gb": 7}}},
    ]
    for offers in later:
        await user.apply(_replacing(policy("all-ways", offers=offers)))
        await user.wait("sharingpolicy/all-ways", "--for=condition=Accepted")
        await asyncio.sleep(1)
        await witnesses.are_undisturbed()


def _replacing(wanted: dict[str, Any]) -> dict[str, Any]:
    """`kubectl apply` takes away what is null."""
    offers = dict.fromkeys(OFFERS) | wanted["spec"]["offers"]
    return wanted | {"spec": {"offers": offers}}
