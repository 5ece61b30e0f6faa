"""Beside drivers of others on the same kubelet: their pods run, ours too, what is said of them is right, and nothing of
theirs is touched."""

import json
import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gpusharing.api import names
from harness.commands import run
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import policy, template
from node.demos import DEMOS, asks, of_template, pod, request
from node.example_drivers import GPU, OPTIONS, PARTITIONS, manifests, running
from node.test_explain import codes, explain, waiting_with
from node.test_modes import MPS, of_mps
from node.user import SHARED, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

GATES: Final = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
OFFERS: Final[dict[str, Any]] = {"timeSlicing": {"maxClients": 4, "interval": "Medium"}}
KINDS: Final = ("resourceslices", "deviceclasses", "resourceclaims", "devicetaintrules")
_LINE: Final = re.compile(r"\[pod/(?P<where>[^\]]+)\] (?P<variable>[A-Z0-9_]+=.*)")
_DEVICE: Final = re.compile(r"(GPU|NET|CPU)_DEVICE_\w+_RESOURCE_CLAIM=")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path, example_driver: Path) -> AsyncIterator[User]:
    async with GpuCluster(
        node_names=["node-1"],
        gpus="H100-80GB:2",
        feature_gates=GATES,
        runtime_config="scheduling.k8s.io/v1beta1=true",
    ) as cluster:
        user = User(cluster)
        await user.apply(*manifests())
        await user.cluster.kubectl("label", "namespace/default", "resource.kubernetes.io/admin-access=true")
        async with running(cluster, example_driver):
            await published(user)
            await user.apply(policy("shared", offers=OFFERS))
            await user.wait("sharingpolicy/shared", "--for=condition=Ready")
            yield user


async def published(user: User) -> None:
    async def check() -> None:
        drivers = {one["spec"]["driver"] for one in (await user.get("resourceslices"))["items"]}
        assert drivers == {*OPTIONS, names.DRIVER}

    await eventually(check)


async def gpusharing(user: User, *arguments: str) -> str:
    return await run([sys.executable, "-m", "gpusharing", *arguments, "--kubeconfig", user.cluster.kubeconfig])


async def environments(user: User) -> Mapping[str, list[str]]:
    """Of the demos' containers, by pod/container."""
    arguments = ("--selector=app=demo", "--all-containers", "--prefix", "--tail=-1", "--max-log-requests=99")
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in (await user.cluster.kubectl("logs", *arguments)).splitlines():
        if match := _LINE.fullmatch(line):
            found[match["where"]].append(match["variable"])
    return found


async def foreign_objects(user: User) -> dict[str, str]:
    """By kind and name, the versions of what is not ours."""
    found = {}
    for kind in KINDS:
        for one in (await user.get(kind))["items"]:
            if names.DRIVER not in json.dumps(one):
                found[f"{kind}/{one['metadata']['name']}"] = one["metadata"]["resourceVersion"]
    return found


def foreign_files(user: User) -> dict[str, tuple[int, int]]:
    """By path, which file it is, and when it was written."""
    node = user.cluster.node
    _, specs = node.cdi_dirs
    places = [specs, node.kubelet_root / "plugins", node.kubelet_root / "plugins_registry"]
    files = [path for place in places for path in place.rglob("*") if not path.is_dir()]
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in files
        if names.GROUP not in str(path) and f"/{names.DRIVER}" not in str(path)
    }


async def test_all_demos_run(user: User) -> None:
    await user.apply(*(one for demo in DEMOS.values() for one in demo.objects))
    await user.wait("pods", "--selector=app=demo", "--for=condition=Ready")
    found = await environments(user)
    for name, demo in DEMOS.items():
        for container, count in demo.devices.items():
            devices = {one for one in found[container] if _DEVICE.match(one)}
            assert len(devices) == count, (name, container, found[container])
        shown = [one for container in demo.devices for one in found[container]]
        for expected in demo.shows:
            assert any(expected in one for one in shown), (name, expected, shown)


async def test_a_pod_has_devices_of_both(user: User) -> None:
    await user.apply(
        template("both", asks(request(SHARED, "ours"), request(GPU, "theirs"))),
        pod("both", of_template("both")),
    )
    await user.wait("pod/both", "--for=condition=Ready")
    found = (await environments(user))["both/main"]
    assert any(one.startswith("GPUSHARING_GPU_") for one in found)
    assert any(_DEVICE.match(one) for one in found)

    status, said = await explain(user, "pod", "both")
    assert (status, codes(said)) == (0, ["GSH0304"])
    ours, theirs = sorted(said["devices"], key=lambda one: "mode" not in one)
    assert (ours["device"], ours["mode"], ours["policy"]) == ("gpu-0-timeslicing", "TimeSlicing", "shared")
    assert re.fullmatch(rf"{GPU}/node-1/gpu-\d+", theirs["device"])
    unset = dict.fromkeys(("limits", "neighbours", "policy"), "-")
    assert theirs == {"claim": theirs["claim"], "node": "node-1", "device": theirs["device"], **unset}

    status, said = await explain(user, "claim", "common")
    (device,) = said["devices"]
    assert (status, device["node"]) == (0, "node-1")
    assert re.fullmatch(rf"{GPU}/node-1/gpu-\d+", device["device"])


