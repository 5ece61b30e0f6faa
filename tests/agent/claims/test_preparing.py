"""NodePrepareResources and NodeUnprepareResources, called as the kubelet calls them."""

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from agent.on_cluster import (
    BOTH,
    DRIVER,
    EXCLUSIVE,
    RAW,
    TIME_SLICING,
    Claim,
    GpuNode,
    Kubelet,
    opaque,
)
from building import gpu_config, interval_config
from gpusharing.agent.kubelet.pb import dra_pb2 as pb
from gpusharing.sim import Timeslice
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

OTHER_DRIVER = "other.example.com"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_node(installed: ControlPlane) -> AsyncIterator[GpuNode]:
    """Slot 0 is time-sliced, slot 1 whole, slot 2 both."""
    async with GpuNode(installed, gpus="H100-80GB:3") as node:
        await node.decide(TIME_SLICING, EXCLUSIVE, BOTH)
        await node.offers("gpu-0-timeslicing", "gpu-1", "gpu-2", "gpu-2-timeslicing")
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared_node: GpuNode) -> AsyncIterator[GpuNode]:
    """Without a claim, before and after each test."""
    made = len(shared_node.made)
    yield shared_node
    await shared_node.kubelet.unprepare(*shared_node.made[made:])
    assert shared_node.prepared() == set(shared_node.specs()) == set()
    assert shared_node.time_slices() == [Timeslice.DEFAULT] * 3
    assert list((shared_node.state / "journal").iterdir()) == []


async def prepared(node: GpuNode, *claims: Claim) -> list[pb.NodePrepareResourceResponse]:
    answers = await node.kubelet.prepare(*claims)
    assert set(answers) == {claim.uid for claim in claims}
    for claim in claims:
        assert not answers[claim.uid].error
    return [answers[claim.uid] for claim in claims]


async def told(node: GpuNode, claim: Claim, count: int = 1) -> list[Any]:
    """What the claim's status says of its devices, once it says something."""

    async def check() -> None:
        assert len(await node.status_devices(claim)) == count

    await eventually(check)
    return await node.status_devices(claim)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_answer(node: GpuNode, version: str) -> None:
    share = str(uuid.uuid4())
    claim = await node.claim(node.shared(0, shareID=share))
    kubelet = Kubelet(node.endpoint, version)
    answer = (await kubelet.prepare(claim))[claim.uid]
    assert answer == pb.NodePrepareResourceResponse(
        devices=[
            pb.Device(
                request_names=["gpu"],
                pool_name=node.name,
                device_name="gpu-0-timeslicing",
                cdi_device_ids=[
                    f"nvidia.com/gpu={node.sim.gpus()[0].uuid}",
                    f"gpusharing.dev/claim={claim.uid}-0",
                ],
                share_id=share,
            )
        ]
    )
    assert node.time_slices() == [Timeslice.MEDIUM, Timeslice.DEFAULT, Timeslice.DEFAULT]
    assert [device["name"] for device in node.specs()[claim.uid]["devices"]] == [f"{claim.uid}-0"]
    assert await kubelet.unprepare(claim) == {claim.uid: ""}


async def test_whole_gpu_has_no_share(node: GpuNode) -> None:
    (answer,) = await prepared(node, await node.claim(node.whole(1)))
    (device,) = answer.devices
    assert device.device_name == "gpu-1"
    assert not device.HasField("share_id")
    assert node.time_slices() == [Timeslice.DEFAULT] * 3


async def test_repeated_calls_answer_the_same(node: GpuNode) -> None:
    claims = [await node.claim(node.shared(0)), await node.claim(node.whole(1))]
    first = await prepared(node, *claims)
    spec = (node.cdi / f"gpusharing.dev-claim_{claims[0].uid}.json").stat()
    assert await prepared(node, *claims) == first
    # In any order, alone, and after the agent was killed.
    assert await prepared(node, claims[1]) == first[1:]
    await node.agent.kill()
    await node.agent.start()
    assert await prepared(node, *reversed(claims)) == first[::-1]
    assert (node.cdi / f"gpusharing.dev-claim_{claims[0].uid}.json").stat().st_ino == spec.st_ino
    for _ in range(2):
        assert await node.kubelet.unprepare(*claims) == {claim.uid: "" for claim in claims}


