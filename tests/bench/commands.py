"""`make bench-commands`: how long commands take: on their own, and in front of a thousand nodes."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from agent.on_cluster import RESOURCE, Admin
from bench import document, pages
from bench.figures import HEADER, Figure, absolute, p50
from bench.layouts import EVERY_MODE
from bench.operating.crowd import GPUS, Crowd, all_at_once, control_plane_alone, node_name
from building import uuid
from gpusharing.api import names
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.node_spec import (
    AllocatedDevice,
    ClaimSharing,
    GpuSharing,
    NodeSharingSpec,
    PolicyReference,
    Verdict,
)
from gpusharing.api.sharing.offers import Interval
from gpusharing.kube.kinds import NODE_SHARINGS
from gpusharing.snapshots import file
from harness import toolchain
from harness.controlplane import ControlPlane
from planning.fleets import Fleet, mps, policy, time_slicing

NODES: Final = 1000
CLAIMS: Final = 10_000
ROUNDS: Final = 5
_CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"
_PODS: Final = "/api/v1/namespaces/default/pods"
_ASKERS: Final[dict[str, dict[str, Any]]] = {
    "asks for too much memory": {
        "deviceClassName": "timeslicing.gpu.nvidia.com",
        "capacity": {"requests": {"memory": "90Gi"}},
    },
    "asks for more GPUs than a node has free": {"deviceClassName": "gpu.nvidia.com", "count": 8},
}


class Run(NamedTuple):
    seconds: float
    cpu: float
    resident_mib: float


# A child's peak begins with that of the process that it comes from, and this one has held whole fleets.
_SMALL_PARENT: Final = """
import json, os, sys, time
began = time.perf_counter()
silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
pid = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ, file_actions=silent)
_, status, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - began
cpu = usage.ru_utime + usage.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, cpu, usage.ru_maxrss / 1024]))
"""


def run(*arguments: str) -> Run:
    """A command, from its start to its end."""
    command = [sys.executable, "-c", _SMALL_PARENT, "-m", "gpusharing", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, *figures = json.loads(done.stdout)
    if code not in {0, 3, 4}:
        raise RuntimeError(done.stderr)
    return Run(*figures)


def _printed(*arguments: str) -> str:
    command = [sys.executable, "-m", "gpusharing", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _check_that_all_was_read(*arguments: str, nodes: int) -> None:
    printed = _printed(*arguments, "-o", "json")
    steps = json.loads(printed)["steps"]
    published = sum(len(spec.get("devices", ())) for spec in EVERY_MODE.slices(node_name(0)))
    if [int(step["devices"]) for step in steps] != [nodes * published]:
        raise RuntimeError(f"not all devices were looked at: {printed}")


async def several(*arguments: str) -> Run:
    """The medians, after once for nothing: files are read, and the API server is warm."""
    await asyncio.to_thread(run, *arguments)
    runs = [await asyncio.to_thread(run, *arguments) for _ in range(ROUNDS)]
    return Run(
        p50([one.seconds for one in runs]), p50([one.cpu for one in runs]), max(one.resident_mib for one in runs)
    )


async def starts() -> list[Figure]:
    figures: list[Figure] = []
    for arguments in (("--version",), *((name, "--help") for name in ("explain", "plan", "top", "ui", "validate"))):
        found = await several(*arguments)
        name = f"`gpusharing {' '.join(arguments)}`, median of {ROUNDS}"
        figures.append(absolute(name, found.seconds, "s", at_most=0.3))
    return figures


async def explains(nodes: int, claims: int) -> list[Figure]:
    figures: list[Figure] = []
    async with control_plane_alone() as (control_plane, admin):
        crowd = Crowd(admin)
        await crowd.grow(nodes=nodes, claims=claims)
        await all_at_once(_publish(admin, number) for number in range(nodes))
        await all_at_once(_decide(admin, number, claims // nodes) for number in range(nodes))
        fleet = f"{nodes:,} nodes x 8 GPUs, {claims:,} claims"
        name = f"`gpusharing top`, {fleet}"
        figures += await _top(control_plane, name, nodes=nodes, claims=claims, waiting=0)
        for asker, asked in _ASKERS.items():
            figures += await _explain(control_plane, admin, asker, asked, nodes=nodes, fleet=fleet)
        name += f", {len(_ASKERS)} pods wait"
        figures += await _top(control_plane, name, nodes=nodes, claims=claims, waiting=len(_ASKERS))
        figures += await pages.figures(control_plane.kubeconfig, admin, fleet)
    return figures


async def plans(nodes: int) -> list[Figure]:
    """A mode is taken from GPUs that have 10 claims on each node, half of which share."""
    with TemporaryDirectory() as name:
        snapshot, manifest = Path(name) / "snapshot.json", Path(name) / "policy.json"
        snapshot.write_text(file.dumps(_fleet(nodes).world()))
        manifest.write_text(json.dumps(policy("all", offers={"exclusive": {}, **mps(8)})))
        found = await several("plan", "-f", str(manifest), "--snapshot", str(snapshot))
    fleet = f"{nodes:,} nodes x 8 GPUs, {nodes * 10:,} claims, from a file"
    return [
        absolute(f"`gpusharing plan`, {fleet}, median of {ROUNDS}", found.seconds, "s", at_most=10),
        absolute("`gpusharing plan`, CPU of the command", found.cpu, "s", at_most=10),
        absolute("`gpusharing plan`, resident memory, most", found.resident_mib, "MiB", at_most=500),
    ]


def _fleet(nodes: int) -> Fleet:
    offers = {"exclusive": {}, **time_slicing(4), **mps(8), "mig": {"profiles": ["1g.10gb", "3g.40gb"]}}
    fleet = Fleet(nodes=nodes, gpus=8, policies=[policy("all", offers=offers)])
    fleet.namespaces = {f"team-{number}": {} for number in range(20)}
    for number in range(nodes):
        where: dict[str, Any] = {"node": f"node-{number}", "namespace": f"team-{number % 20}"}
        for place in range(8):
            fleet.hold(f"gpu-{place // 4}-timeslicing", **where)
        fleet.hold("gpu-2", **where)
        fleet.hold("gpu-3", **where)
    for number in range(200):
        fleet.wait("mps.gpu.nvidia.com" if number % 2 else "gpu.nvidia.com", namespace=f"team-{number % 20}")
    return fleet


async def _publish(admin: Admin, number: int) -> None:
    node = node_name(number)
    for index, spec in enumerate(EVERY_MODE.slices(node)):
        body = {"metadata": {"name": f"{index:05x}-{node}"}, "spec": spec}
        await admin.call("POST", f"{RESOURCE}/resourceslices", body)


async def _decide(admin: Admin, number: int, claims: int) -> None:
    """As the operator writes it: for each GPU offers and who holds it, for each claim its settings."""
    node = node_name(number)
    policy = PolicyReference(name="production-sharing", generation=1)
    held = [(f"{number:08}-0000-4000-8000-{claim:012}", claim % GPUS) for claim in range(claims)]
    spec = NodeSharingSpec(
        gpus=tuple(
            GpuSharing(
                uuid=uuid(slot, node),
                policy=policy,
                priority=0,
                offers=EVERY_MODE.offers,
                allocated=tuple(
                    AllocatedDevice(claim=uid, device=names.time_sliced_device(slot), share_id=uid)
                    for uid, place in held
                    if place == slot
                ),
            )
            for slot in range(GPUS)
        ),
        claims=tuple(
            ClaimSharing(
                uid=uid,
                claim=f"default/claim-{uid[:8]}",
                allocation_hash="0" * 16,
                verdict=Verdict.ALLOWED,
                settings=(
                    DeviceSettings(request="gpu", device=names.time_sliced_device(slot), interval=Interval.MEDIUM),
                ),
            )
            for uid, slot in held
        ),
    )
    await admin.merge(f"{NODE_SHARINGS.path()}/{node}", {"spec": spec.to_json()})


async def _top(control_plane: ControlPlane, name: str, *, nodes: int, claims: int, waiting: int) -> Sequence[Figure]:
    command = ("top", "--kubeconfig", str(control_plane.kubeconfig))
    total = json.loads(await asyncio.to_thread(_printed, *command, "-o", "json"))
    seen = (total["total"]["gpus"], total["total"]["claims"], sum("finding" in one for one in total["waiting"]))
    if seen != (nodes * GPUS, claims, waiting):
        raise RuntimeError(f"top has seen {seen} of GPUs, claims and pods that wait")
    found = await several(*command)
    return [
        absolute(f"{name}, median of {ROUNDS}", found.seconds, "s", at_most=3),
        absolute(f"{name}, CPU of the command", found.cpu, "s", at_most=2),
        absolute(f"{name}, resident memory, most", found.resident_mib, "MiB", at_most=200),
    ]


async def _explain(
    control_plane: ControlPlane, admin: Admin, name: str, asked: dict[str, Any], *, nodes: int, fleet: str
) -> Sequence[Figure]:
    pod = name.replace(" ", "-").lower()
    devices = {"requests": [{"name": "gpu", "exactly": asked}]}
    await admin.call("POST", _CLAIMS, {"metadata": {"name": pod}, "spec": {"devices": devices}})
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": pod}], "containers": [container]}
    await admin.call("POST", _PODS, {"metadata": {"name": pod}, "spec": spec})
    command = ("explain", "pod", pod, "--kubeconfig", str(control_plane.kubeconfig))
    await asyncio.to_thread(_check_that_all_was_read, *command, nodes=nodes)
    found = await several(*command)
    what = f"`gpusharing explain pod`, it {name}"
    return [
        absolute(f"{what}, {fleet}, median of {ROUNDS}", found.seconds, "s", at_most=2),
        absolute(f"{what}, CPU of the command", found.cpu, "s", at_most=1),
        absolute(f"{what}, resident memory, most", found.resident_mib, "MiB", at_most=300),
    ]


async def measure(nodes: int) -> list[Figure]:
    return [*await starts(), *await plans(nodes), *await explains(nodes, claims=CLAIMS * nodes // NODES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="with fewer the figures are only printed")
    nodes = parser.parse_args().nodes
    toolchain.build()
    load = os.getloadavg()[0]
    figures = asyncio.run(measure(nodes))
    table = "\n".join([HEADER, *(figure.row() for figure in figures)])
    text = f"{table}\n\nThe machine's load before it began: {load:.1f} on {os.cpu_count()} cores."
    print(text)
    if nodes == NODES:
        document.write("make bench-commands", text)


if __name__ == "__main__":
    main()
