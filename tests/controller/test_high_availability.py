"""Two operators: one leads, the other stands by, and no write is made twice or by who does not lead."""

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import pytest
import pytest_asyncio

from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.kube.kinds import LEASES
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE

pytestmark = pytest.mark.cluster

LEASE: Final = 9
"""Seconds. The machine of the tests may be busy; a shorter one would be lost without anybody's doing."""

_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"


class Write(NamedTuple):
    by: str
    """Each operator has a token of its own."""
    at: str
    verb: str
    what: str
    code: int


class Replicas:
    def __init__(self, cluster: ControlPlane, audit_log: Path) -> None:
        self._cluster = cluster
        self._audit_log = audit_log
        self.all: list[Operator] = []

    async def add(self) -> Operator:
        name = f"replica-{len(self.all)}-{time.monotonic_ns()}"
        replica = await Operator.of(self._cluster, f"--lease-duration={LEASE}", log=name)
        # Not overwritten by the next one's.
        own = replica.kubeconfig.with_name(f"{name}.kubeconfig")
        shutil.copy(replica.kubeconfig, own)
        replica.argv[replica.argv.index(str(replica.kubeconfig))] = str(own)
        replica.kubeconfig = own
        self.all.append(replica)
        await replica.start()
        return replica

    def writes(self) -> list[Write]:
        """All that they asked to be written, but for the lease."""
        lines = (json.loads(line) for line in self._audit_log.read_text().splitlines())
        return [
            Write(
                request["user"]["extra"][_CREDENTIAL][0],
                request["requestReceivedTimestamp"],
                request["verb"],
                "/".join(request["objectRef"].get(key, "") for key in ("resource", "name")),
                request["responseStatus"]["code"],
            )
            for request in lines
            if request["verb"] in {"create", "update", "patch", "delete"}
            and request["objectRef"]["resource"] not in {"leases", "events"}
        ]


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "log"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: object, audit_log: Path) -> AsyncIterator[ControlPlane]:
    policy = audit_log.with_name("policy")
    users = [f"system:serviceaccount:{NAMESPACE}:gpusharing-operator"]
    rules = [{"level": "Metadata", "users": users}]
    policy.write_text(
        json.dumps(
            {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules, "omitStages": ["RequestReceived"]}
        )
    )
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    async with ControlPlane(apiserver_flags=flags) as control_plane:
        await install(control_plane)
        yield control_plane


@pytest_asyncio.fixture
async def they(cluster: ControlPlane) -> AsyncIterator[Everybody]:
    async with everybody(cluster) as they:
        yield they
        await they.clean_up()


@pytest_asyncio.fixture
async def replicas(cluster: ControlPlane, audit_log: Path) -> AsyncIterator[Replicas]:
    replicas = Replicas(cluster, audit_log)
    yield replicas
    for replica in replicas.all:
        if replica.running:
            os.kill(replica.pid, signal.SIGCONT)
        await replica.stop()


async def ended(replica: Operator, *, within: float) -> int | None:
    """Its exit code."""

    async def running() -> bool:
        return replica.running

    await eventually(running, expected=False, within=within)
    assert replica._child is not None
    return replica._child.returncode