async def test_unprepare_of_what_nobody_knows_succeeds(node: GpuNode) -> None:
    ghost = Claim(str(uuid.uuid4()), "ghost")
    assert await node.kubelet.unprepare(ghost) == {ghost.uid: ""}
    assert await node.kubelet.unprepare() == {}
    assert await node.kubelet.prepare() == {}


async def test_claim_is_deleted_before_its_devices_are_given_back(node: GpuNode) -> None:
    claim = await node.claim(node.shared(0))
    await prepared(node, claim)
    await node.admin.call("DELETE", claim.path)
    assert "not found" in (await node.kubelet.prepare(claim))[claim.uid].error
    # The refusal has taken nothing away from the pod that is still there.
    assert node.prepared() == {claim.uid}
    assert await node.kubelet.unprepare(claim) == {claim.uid: ""}
    assert node.prepared() == set()
    assert node.time_slices()[0] is Timeslice.DEFAULT


async def test_two_requests_on_one_shared_gpu(node: GpuNode) -> None:
    claim = await node.claim(node.shared(0, request="one"), node.shared(0, request="two"), node.whole(1, request="big"))
    (answer,) = await prepared(node, claim)
    assert [list(device.request_names) for device in answer.devices] == [["one"], ["two"], ["big"]]
    assert len({device.share_id for device in answer.devices}) == 3
    ours = [device.cdi_device_ids[1] for device in answer.devices]
    assert ours == [f"gpusharing.dev/claim={claim.uid}-{index}" for index in range(3)]
    assert len(await told(node, claim, 3)) == 3


async def test_kubelet_knows_nothing_of_subrequests(node: GpuNode) -> None:
    config = opaque(interval_config("Long"), requests=["gpu"])
    claim = await node.claim(node.whole(1, request="gpu/big"), config=[config])
    (answer,) = await prepared(node, claim)
    assert list(answer.devices[0].request_names) == ["gpu"]
    # The configuration of the request covers its alternatives.
    assert node.time_slices()[1] is Timeslice.LONG
    (entry,) = await told(node, claim)
    assert entry["data"]["request"] == "gpu/big"


async def test_claim_is_allocated_anew_under_the_same_uid(node: GpuNode) -> None:
    claim = await node.claim(node.shared(0))
    (before,) = await prepared(node, claim)
    await told(node, claim)
    await node.deallocate(claim)
    assert "has no device" in (await node.kubelet.prepare(claim))[claim.uid].error
    await node.allocate(claim, node.whole(1), config=[opaque(interval_config("Short"))])
    (after,) = await prepared(node, claim)
    assert [device.device_name for device in before.devices] == ["gpu-0-timeslicing"]
    assert [device.device_name for device in after.devices] == ["gpu-1"]
    assert node.time_slices() == [Timeslice.DEFAULT, Timeslice.SHORT, Timeslice.DEFAULT]
    (entry,) = await told(node, claim)
    assert entry["device"] == "gpu-1"
    # The former device is free for others.
    await prepared(node, await node.claim(node.shared(0)))


async def test_who_only_looks_changes_nothing(node: GpuNode) -> None:
    namespace = f"admins-{node.name}"
    label = {"resource.kubernetes.io/admin-access": "true"}
    await node.admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": label}})
    holder = await node.claim(node.whole(1))
    await prepared(node, holder)
    watcher = await node.claim(
        node.whole(1, request="one", adminAccess=True),
        node.shared(0, request="two", adminAccess=True),
        config=[opaque(interval_config("Long"))],
        namespace=namespace,
    )
    (answer,) = await prepared(node, watcher)
    assert [device.device_name for device in answer.devices] == ["gpu-1", "gpu-0-timeslicing"]
    assert all(len(device.cdi_device_ids) == 2 for device in answer.devices)
    assert node.time_slices() == [Timeslice.DEFAULT] * 3
    # It is in nobody's way either.
    await node.kubelet.unprepare(holder)
    await prepared(node, await node.claim(node.whole(1)), await node.claim(node.shared(0)))


