"""The operator as a program: its start, its rest, and how fast it brings an edited policy to all nodes."""

import asyncio
import re
import time
from collections.abc import Awaitable
from typing import Any, Final, NamedTuple

import aiohttp

from agent.on_cluster import Admin
from bench.operating.crowd import Crowd, all_at_once
from bench.operating.process import cpu_seconds, peak_mib, resident_mib
from controller.bed import Operator
from gpusharing.api import strict_json
from gpusharing.kube.kinds import NODE_SHARINGS, SHARING_POLICIES

_REST: Final = 60.0
_EVERYWHERE: Final = "everywhere"
POLICY: Final = {"offers": {"timeSlicing": {"maxClients": 16}}}


class Start(NamedTuple):
    seconds: float
    cpu: float
    resident_mib: float
    """When it has come to rest."""
    peak_mib: float


class Rest(NamedTuple):
    writes_a_minute: float
    share_of_a_core: float


class Edit(NamedTuple):
    seconds: float
    """From the request to edit the policy until each node's spec is written."""
    bare: float
    """What a program takes that only sends the same bytes."""


async def start(operator: Operator) -> Start:
    began = time.perf_counter()
    await operator.start(within=600)
    seconds, cpu = time.perf_counter() - began, cpu_seconds(operator.pid)
    await until_idle(operator.pid)
    return Start(seconds, cpu, resident_mib(operator.pid), peak_mib(operator.pid))


async def until_idle(pid: int) -> None:
    before = float("-inf")
    while cpu_seconds(pid) - before > 0.1:
        before = cpu_seconds(pid)
        await asyncio.sleep(2)


async def rest(operator: Operator) -> Rest:
    """With the looks at everything that it takes now and then."""
    cpu, writes = cpu_seconds(operator.pid), await _written(operator)
    await asyncio.sleep(_REST)
    return Rest(
        (await _written(operator) - writes) * 60 / _REST,
        (cpu_seconds(operator.pid) - cpu) / _REST,
    )


async def edit(operator: Operator, admin: Admin, crowd: Crowd) -> Edit:
    """Of the policy of all nodes. Needs a settled cluster without policies. Leaves one with a policy, and the operator
    ended."""
    identity = {"apiVersion": SHARING_POLICIES.api_version, "kind": SHARING_POLICIES.kind}
    body = identity | {"metadata": {"name": _EVERYWHERE}, "spec": POLICY}
    await _until_written(operator, crowd, admin.call("POST", SHARING_POLICIES.path(), body))
    await until_idle(operator.pid)
    before = await _sharings(admin)
    began = time.perf_counter()
    path = SHARING_POLICIES.path(_EVERYWHERE)
    await _until_written(operator, crowd, admin.merge(path, {"spec": {"offers": {"timeSlicing": {"maxClients": 12}}}}))
    seconds = time.perf_counter() - began
    await operator.stop()
    after = await _sharings(admin)
    await _write(admin, before)
    return Edit(seconds, await _write(admin, after))


async def _until_written(operator: Operator, crowd: Crowd, change: Awaitable[object]) -> None:
    """The spec of each node, once more."""
    written = await _written(operator, "ReplaceSpec")
    await change
    async with asyncio.timeout(300):
        while await _written(operator, "ReplaceSpec") < written + crowd.nodes:  # noqa: ASYNC110 (only there it is said)
            await asyncio.sleep(0.2)


async def _sharings(admin: Admin) -> dict[str, Any]:
    listed = await admin.call("GET", NODE_SHARINGS.path())
    return {item["metadata"]["name"]: item for item in listed["items"]}


async def _write(admin: Admin, sharings: dict[str, Any]) -> float:
    """The specs of these, as the operator sends them. The seconds of the requests alone."""
    bodies: dict[str, bytes] = {}
    for name, now in (await _sharings(admin)).items():
        metadata = NODE_SHARINGS.from_json(now).metadata.for_update()
        identity = {key: now[key] for key in ("apiVersion", "kind")}
        bodies[name] = strict_json.canonical(identity | {"metadata": metadata, "spec": sharings[name]["spec"]})
    began = time.perf_counter()
    await all_at_once(admin.call("PUT", NODE_SHARINGS.path(name), body) for name, body in bodies.items())
    return time.perf_counter() - began


async def _written(operator: Operator, kind: str = "") -> float:
    async with aiohttp.ClientSession() as session, session.get(f"{operator.url}/metrics") as response:
        text = await response.text()
    pattern = rf'^gpusharing_intents_total{{kind="{kind or "[A-Za-z]+"}",result="written"}} (.+)$'
    return sum(float(value) for value in re.findall(pattern, text, re.MULTILINE))