async def test_who_waits_for_their_devices_is_told_why(user: User) -> None:
    """All 16 are in use, and a partition keeps the whole from being allocated."""
    full = f"has(device.attributes['{PARTITIONS}'].full)"
    await user.apply(
        template("whole", asks(request(PARTITIONS, selectors=[full]))),
        pod("whole", of_template("whole"), labels="waits"),
        pod("late", of_template("two"), labels="waits"),
    )
    late = await waiting_with(user, "late", "GSH0205")
    assert "needs 1 of 16 devices, and all are in use" in late["findings"][0]["message"]
    whole = await waiting_with(user, "whole", "GSH0237")
    assert whole["findings"][0]["message"].startswith(
        "Request gpu: 1 device cannot be allocated together with devices that are in use: pod default/partitions"
    )


async def test_of_our_gpu_only_our_device_is_said(user: User) -> None:
    """Theirs have the same names, in pools of the same name."""
    status, said = await explain(user, "gpu", "node-1/gpu-0")
    assert status == 0
    assert "default/both" in json.dumps(said)
    assert "each-0" not in json.dumps(said)
    status, said = await explain(user, "node", "node-1")
    assert (status, [one["inUseAs"] for one in said["gpus"]]) == (0, ["TimeSlicing", "-"])


async def test_a_plan_knows_what_theirs_are(user: User, tmp_path: Path) -> None:
    """Who waits for theirs waits on, also who asks for ours with them; who asks for ours alone starts."""
    full = f"has(device.attributes['{PARTITIONS}'].full)"
    await user.apply(
        template("mps", of_mps("4Gi", 10)),
        template("mixed", asks(request(MPS, "ours"), request(PARTITIONS, "theirs", selectors=[full]))),
        pod("mps", of_template("mps"), labels="waits"),
        pod("mixed", of_template("mixed"), labels="waits"),
    )
    mps = {"maxClients": 4, "memory": {"default": "4Gi", "min": "1Gi"}, "threads": {"default": 25, "min": 5}}
    changed = policy("shared", offers=OFFERS | {"mps": mps})
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(changed))
    found = json.loads(await gpusharing(user, "plan", "-f", str(file), "-o", "json"))
    assert [one["name"] for one in found["starting"]] == ["mps"]
    assert (found["stranded"], found["disturbs"]) == ([], False)
    (node,) = found["nodes"]
    assert [one["slot"] for one in node["gpus"]] == [0, 1]
    assert [device for device in node["devicesAdded"] if "mps" not in device] == []

    await user.apply(changed)
    await user.wait("pod/mps", "--for=condition=Ready")
    waiting = {one["metadata"]["name"] for one in await user.pods("Pending", app="waits")}
    assert waiting == {"late", "whole", "mixed"}


async def test_nothing_of_theirs_is_touched(user: User) -> None:
    """Whatever happens to our agent, up to its end."""
    await user.delete("pods", "both", "mps", "mixed", "--now")

    async def nothing_is_prepared() -> None:
        assert (await user.get("nodesharing", "node-1"))["status"]["claims"] == []

    await eventually(nothing_is_prepared)
    objects, files = await foreign_objects(user), foreign_files(user)
    assert len(objects) > len(OPTIONS) * 2
    assert len(files) > len(OPTIONS) * 4
    pods = await user.pods("Running", app="demo")
    agent = user.cluster.agent
    await agent.kill()
    await agent.start()
    await user.delete("sharingpolicy", "shared")
    await agent.stop()
    place = agent.argv.index("agent") + 1
    said = await run([*agent.argv[:place], "cleanup", *agent.argv[place:]], env=agent.env)
    assert "nothing of the agent is left" in said
    assert await foreign_objects(user) == objects
    assert foreign_files(user) == files
    assert [one["metadata"]["uid"] for one in await user.pods("Running", app="demo")] == [
        one["metadata"]["uid"] for one in pods
    ]


async def test_nobody_of_us_has_written_to_theirs(user: User) -> None:
    writers: dict[bool, set[str]] = {True: set(), False: set()}
    for kind in (*KINDS, "pods", "resourceclaimtemplates"):
        for one in (await user.get(kind, "--show-managed-fields"))["items"]:
            is_ours = names.DRIVER in json.dumps(one["spec"])
            writers[is_ours] |= {entry["manager"] for entry in one["metadata"]["managedFields"]}
    assert any("gpusharing" in one for one in writers[True])
    assert not [one for one in writers[False] if "gpusharing" in one]
