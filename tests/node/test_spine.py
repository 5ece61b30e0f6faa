"""The whole path: a policy, plain claims, and containers that see the GPU that they were given. Nothing in it is fake
but the GPUs."""

import json
from pathlib import Path

import pytest

from gpusharing.api import names
from gpusharing.sim import Timeslice
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim, claim_spec, gpu_config, pod, template, time_slicing
from node.user import SHARED, WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture
def user(gpu_cluster: GpuCluster) -> User:
    return User(gpu_cluster)


async def test_eight_pods_share_two_gpus_and_the_ninth_waits(user: User) -> None:
    gpus = user.cluster.sim_node
    _, second = gpus.gpus()
    gpus.set_timeslice(second.uuid, Timeslice.SHORT)
    await user.published("gpu-0", "gpu-1")

    await user.apply(time_slicing("quarters"))
    await user.wait("sharingpolicy/quarters", "--for=condition=Ready")
    await user.published("gpu-0-timeslicing", "gpu-1-timeslicing")

    await user.apply(template("share", claim_spec(SHARED)), *(pod(f"p{n}", template="share") for n in range(9)))
    await user.running(8, pending=1)

    await _each_container_sees_its_gpu(user)
    assert {gpu.timeslice for gpu in gpus.gpus()} == {Timeslice.MEDIUM}
    await _everybody_can_read_who_got_what(user)

    (waiting,) = await user.pods("Pending")
    (gone, *_) = await user.pods("Running")
    await user.delete("pod", gone["metadata"]["name"])
    await user.wait(f"pod/{waiting['metadata']['name']}", "--for=condition=Ready")

    # The policy goes while its clients run: they keep what they have, and the GPUs are whole again after them.
    await user.delete("sharingpolicy", "quarters")
    await user.running(8)
    assert await user.devices() == ["gpu-0-timeslicing", "gpu-1-timeslicing"]
    await user.delete("pods", "--all")
    await user.published("gpu-0", "gpu-1")
    await user.nothing_prepared()
    assert [gpu.timeslice for gpu in gpus.gpus()] == [Timeslice.DEFAULT, Timeslice.SHORT]
    gpus.set_timeslice(second.uuid, Timeslice.DEFAULT)


async def _each_container_sees_its_gpu(user: User) -> None:
    minors = {gpu.uuid: gpu.minor for gpu in user.cluster.sim_node.gpus()}
    seen: list[str] = []
    for running in await user.pods("Running"):
        (result,) = (await user.claim_of(running))["status"]["allocation"]["devices"]["results"]
        environment = dict(
            line.split("=", 1)
            for line in (await user.shell(running["metadata"]["name"], "env")).splitlines()
            if line.startswith("GPUSHARING_")
        )
        slot = names.slot_of_device(result["device"])
        uuid = environment.pop(f"GPUSHARING_GPU_{slot}")
        assert environment == {
            f"GPUSHARING_GPU_{slot}_SHARING": "TimeSlicing",
            f"GPUSHARING_GPU_{slot}_INTERVAL": "Medium",
        }
        devices = (await user.shell(running["metadata"]["name"], "ls /dev")).split()
        assert [name for name in devices if name.startswith("nvidia") and name[6:].isdigit()] == [
            f"nvidia{minors[uuid]}"
        ]
        seen.append(uuid)
    assert sorted(seen.count(uuid) for uuid in minors) == [4, 4]


async def _everybody_can_read_who_got_what(user: User) -> None:
    async def check() -> None:
        policy = (await user.get("sharingpolicy", "quarters"))["status"]
        assert policy["clients"] == {"current": 8, "max": 8}
        assert policy["gpus"] == {"won": 2, "lost": 0}
        sharing = await user.get("nodesharing", "node-1")
        pods = await user.pods("Running")
        claims = [await user.claim_of(running) for running in pods]
        names = sorted(f"default/{item['metadata']['name']}" for item in claims)
        for half in ("spec", "status"):
            assert sorted(entry["claim"] for entry in sharing[half]["claims"]) == names
            for entry in sharing[half]["claims"]:
                (settings,) = entry["settings"]
                assert settings["interval"] == "Medium"
                assert settings["from"] == {"interval": "policy/quarters"}
        for item in claims:
            (result,) = item["status"]["allocation"]["devices"]["results"]
            (device,) = item["status"]["devices"]
            assert (device["device"], device["shareID"]) == (result["device"], result["shareID"])
            assert device["conditions"][0]["type"] == "Ready"
            assert device["conditions"][0]["status"] == "True"
            assert device["data"]["interval"] == "Medium"

    await eventually(check)


async def test_programs_may_be_killed_while_pods_run(user: User) -> None:
    cluster = user.cluster
    await user.apply(time_slicing("quarters"))
    await user.wait("sharingpolicy/quarters", "--for=condition=Ready")
    await user.apply(template("share", claim_spec(SHARED)), pod("before", template="share"))
    await user.running(1)
    started = (await user.pods("Running"))[0]["status"]["containerStatuses"][0]["containerID"]

    await cluster.agent.kill()
    await user.apply(pod("agent-away", template="share"))
    await cluster.agent.start()
    await user.wait("pod/agent-away", "--for=condition=Ready")

    await cluster.operator.kill()
    await user.apply(pod("operator-away", template="share"))
    await user.wait("pod/operator-away", "--for=condition=Ready")
    await cluster.operator.start()

    before = {item["metadata"]["uid"] for item in (await user.get("resourceslices"))["items"]}
    await cluster.node.kubelet.restart()

    async def slices_are_back() -> None:
        after = {item["metadata"]["uid"] for item in (await user.get("resourceslices"))["items"]}
        assert len(after) == len(before)
        assert not after & before

    await eventually(slices_are_back)
    await user.apply(pod("kubelet-restarted", template="share"))
    await user.wait("pod/kubelet-restarted", "--for=condition=Ready")

    await user.running(4)
    survivor = await user.get("pod", "before")
    assert survivor["status"]["containerStatuses"][0]["containerID"] == started
    assert survivor["status"]["containerStatuses"][0]["restartCount"] == 0

    await user.delete("pods", "--all")
    await user.delete("sharingpolicy", "quarters")
    await user.published("gpu-0", "gpu-1")
    await user.nothing_prepared()


