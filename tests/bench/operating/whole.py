"""The operator as a program: its start, its rest, and how fast it writes a policy to all nodes."""

import asyncio
import re
import time
from typing import Any, Final, NamedTuple

import aiohttp

from agent.on_cluster import Admin
from bench.operating.crowd import Crowd, all_at_once
from bench.operating.process import cpu_seconds, peak_mib, resident_mib
from controller.bed import Operator
from gpusharing.api import strict_json
from gpusharing.kube.kinds import NODE_SHARINGS, SHARING_POLICIES

_REST: Final = 60.0
_POLICY: Final = {"offers": {"timeSlicing": {"maxClients": 16}}}


class Start(NamedTuple):
    seconds: float
    cpu: float
    resident_mib: float
    """When it has come to rest."""
    peak_mib: float


class Rest(NamedTuple):
    writes_a_minute: float
    share_of_a_core: float


class Policy(NamedTuple):
    seconds: float
    bare: float
    """What a writer of the same bytes takes."""


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


async def policy(operator: Operator, admin: Admin, crowd: Crowd) -> Policy:
    """Needs a settled cluster without policies. Leaves one with a policy, and the operator ended."""
    before = await _bodies(admin)
    written = await _written(operator, "ReplaceSpec")
    began = time.perf_counter()
    identity = {"apiVersion": SHARING_POLICIES.api_version, "kind": SHARING_POLICIES.kind}
    await admin.call("POST", SHARING_POLICIES.path(), identity | {"metadata": {"name": "everywhere"}, "spec": _POLICY})
    while await _written(operator, "ReplaceSpec") < written + crowd.nodes:  # noqa: ASYNC110 (it says so nowhere else)
        await asyncio.sleep(0.05)
    seconds = time.perf_counter() - began
    await operator.stop()
    after = await _bodies(admin)
    await _write(admin, before)
    began = time.perf_counter()
    await _write(admin, after)
    return Policy(seconds, time.perf_counter() - began)


async def _bodies(admin: Admin) -> dict[str, Any]:
    """Specs, as they are written."""
    listed = await admin.call("GET", NODE_SHARINGS.path())
    return {item["metadata"]["name"]: item for item in listed["items"]}


async def _write(admin: Admin, bodies: dict[str, Any]) -> None:
    now = await _bodies(admin)
    prepared = {
        name: strict_json.canonical(now[name] | {"spec": body["spec"], "status": {}}) for name, body in bodies.items()
    }
    await all_at_once(admin.call("PUT", NODE_SHARINGS.path(name), body) for name, body in prepared.items())


async def _written(operator: Operator, kind: str = "") -> float:
    async with aiohttp.ClientSession() as session, session.get(f"{operator.url}/metrics") as response:
        text = await response.text()
    pattern = rf'^gpusharing_intents_total{{kind="{kind or "[A-Za-z]+"}",result="written"}} (.+)$'
    return sum(float(value) for value in re.findall(pattern, text, re.MULTILINE))
