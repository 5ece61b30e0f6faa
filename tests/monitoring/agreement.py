"""What `gpusharing top`, the scheduler, nvidia-smi and the pods' processes say of the same cluster."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any, NamedTuple

from gpusharing.api import names
from harness.prometheus import Prometheus
from node.user import User


class Seen(NamedTuple):
    """By node and slot."""

    claims: dict[tuple[str, int], set[str]]
    used: dict[tuple[str, int], int]
    """MiB; without GPUs on which nothing is used."""


async def by_top(user: User, prometheus: Prometheus, *arguments: str) -> tuple[Seen, Any]:
    command = [sys.executable, "-m", "gpusharing", "top", "-o", "json", "--prometheus", prometheus.url, *arguments]
    command += ["--kubeconfig", str(user.cluster.kubeconfig)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    claims: dict[tuple[str, int], set[str]] = {}
    used: dict[tuple[str, int], int] = {}
    for node in found["nodes"]:
        for gpu in node["gpus"]:
            place = node["name"], int(gpu["name"].removeprefix("gpu-"))
            if gpu["holders"]:
                claims[place] = {f"{one['namespace']}/{one['claim']}" for one in gpu["holders"]}
            if memory := gpu.get("memoryUsedMiB"):
                used[place] = memory
    return Seen(claims, used), found


async def by_claims(user: User) -> dict[tuple[str, int], set[str]]:
    """As the scheduler allocated them."""
    claims: dict[tuple[str, int], set[str]] = {}
    for claim in (await user.get("resourceclaims", "--all-namespaces"))["items"]:
        allocation = claim.get("status", {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", ()):
            slot = names.slot_of_device(result["device"])
            assert slot is not None
            place = names.node_of_pool(result["pool"]), slot
            claims.setdefault(place, set()).add(f"{claim['metadata']['namespace']}/{claim['metadata']['name']}")
    return claims


async def by_nvidia_smi(user: User) -> dict[tuple[str, int], int]:
    """Memory of processes, by the GPU."""
    used: Counter[tuple[str, int]] = Counter()
    for node, simulated in user.cluster.simulated.items():
        slots = {gpu.uuid: slot for slot, gpu in enumerate(simulated.gpus())}
        command = [
            str(simulated.nvidia_smi),
            "--query-compute-apps=gpu_uuid,used_memory",
            "--format=csv,noheader,nounits",
        ]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=True, env=simulated.environment(os.environ)
        )
        for line in done.stdout.splitlines():
            uuid, memory = line.split(", ")
            used[node, slots[uuid]] += int(memory)
    return dict(used)