async def test_claim_says_what_its_devices_are_set_to(node: GpuNode) -> None:
    """Beside what another driver says of its own device, and without a write where nothing is new."""
    theirs = {"request": "nic", "driver": OTHER_DRIVER, "pool": node.name, "device": "nic-0"}
    claim = await node.claim(node.shared(0), theirs, config=[opaque(interval_config("Long"))])
    entry = {"driver": OTHER_DRIVER, "pool": node.name, "device": "nic-0", "data": {"speed": 100}}
    await node.admin.merge(f"{claim.path}/status", {"status": {"devices": [entry]}})
    before = await node.status_devices(claim)
    (answer,) = await prepared(node, claim)
    other, ours = await told(node, claim, 2)
    assert [other] == before
    assert (ours["driver"], ours["pool"], ours["device"]) == (DRIVER, node.name, "gpu-0-timeslicing")
    assert ours["shareID"] == answer.devices[0].share_id
    condition, healthy = ours["conditions"]
    assert (healthy["type"], healthy["status"], healthy["reason"]) == ("Healthy", "True", "Healthy")
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "True", "Prepared")
    assert "interval Long of the claim" in condition["message"]
    assert ours["data"]["uuid"] == node.sim.gpus()[0].uuid
    assert (ours["data"]["interval"], ours["data"]["from"]) == ("Medium", {"interval": "policy/shared"})

    version = (await node.admin.call("GET", claim.path))["metadata"]["resourceVersion"]
    await node.agent.restart()
    await prepared(node, claim)
    # Written in the order of the calls: when a later one has its status, the earlier ones had their turn.
    last = await node.claim(node.whole(1))
    await prepared(node, last)
    await told(node, last)
    assert (await node.admin.call("GET", claim.path))["metadata"]["resourceVersion"] == version


async def test_parameters_that_are_not_canonical_json(node: GpuNode) -> None:
    """Every patch of such a claim may look to the API server like a change of what is immutable."""
    raw = (
        b'{ "sharing" : {"timeSlicingConfig":{ "interval":"Long" }, "strategy": "TimeSlicing"},\n "kind": "GpuConfig",'
    )
    raw += b' "apiVersion": "resource.nvidia.com/v1beta1" }'
    claim = await node.claim(node.whole(1), config=[opaque(RAW)], raw=raw)
    notes = len(node.log("device status not written"))
    await prepared(node, claim)
    assert node.time_slices()[1] is Timeslice.LONG
    # The next claim's status is written all the same.
    after = await node.claim(node.shared(0))
    await prepared(node, after)
    await told(node, after)
    written = len(await node.status_devices(claim))
    assert written + len(node.log("device status not written")) - notes == 1


class Bad:
    """Claims that cannot be prepared, by name. Each gives the claim and what its message must say."""

    Answer = tuple[Claim, tuple[str, ...]]

    @staticmethod
    async def wrong_uid(node: GpuNode) -> Answer:
        claim = await node.claim(node.shared(0))
        other = Claim(str(uuid.uuid4()), claim.name)
        return other, (f"asks for uid {other.uid}", f"has uid {claim.uid}", "delete the pod")

    @staticmethod
    async def gone(_: GpuNode) -> Answer:
        claim = Claim(str(uuid.uuid4()), "nobody-made-this")
        return claim, ("cannot be read", "not found")

    @staticmethod
    async def not_allocated(node: GpuNode) -> Answer:
        return await node.new_claim("gpu"), (f"no device of driver {DRIVER} allocated", "delete the pod")

    @staticmethod
    async def other_driver(node: GpuNode) -> Answer:
        claim = await node.claim(node.whole(1, driver=OTHER_DRIVER))
        return claim, (f"no device of driver {DRIVER} allocated", "delete the pod")

    @staticmethod
    async def unknown_gpu(node: GpuNode) -> Answer:
        return await node.claim(node.whole(9)), ("request gpu", f"device {node.name}/gpu-9 is not on", "delete the pod")

    @staticmethod
    async def unknown_device(node: GpuNode) -> Answer:
        claim = await node.claim(node.whole(0, device="gpu-7"))
        return claim, ("request gpu", "gpu-7 is not on", "delete the pod")

    @staticmethod
    async def device_of_another_node(node: GpuNode) -> Answer:
        claim = await node.claim(node.whole(1, pool="elsewhere"))
        return claim, ("request gpu", f"elsewhere/gpu-1 is not on node {node.name}", "delete the pod")

    @staticmethod
    async def second_request(node: GpuNode) -> Answer:
        """The first one is fine, and nothing of it is kept."""
        claim = await node.claim(node.whole(1, request="fine"), node.whole(8, request="bad"))
        return claim, ("request bad", "gpu-8 is not on", "delete the pod")

    @staticmethod
    async def not_offered(node: GpuNode) -> Answer:
        claim = await node.claim(node.shared(1))
        return claim, ("request gpu", "gpu-1-timeslicing is no longer offered", "delete the pod and the claim")

    @staticmethod
    async def held_whole(node: GpuNode) -> Answer:
        holder = await node.claim(node.whole(1))
        await prepared(node, holder)
        claim = await node.claim(node.whole(1))
        return claim, ("request gpu", f"prepared for claim default/{holder.name} as gpu-1", "delete this pod")

    @staticmethod
    async def shared_is_held_whole(node: GpuNode) -> Answer:
        holder = await node.claim(node.whole(2))
        await prepared(node, holder)
        claim = await node.claim(node.shared(2))
        return claim, ("request gpu", f"prepared for claim default/{holder.name} as gpu-2:", "delete this pod")

    @staticmethod
    async def whole_is_held_shared(node: GpuNode) -> Answer:
        holder = await node.claim(node.shared(2))
        await prepared(node, holder)
        claim = await node.claim(node.whole(2))
        return claim, (
            "request gpu",
            f"prepared for claim default/{holder.name} as gpu-2-timeslicing",
            "delete this pod",
        )

    @staticmethod
    async def holds_it_twice_itself(node: GpuNode) -> Answer:
        claim = await node.claim(node.whole(2, request="a"), node.shared(2, request="b"))
        return claim, ("request b", "cannot be used together with gpu-2 of the same claim")