async def test_a_whole_gpu_is_time_sliced_among_the_pods_of_one_claim(user: User) -> None:
    """NVIDIA's GpuConfig, as their documentation has it."""
    gpus = user.cluster.sim_node
    config = gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}})
    await user.apply(
        claim("together", claim_spec(WHOLE, config=[config])),
        pod("left", claim="together", containers=2),
        pod("right", claim="together"),
    )
    await user.running(2)
    told = {
        (await user.shell(name, "env | grep ^GPUSHARING_", container)).strip()
        for name, container in (("left", "main-0"), ("left", "main-1"), ("right", "main-0"))
    }
    assert len(told) == 1
    assert "INTERVAL=Long" in told.pop()
    assert sorted(gpu.timeslice or 0 for gpu in gpus.gpus()) == [Timeslice.DEFAULT, Timeslice.LONG]

    await user.delete("pod", "left")
    assert Timeslice.LONG in {gpu.timeslice for gpu in gpus.gpus()}
    await user.delete("pod", "right")
    await user.delete("resourceclaim", "together")
    await user.nothing_prepared()
    assert {gpu.timeslice for gpu in gpus.gpus()} == {Timeslice.DEFAULT}


async def test_a_bad_config_fails_one_pod_and_says_why(user: User) -> None:
    config = gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Medum"}})
    await user.apply(
        claim("bad", claim_spec(WHOLE, config=[config])),
        claim("good", claim_spec(WHOLE)),
        pod("bad", claim="bad"),
        pod("good", claim="good"),
    )
    await user.wait("pod/good", "--for=condition=Ready")

    async def says_why() -> None:
        events = (await user.get("events", "--field-selector=involvedObject.name=bad"))["items"]
        messages = [event["message"] for event in events if event["reason"] == "FailedPrepareDynamicResources"]
        assert any(
            "claim default/bad: request gpu: config of the claim: sharing.timeSlicingConfig.interval is 'Medum': "
            "must be 'Default', 'Short', 'Medium' or 'Long'" in message
            for message in messages
        ), messages

    await eventually(says_why)
    await user.delete("pods", "--all")
    await user.delete("resourceclaims", "--all")
    await user.nothing_prepared()


async def test_both_ways_at_once_exclude_each_other(user: User) -> None:
    await user.apply(
        time_slicing("either", clients=2)
        | {"spec": {"offers": {"exclusive": {}, "timeSlicing": {"maxClients": 2}}, "gpus": {"maxPerNode": 1}}}
    )
    await user.wait("sharingpolicy/either", "--for=condition=Ready")
    await user.published("gpu-0", "gpu-0-timeslicing", "gpu-1")
    await user.apply(
        template("share", claim_spec(SHARED)),
        template("whole", claim_spec(WHOLE)),
        pod("a", template="share"),
        pod("b", template="share"),
        pod("c", template="share"),
    )
    await user.running(2, pending=1)
    await user.apply(pod("d", template="whole"), pod("e", template="whole"))
    # The other GPU is whole; nobody gets the shared one as a whole.
    await user.running(3, pending=2)
    await user.delete("pods", "--all")
    await user.delete("sharingpolicy", "either")
    await user.published("gpu-0", "gpu-1")
    await user.nothing_prepared()


async def test_a_claim_that_nobody_can_read_stops_nobody(user: User, tmp_path: Path) -> None:
    """Opaque parameters are kept as a tenant wrote them, whatever that is, and come with every list of claims."""
    cluster = user.cluster
    hostile = {"nested": "[" * 4990 + "]" * 4990, "surrogate": '"\\ud800"', "twice": '1,"x":2'}
    for name, value in hostile.items():
        config = {"opaque": {"driver": "gpu.nvidia.com", "parameters": "PARAMETERS"}}
        body = json.dumps(claim(name, claim_spec(WHOLE, config=[config])))
        file = tmp_path / name
        file.write_text(body.replace('"PARAMETERS"', f'{{"x":{value}}}'))
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
        await cluster.kubectl("create", f"--raw={path}", f"--filename={file}")

    # Before and after a start: Kopf and our own list both read them all.
    for name in ("running", "restarted"):
        await user.apply(time_slicing(name))
        await user.wait(f"sharingpolicy/{name}", "--for=condition=Ready")
        await user.delete("sharingpolicy", name)
        await cluster.operator.restart()

    async def is_told_why(name: str) -> None:
        events = (await user.get("events", f"--field-selector=involvedObject.name={name}"))["items"]
        told = [event["message"] for event in events if event["reason"] == "FailedPrepareDynamicResources"]
        assert any(f"claim default/{name}: request gpu: config of the claim" in message for message in told), told

    for name in hostile:
        await user.apply(pod(name, claim=name))
        await eventually(lambda name=name: is_told_why(name))  # type: ignore[misc]
        await user.delete("pod", name)
    await user.delete("resourceclaims", "--all")
    await user.published("gpu-0", "gpu-1")
    await user.nothing_prepared()