async def answer(replica: Operator, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{replica.url}/{path}") as response:
        return response.status, (await response.text()).strip()


async def test_one_leads_and_the_other_is_ready_to(replicas: Replicas, they: Everybody) -> None:
    first, second = await replicas.add(), await replicas.add()
    await they.make_node("n1", gpus=2)
    await they.apply_policy("shared")
    await eventually(lambda: they.winners("n1"), ["shared", "shared"])
    await they.agent_acts("n1")
    await eventually(lambda: they.ready_reason("shared"), "Ready")
    assert (await first.leads(), await second.leads()) == (True, False)
    assert [await answer(replica, "readyz") for replica in (first, second)] == [(200, "ok"), (200, "standing by")]
    assert [await answer(replica, "healthz") for replica in (first, second)] == [(200, "ok")] * 2
    # It watches nothing, and costs the API server nothing but a look at the lease.
    assert await second.metric('gpusharing_objects{kind="Node"}') == 0
    assert len({write.by for write in replicas.writes()}) == 1
    # So that sums over both are right.
    assert await first.metrics_of("shared", "policy_gpus") == {("won",): 2}
    assert await second.metrics_of("shared", "policy_gpus") == {}
    # SIGTERM ends one that stands by as well.
    await second.stop()
    assert await ended(second, within=1) == 0
    assert await first.leads()


async def test_when_the_leader_is_killed_the_other_leads_within_its_lease(replicas: Replicas, they: Everybody) -> None:
    first, second = await replicas.add(), await replicas.add()
    await they.make_node("n1")
    await eventually(lambda: they.winners("n1"), [None])
    known = len(replicas.writes())
    await first.kill()
    began = time.monotonic()
    await they.apply_policy("shared")
    await eventually(second.leads, expected=True, within=2 * LEASE)
    print(f"led after {time.monotonic() - began:.1f} s of {LEASE} s")
    await eventually(lambda: they.winners("n1"), ["shared"])
    await they.agent_acts("n1")
    await eventually(lambda: they.ready_reason("shared"), "Ready")
    _each_was_right(replicas.writes()[known:])


async def test_who_is_told_to_end_hands_over_at_once(replicas: Replicas, they: Everybody) -> None:
    first, second = await replicas.add(), await replicas.add()
    await they.make_node("n1")
    await they.apply_policy("shared")
    await eventually(lambda: they.winners("n1"), ["shared"])
    known = len(replicas.writes())
    began = time.monotonic()
    await first.stop()
    await eventually(second.leads, expected=True, within=LEASE / 2)
    print(f"led after {time.monotonic() - began:.1f} s of {LEASE} s")
    assert await ended(first, within=1) == 0
    await they.delete_policy("shared")
    await eventually(lambda: they.winners("n1"), [None])
    _each_was_right(replicas.writes()[known:])
    lease = await they.api.get(LEASES, "gpusharing-operator", NAMESPACE)
    assert lease.spec.lease_duration_seconds == LEASE


async def test_who_was_stopped_for_long_writes_nothing_more(replicas: Replicas, they: Everybody) -> None:
    """A machine that stands still, or a pause of a virtual one: it does not know that time has passed."""
    first, second = await replicas.add(), await replicas.add()
    await they.make_node("n1")
    await eventually(lambda: they.winners("n1"), [None])
    (leader,) = {write.by for write in replicas.writes()[-1:]}
    os.kill(first.pid, signal.SIGSTOP)
    # What it was told last, it will want to act on when it goes on.
    await they.apply_policy("shared")
    await eventually(second.leads, expected=True, within=2 * LEASE)
    await eventually(lambda: they.winners("n1"), ["shared"])
    await they.delete_policy("shared")
    await eventually(lambda: they.winners("n1"), [None])
    known = len(replicas.writes())
    os.kill(first.pid, signal.SIGCONT)
    assert await ended(first, within=LEASE) == 1
    assert first.logged()[-1]["event"] == "lease lost"
    assert await second.leads()
    assert [write for write in replicas.writes()[known:] if write.by == leader] == []


async def test_while_the_api_server_is_away_the_leader_ends_and_then_another_one_leads(
    cluster: ControlPlane, replicas: Replicas, they: Everybody
) -> None:
    first, second = await replicas.add(), await replicas.add()
    await they.make_node("n1")
    await eventually(lambda: they.winners("n1"), [None])
    async with _away(cluster):
        assert await ended(first, within=2 * LEASE) == 1
        assert "could not be renewed in time" in first.logged()[-1]["error"]
        await eventually(lambda: _is_ready(second), expected=False, within=2 * LEASE)
        assert (await answer(second, "healthz"))[0] == 200
    await eventually(second.leads, expected=True, within=2 * LEASE)
    await they.apply_policy("shared")
    await eventually(lambda: they.winners("n1"), ["shared"])


@pytest.mark.parametrize("number", range(3))
async def test_hand_overs_in_the_midst_of_work_write_nothing_twice(
    replicas: Replicas, they: Everybody, number: int
) -> None:
    """Each of thirty nodes is written as often as what it should be changed, whoever does it."""
    names = [f"n{index}" for index in range(30)]
    await replicas.add()
    for name in names:
        await they.make_node(name)
    await eventually(lambda: _all_winners(they, names), {None})
    generations = [(await they.sharing(name)).metadata.generation for name in names]
    known = len(replicas.writes())
    await replicas.add()
    await they.apply_policy("shared")
    await asyncio.sleep(0.05 * number)
    await replicas.all[0].stop()
    await eventually(lambda: _all_winners(they, names), {"shared"}, within=2 * LEASE)
    after = [(await they.sharing(name)).metadata.generation for name in names]
    assert [now - before for now, before in zip(after, generations, strict=True)] == [1] * len(names)
    _each_was_right(replicas.writes()[known:])


def _each_was_right(writes: list[Write]) -> None:
    """None came too late, and after one of them has written, those before it never do again."""
    # 504: given up by who was told to end. 201: the policy's class, when the garbage collector has come for that of the
    # test before, which takes up to half a minute; whoever makes it a second time gets a 409.
    # What the test deleted while a write was on its way, and what Kubernetes' garbage collector then took.
    gone = {(404, "sharingpolicies/shared"), (404, "deviceclasses/shared-timeslicing")}
    unusual = [write for write in writes if write.code not in {200, 201, 504}]
    assert {(write.code, write.what) for write in unusual} <= gone, writes
    order = [write.by for write in sorted(writes, key=lambda write: write.at)]
    handed_over = [by for index, by in enumerate(order) if index == 0 or order[index - 1] != by]
    assert len(handed_over) == len(set(handed_over)), writes


async def _all_winners(they: Everybody, names: list[str]) -> set[str | None]:
    return {winner for name in names for winner in await they.winners(name) or ["nobody has decided"]}


async def _is_ready(replica: Operator) -> bool:
    return (await answer(replica, "readyz"))[0] == 200


@asynccontextmanager
async def _away(cluster: ControlPlane) -> AsyncIterator[None]:
    await cluster.apiserver.kill()
    try:
        yield
    finally:
        await cluster.apiserver.start()