BAD: list[Callable[[GpuNode], Awaitable[Bad.Answer]]] = [
    value for name, value in vars(Bad).items() if isinstance(value, staticmethod) and not name.startswith("_")
]


async def refused_alone(node: GpuNode, claim: Claim, *parts: str) -> None:
    good = await node.claim(node.shared(0))
    before = node.prepared()
    answers = await node.kubelet.prepare(claim, good)
    assert set(answers) == {claim.uid, good.uid}
    error = answers[claim.uid].error
    for part in (f"claim {claim.namespace}/{claim.name}", *parts):
        assert part in error
    assert len(error) < 1024
    assert not answers[claim.uid].devices
    assert len(answers[good.uid].devices) == 1
    assert node.prepared() == set(node.specs()) == before | {good.uid}
    # Tried again, as the kubelet does, it fails the same way.
    assert (await node.kubelet.prepare(claim))[claim.uid].error == error


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__func__.__name__)
async def test_bad_claim_fails_alone_and_says_what_to_do(
    node: GpuNode, make: Callable[[GpuNode], Awaitable[Bad.Answer]]
) -> None:
    claim, parts = await make(node)
    await refused_alone(node, claim, *parts)


_DUPLICATE = (
    b'{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":{"strategy":"TimeSlicing",'
    b'"strategy":"MPS"}}'
)
_GOOD = interval_config("Long")


@pytest.mark.parametrize(
    ("configs", "parts"),
    [
        ([opaque({})], ("config of the claim", "apiVersion is None: must be 'resource.nvidia.com/v1beta1'")),
        ([opaque({"apiVersion": "v1", "kind": "GpuConfig"})], ("apiVersion is 'v1': must be",)),
        ([opaque(gpu_config(kind="TpuConfig"))], ("kind is 'TpuConfig': must be one of GpuConfig",)),
        (
            [opaque(gpu_config(kind="MigDeviceConfig"), requests=["gpu"])],
            ("MigDeviceConfig names this", "use GpuConfig"),
        ),
        ([opaque(gpu_config({}))], ("sharing.strategy is missing: add it",)),
        ([opaque(gpu_config({"strategy": "Fair"}))], ("sharing.strategy is 'Fair': must be",)),
        ([opaque(gpu_config({"strategy": "vGPU"}))], ("sharing.strategy is 'vGPU'", "'TimeSlicing' or 'MPS'")),
        ([opaque(gpu_config({"strategy": "TimeSlicing", "mpsConfig": {}}))], ("mpsConfig goes with strategy MPS",)),
        ([opaque(interval_config("Forever"))], ("sharing.timeSlicingConfig.interval is 'Forever': must be",)),
        ([opaque(_GOOD | {"shraing": 1})], ("shraing is not a known field: remove it",)),
        ([opaque(_GOOD, source="FromClass"), opaque({"kind": 1})], ("config of the claim",)),
        # One that cannot be read fails the claim even where a later one would win.
        ([opaque({"kind": 1}, source="FromClass"), opaque(_GOOD)], ("config of the class",)),
        ([opaque(RAW)], ("sharing.strategy is given twice: keep one",)),
        ([opaque({"x": json.loads("[" * 100 + "]" * 100)})], ("nested too deeply",)),
    ],
)
async def test_bad_config_fails_its_claim_alone_and_says_what_to_do(
    node: GpuNode, configs: list[dict[str, Any]], parts: tuple[str, ...]
) -> None:
    claim = await node.claim(node.whole(1), config=configs, raw=_DUPLICATE)
    await refused_alone(node, claim, "request gpu", *parts)
    assert node.time_slices()[1] is Timeslice.DEFAULT


