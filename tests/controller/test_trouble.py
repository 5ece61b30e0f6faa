"""What the operator makes of an API server that is slow, that refuses, or that has another history than before."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from controller.bed import Everybody, Operator, eventually, everybody, install
from controller.test_high_availability import answer, ended
from gpusharing.controller.watching.deafness import GIVES_UP_AFTER
from gpusharing.kube.kinds import LEASES
from gpusharing.kube.watches import DEAF_AFTER
from harness.controlplane import ControlPlane
from harness.etcd_copy import EtcdCopy, raise_revision
from harness.eventually import PATIENCE
from harness.gpu_cluster import NAMESPACE
from harness.proxy import Proxy

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LEASE: Final = 15
"""Seconds: the default duration."""
HASTY: Final = Path(__file__).parent / "programs/hasty.py"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: object) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        yield control_plane


@pytest_asyncio.fixture
async def they(cluster: ControlPlane) -> AsyncIterator[Everybody]:
    async with everybody(cluster) as they:
        yield they
        await they.clean_up()


@pytest_asyncio.fixture
async def wire(cluster: ControlPlane) -> AsyncIterator[Proxy]:
    """Between the operator and the API server."""
    async with Proxy(cluster.address, urlsplit(cluster.url).port or 0) as wire:
        yield wire


@asynccontextmanager
async def operator_behind(
    wire: Proxy, cluster: ControlPlane, *options: str, hasty: float | None = None
) -> AsyncIterator[Operator]:
    """One that is hasty takes watches for broken, and gives up, so many times sooner."""
    operator = await Operator.of(cluster, *options, log=f"operator-{time.monotonic_ns()}")
    if hasty:
        operator.argv[1:3] = [str(HASTY), str(hasty)]
    text = operator.kubeconfig.read_text()
    operator.kubeconfig.write_text(text.replace(cluster.url, f"https://{cluster.address}:{wire.port}"))
    async with operator:
        try:
            yield operator
        except BaseException:
            print(operator.last_lines(40))
            raise


async def holder(they: Everybody) -> str | None:
    return (await they.api.get(LEASES, "gpusharing-operator", NAMESPACE)).spec.holder_identity


@pytest.mark.parametrize("quiet", [True, False], ids=["nothing is written", "others write"])
async def test_when_history_has_gone_back_it_says_so_and_begins_anew(
    cluster: ControlPlane, they: Everybody, wire: Proxy, *, quiet: bool
) -> None:
    # Longer than all of this: it is not the lease that ends it.
    async with operator_behind(wire, cluster, "--lease-duration=120") as operator:
        await they.make_node("n1")
        await eventually(lambda: they.winners("n1"), [None])
        copy = EtcdCopy(cluster)
        await they.apply_policy("lost")
        await eventually(lambda: they.winners("n1"), ["lost"])
        await raise_revision(cluster, by=500)
        await they.agent_acts("n1")
        await eventually(lambda: they.ready_reason("lost"), "Ready")
        began = time.monotonic()
        await copy.put_back(away=0)
        away = time.monotonic() - began
        if not quiet:
            await they.apply_policy("new")
        assert await ended(operator, within=15) == 1
        print(f"away for {away:.1f} s, ended {time.monotonic() - began - away:.1f} s after that")
        said = [entry["event"] for entry in operator.logged() if entry["level"] in {"error", "critical"}]
        assert said[-1] == "history went back"
        assert "Traceback" not in operator.log.read_text()
        # The next one need not wait.
        assert not await holder(they)
        await operator.start()
        if quiet:
            await they.apply_policy("new")
        await eventually(lambda: they.winners("n1"), ["new"])


async def test_slow_answers_leave_it_the_lease(cluster: ControlPlane, they: Everybody, wire: Proxy) -> None:
    """Of the default duration."""
    async with operator_behind(wire, cluster) as operator:
        await they.make_node("n1")
        await eventually(lambda: they.winners("n1"), [None])
        wire.answers_take = (2.0, 5.0)
        slow_since = time.monotonic()
        for number in range(2):
            began = time.monotonic()
            await they.apply_policy(f"edit-{number}", priority=number)
            await eventually(lambda: they.winners("n1"), [f"edit-{number}"])
            print(f"in force after {time.monotonic() - began:.1f} s")
        # For two leases, so that nothing from before counts any more.
        await asyncio.sleep(max(0, 2 * LEASE - (time.monotonic() - slow_since)))
        assert await operator.leads()
        assert operator.running
        said = [entry["event"] for entry in operator.logged()]
        print({event: said.count(event) for event in ("lease not renewed", "lease still ours")})
        assert said.count("leading") == 1
        # One that begins behind such a wire leads as well.
        await operator.restart()
        began = time.monotonic()
        await they.apply_policy("last", priority=9)
        await eventually(lambda: they.winners("n1"), ["last"], within=90)
        print(f"in force {time.monotonic() - began:.1f} s after the start")


RIGHTS = "clusterrole/gpusharing-operator"


@asynccontextmanager
async def without_claims(cluster: ControlPlane) -> AsyncIterator[None]:
    """The operator may not read claims any more; only new requests are refused."""
    role = json.loads(await cluster.kubectl("get", RIGHTS, "--output=json"))
    changed = json.loads(json.dumps(role))
    for rule in changed["rules"]:
        rule["resources"] = [name for name in rule["resources"] if name != "resourceclaims"]
    changed["rules"] = [rule for rule in changed["rules"] if rule["resources"]]
    await _apply_role(cluster, changed)
    try:
        yield
    finally:
        await _apply_role(cluster, role)


async def _apply_role(cluster: ControlPlane, role: dict[str, Any]) -> None:
    role["metadata"].pop("resourceVersion", None)
    await cluster.kubectl("replace", "--filename=-", stdin=json.dumps(role))


async def test_a_leader_that_is_deaf_says_so_and_makes_way(cluster: ControlPlane, they: Everybody, wire: Proxy) -> None:
    """After 6 s rather than 30, and 24 rather than 120."""
    faster = 5.0
    async with operator_behind(wire, cluster, hasty=faster) as operator:
        await they.make_node("n1")
        await eventually(lambda: they.winners("n1"), [None])
        metric = 'gpusharing_watch_broken_seconds{kind="ResourceClaim"}'
        assert await operator.metric(metric) == 0
        async with without_claims(cluster):
            await wire.cut()
            await wire.mend()
            began = time.monotonic()

            async def ready() -> int:
                return (await answer(operator, "readyz"))[0]

            await eventually(ready, 503)
            print(f"not ready after {time.monotonic() - began:.0f} s")
            assert await operator.leads()
            assert DEAF_AFTER / faster < await operator.metric(metric) < GIVES_UP_AFTER / faster
            assert await ended(operator, within=PATIENCE) == 1
            print(f"ended after {time.monotonic() - began:.0f} s")
            assert time.monotonic() - began > GIVES_UP_AFTER / faster
        broken = [entry for entry in operator.logged() if entry["event"] == "watch broken"]
        assert {entry["kind"] for entry in broken if "403" in entry["error"]} == {"ResourceClaim"}
        assert len([entry for entry in broken if "403" in entry["error"]]) == 1
        last = operator.logged()[-1]
        assert last["event"] == "cluster cannot be read"
        assert "ResourceClaim cannot be watched since 20" in last["error"]
        assert not await holder(they)


@pytest.mark.parametrize("definition", ["sharingpolicies", "nodesharings"])
async def test_a_definition_that_is_deleted_and_applied_again(
    cluster: ControlPlane, they: Everybody, wire: Proxy, definition: str
) -> None:
    async with operator_behind(wire, cluster) as operator:
        await they.make_node("n1")
        await eventually(lambda: they.winners("n1"), [None])
        await cluster.kubectl("delete", "crd", f"{definition}.gpusharing.dev")
        await asyncio.sleep(12)
        await install(cluster)
        if definition == "nodesharings":
            await cluster.kubectl("delete", "node", "n1")
            await they.make_node("n1")
        await they.apply_policy("new")
        began = time.monotonic()
        await eventually(lambda: they.winners("n1"), ["new"], within=30)
        print(f"in force {time.monotonic() - began:.1f} s after it was applied again")
        assert operator.running
        assert "Traceback" not in operator.log.read_text()