async def test_configs_that_are_not_ours_are_not_read(node: GpuNode) -> None:
    configs = [
        opaque(interval_config("Short"), source="FromClass"),
        opaque(interval_config("Long"), requests=["gpu"]),
        opaque({"nonsense": True}, requests=["other"]),
        {"source": "FromClaim", "opaque": {"driver": OTHER_DRIVER, "parameters": {"nonsense": True}}},
    ]
    theirs = {"request": "other", "driver": OTHER_DRIVER, "pool": node.name, "device": "nic-0"}
    (answer,) = await prepared(node, await node.claim(node.whole(1), theirs, config=configs))
    assert len(answer.devices) == 1
    assert node.time_slices()[1] is Timeslice.LONG


async def test_gpu_that_the_container_runtime_does_not_know(node: GpuNode) -> None:
    (file,) = node.sim.cdi.glob("*.json")
    content = file.read_bytes()
    spec = json.loads(content)
    missing = node.sim.gpus()[1].uuid
    spec["devices"] = [device for device in spec["devices"] if device["name"] != missing]
    file.write_text(json.dumps(spec))
    try:
        claim = await node.claim(node.whole(1))
        why = f"no CDI spec in {node.cdi}, {node.sim.cdi} has the device nvidia.com/gpu={missing}, and none can be"
        await refused_alone(node, claim, why, "install nvidia-container-toolkit on the node, or set --nvidia-ctk")
    finally:
        file.write_bytes(content)
    await prepared(node, claim)


async def test_parts_that_overlap_exclude_each_other_by_name(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB:1") as node:
        await node.decide({"mig": {"profiles": ["1g.10gb", "3g.40gb"]}})
        half = await node.claim(node.whole(device="gpu-0-mig-3g40gb-9-0"))
        beside = await node.claim(node.whole(device="gpu-0-mig-1g10gb-19-4"))
        inside = await node.claim(node.whole(device="gpu-0-mig-1g10gb-19-3"))
        await prepared(node, half, beside)
        error = (await node.kubelet.prepare(inside))[inside.uid].error
        assert f"prepared for claim default/{half.name} as gpu-0-mig-3g40gb-9-0: delete this pod" in error
        await node.kubelet.unprepare(half)
        await prepared(node, inside)


async def test_kubelet_gives_up_waiting_and_asks_again(node: GpuNode) -> None:
    """What a call has begun goes on, and the next one finds it, with all that belongs to it."""
    real = node.sim.nvidia_smi.with_name("real")
    node.sim.nvidia_smi.rename(real)
    node.sim.nvidia_smi.write_text(f'#!/bin/sh\ncase "$*" in *--set*) sleep 4;; esac\nexec {real} "$@"\n')
    node.sim.nvidia_smi.chmod(0o755)
    claim = await node.claim(node.shared(0))
    try:
        error = (await node.kubelet.prepare(claim, within=2))[claim.uid].error
        assert "not ready within the 2 s that the kubelet waits" in error
        (answer,) = await prepared(node, claim)
    finally:
        real.rename(node.sim.nvidia_smi)
    assert len(answer.devices) == 1
    assert node.time_slices()[0] is Timeslice.MEDIUM
    assert set(node.specs()) == {claim.uid}
    await told(node, claim)

    async def reported() -> None:
        assert claim.uid in {entry["uid"] for entry in (await node.sharing())["status"]["claims"]}

    await eventually(reported)
