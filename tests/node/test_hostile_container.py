"""A container with root and everything that MPS gives it, against the agent of its node and all others on it.

While it tries, other pods come and go: none of them waits longer than usual, the agent is never started again, and
nobody else's files are touched.
"""

import asyncio
import json
import re
import statistics
import time
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gpusharing.sim import mps
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.mounts import daemons_in
from harness.workloads import claim_spec, pod, policy, template
from node.user import SHARED, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

MPS: Final = "mps.gpu.nvidia.com"
PIPE: Final = "/tmp/nvidia-mps"
PID_FILE: Final = f"{PIPE}/nvidia-cuda-mps-control.pid"
CONTROL: Final = "$DRIVER/bin/nvidia-cuda-mps-control"
DEEP: Final = "cd /dev/shm && i=0 && while [ $i -lt 1500 ]; do mkdir a && cd a || exit; i=$((i+1)); done"
MANY: Final = "i=0; while [ $i -lt 70000 ]; do : > /dev/shm/many-$i || exit; i=$((i+1)); done"

# Each is a script of the container's shell. What the second column names has to fail.
ATTACKS: Final[dict[str, tuple[str, bool]]] = {
    # On the directory of sockets.
    "FIFO as pid file": (f"rm -f {PID_FILE}; mkfifo {PID_FILE}", True),
    "sparse pid file": (f"truncate -s 400G {PID_FILE}", True),
    "wrong pid": (f"echo 1 > {PID_FILE}", True),
    "own pid": (f"echo $$ > {PID_FILE}", True),
    "device as pid file": (f"mknod {PID_FILE} c 1 5", True),
    "link as pid file": (f"ln -s /dev/zero {PID_FILE}", True),
    "remove control": (f"rm -f {PIPE}/control", True),
    "remove log": (f"rm -f {PIPE}/log", True),
    "remove all": (f"rm -rf {PIPE}/*", True),
    "FIFO as control": (f"mkfifo {PIPE}/control_privileged", True),
    "directory as control": (f"mkdir {PIPE}/control_privileged", True),
    "rename control": (f"mv {PIPE}/control {PIPE}/other", True),
    "replace the directory": (f"mv {PIPE} /tmp/away", True),
    "remove the directory": (f"rmdir {PIPE}", True),
    "chmod control": (f"chmod 000 {PIPE}/control", True),
    "chmod the directory": (f"chmod 000 {PIPE}", True),
    "chown control": (f"chown 1000 {PIPE}/control", True),
    "chown the directory": (f"chown 1000:1000 {PIPE}", True),
    "hard link": (f"ln {PIPE}/control {PIPE}/again", True),
    "hard link out": (f"ln {PIPE}/control /dev/shm/control", True),
    "touch": (f"touch {PIPE}/control", True),
    "new file": (f"echo x > {PIPE}/file", True),
    "deep tree of sockets": (f"mkdir -p {PIPE}/a/b/c/d", True),
    "link to the host": (f"ln -s /etc {PIPE}/etc", True),
    "mount over control": (f"mount --bind /etc/passwd {PIPE}/control", True),
    "mount it writable": (f"mount -o remount,rw,bind {PIPE}", True),
    "unmount it": (f"umount {PIPE}", True),
    "unmount lazily": (f"umount -l {PIPE}", True),
    "fill its disk": (f"dd if=/dev/zero of={PIPE}/full bs=1M count=64", True),
    "flood the log": (f"timeout 3 sh -c 'while :; do head -c 65536 /dev/zero > {PIPE}/log; done'", True),
    # By NVIDIA's own program.
    "quit": (f"echo quit | {CONTROL}", True),
    "quit at once": (f"echo quit -t 0 | {CONTROL}", True),
    "raise the threads": (f"echo set_default_active_thread_percentage 100 | {CONTROL}", True),
    "raise the memory": (f"echo set_default_device_pinned_mem_limit 0 80G | {CONTROL}", True),
    "list servers": (f"echo get_server_list | {CONTROL}", True),
    "second daemon": (f"CUDA_MPS_LOG_DIRECTORY=/dev/shm timeout 2 {CONTROL} -f", True),
    "daemon of its own": (
        f"cd /dev/shm; export CUDA_MPS_PIPE_DIRECTORY=$PWD CUDA_MPS_LOG_DIRECTORY=$PWD; timeout 2 {CONTROL} -f",
        True,
    ),
    # As a client.
    # It ends orderly when it is told to.
    "client without end": ("timeout 2 $DRIVER/bin/cuda-process --memory=16M", False),
    "hundred clients": (
        "i=0; while [ $i -lt 100 ]; do timeout 3 $DRIVER/bin/cuda-process --memory=1M & i=$((i+1)); done; wait; false",
        True,
    ),
    "more memory than it may": ("timeout 3 $DRIVER/bin/cuda-process --memory=70G", True),
    "limits of its own": (
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=80G timeout 3 $DRIVER/bin/cuda-process --memory=70G",
        True,
    ),
    # On shared memory, which is the container's to write.
    "FIFO": ("mkfifo /dev/shm/fifo", False),
    "device": ("mknod /dev/shm/device c 1 5 && cat /dev/shm/device", True),
    "program": ("cp /bin/sh /dev/shm/sh && /dev/shm/sh -c true", True),
    "set-uid program": ("cp /bin/sh /dev/shm/suid && chmod 4755 /dev/shm/suid && /dev/shm/suid -c true", True),
    "links to the host": ("ln -s / /dev/shm/root && ln -s ../../../../etc /dev/shm/etc", False),
    "link to itself": ("ln -s loop /dev/shm/loop", False),
    "socket": ("timeout 1 nc -l -U /dev/shm/socket || false", True),
    "sparse file": ("truncate -s 3G /dev/shm/sparse", False),
    "closed directory": ("mkdir /dev/shm/closed && chmod 000 /dev/shm/closed && chmod 000 /dev/shm", False),
    "renames without end": (
        "cd /dev/shm; timeout 3 sh -c 'while :; do mkdir x; mv x y; rmdir y; ln -s / x; rm x; done'",
        True,
    ),
    "odd names": ("cd /dev/shm; : > \"$(printf 'a\\nb')\"; : > \"$(printf '\\377')\"; : > '-rf'", False),
    "deep tree": (DEEP, False),
    "very many files": (MANY, True),
    "full memory": ("dd if=/dev/zero of=/dev/shm/full bs=1M count=300", True),
    "unmount shared memory": ("umount /dev/shm", True),
    # On what tells it of its devices.
    "metadata": ("f=$(find /var/run/kubernetes.io -name '*.json'); echo x > $f", True),
    "remove metadata": ("rm -rf /var/run/kubernetes.io", True),
}
SHM_SIZE: Final = "128Mi"
# What a neighbour may do that is no attack: it computes on all processors.
COMPUTE: Final = "for _ in 1 2; do timeout {seconds} sh -c 'while :; do :; done' & done; wait; true"
READINGS: Final = 5
# Of a Prepare that waits for nobody, on a machine with more to do than it can.
LONGEST: Final = 3.0
CLAIMS: Final = 2
"""In one reading. Each of them may have met the machine's longest stall."""


@dataclass(frozen=True)
class Reading:
    """Of the claims of two pods together, in seconds."""

    prepare: float
    unprepare: float
    stall: float
    """The longest that anybody waited meanwhile for a program that does nothing to start and end."""


class Stalls:
    """What the machine takes from everybody, measured beside the agent."""

    def __init__(self) -> None:
        self._longest = 0.0

    async def measure(self) -> None:
        while True:
            began = time.monotonic()
            await (await asyncio.create_subprocess_exec("true")).wait()
            self._longest = max(self._longest, time.monotonic() - began)
            await asyncio.sleep(0.02)

    def take(self) -> float:
        """Since the last time."""
        longest, self._longest = self._longest, 0.0
        return longest


class Bystanders:
    """Pods that come and go, and how long the agent took for each of their claims."""

    def __init__(self, user: User, stalls: Stalls) -> None:
        self._user = user
        self._agent = user.cluster.agent
        self._stalls = stalls
        self._number = 0

    async def come_and_go(self) -> Reading:
        """The time of Prepare and of Unprepare; by both ways of sharing, the second one with the attacker."""
        self._number += 1
        self._stalls.take()
        before = await asyncio.to_thread(self._sums)
        names = [f"{way}-{self._number}" for way in ("share", "mps")]
        await self._user.apply(*(pod(name, template=name.partition("-")[0]) for name in names))
        await self._user.wait(*(f"pod/{name}" for name in names), "--for=condition=Ready")
        await self._user.delete("pod", *names, "--wait=true")

        async def given_back() -> None:
            after = await asyncio.to_thread(self._sums)
            assert after["unprepare", "count"] == before["unprepare", "count"] + 2

        await eventually(given_back)
        after = await asyncio.to_thread(self._sums)
        prepare, unprepare = (after[step, "sum"] - before[step, "sum"] for step in ("prepare", "unprepare"))
        return Reading(prepare, unprepare, self._stalls.take())

    async def until_agent_answers(self) -> None:
        async def answers() -> None:
            try:
                await asyncio.to_thread(self._sums)
            except OSError as error:
                raise AssertionError from error

        await eventually(answers)

    def _sums(self) -> dict[tuple[str, str], float]:
        listening = [json.loads(line) for line in self._agent.log.read_text().splitlines() if '"listening"' in line]
        with urllib.request.urlopen(f"http://127.0.0.1:{listening[-1]['port']}/metrics", timeout=10) as page:
            text = page.read().decode()
        sums: dict[tuple[str, str], float] = {}
        for step, kind, value in re.findall(
            r"^gpusharing_agent_(\w+?)_duration_seconds_(sum|count)\S* (\S+)$", text, re.MULTILINE
        ):
            sums[step, kind] = sums.get((step, kind), 0) + float(value)
        return {
            (step, kind): sums.get((step, kind), 0) for step in ("prepare", "unprepare") for kind in ("sum", "count")
        }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    options = ("--mps-shm-size", SHM_SIZE)
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:2", agent_options=options) as cluster:
        user = User(cluster)
        offers = {
            "timeSlicing": {"maxClients": 8},
            "mps": {
                "maxClients": 8,
                "memory": {"default": "4Gi", "min": "1Gi", "max": "8Gi"},
                "threads": {"default": 10},
            },
        }
        await user.apply(policy("shared", offers=offers))
        await user.wait("sharingpolicy/shared", "--for=condition=Ready")
        await user.apply(template("share", claim_spec(SHARED)), template("mps", claim_spec(MPS)))
        yield user


def attacker(user: User) -> dict[str, Any]:
    """As a container has NVIDIA's programs: from its driver."""
    made = pod("attacker", template="mps")
    driver = str(user.cluster.sim_node.directory)
    made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": driver}}]
    (container,) = made["spec"]["containers"]
    container["volumeMounts"] = [{"name": "driver", "mountPath": driver, "readOnly": False}]
    container["env"] = [{"name": "DRIVER", "value": driver}]
    return made


async def test_a_hostile_container_harms_nobody_else(user: User) -> None:
    cluster = user.cluster
    assert len(ATTACKS) >= 40
    await user.apply(attacker(user))
    await user.wait("pod/attacker", "--for=condition=Ready")
    stalls = Stalls()
    measuring = asyncio.create_task(stalls.measure())
    bystanders = Bystanders(user, stalls)
    usual = [await bystanders.come_and_go() for _ in range(READINGS)]
    computing = asyncio.create_task(_execute(user, COMPUTE.format(seconds=20)))
    while not computing.done():
        usual.append(await bystanders.come_and_go())
    agent, daemon = cluster.agent.pid, mps.running_daemons(cluster.sim_node.programs)
    witness = cluster.mps_directory(cluster.node).with_name("witness")
    witness.write_text("mine")

    attacked = asyncio.create_task(_attack(user))
    times = []
    began = time.monotonic()
    while not attacked.done():
        times.append(await bystanders.come_and_go())
    measuring.cancel()
    results = await attacked
    assert time.monotonic() - began < 120
    assert {name for name, succeeded in results.items() if succeeded} == {
        name for name, (_, fails) in ATTACKS.items() if not fails
    }

    print(*(f"usual    {one}" for one in usual), *(f"attacked {one}" for one in times), sep="\n")
    assert times
    _is_no_slower([one.prepare for one in usual], [(one.prepare, one.stall) for one in times])
    _is_no_slower([one.unprepare for one in usual], [(one.unprepare, one.stall) for one in times])
    assert cluster.agent.pid == agent
    assert cluster.agent.running
    assert mps.running_daemons(cluster.sim_node.programs) == daemon
    assert witness.read_text() == "mine"

    # An agent that starts now finds all of it, and the end of the pod leaves nothing.
    await cluster.agent.restart()
    await bystanders.until_agent_answers()
    await bystanders.come_and_go()
    await user.delete("pods", "--all")
    await user.nothing_prepared()

    async def as_before() -> None:
        assert daemons_in(cluster.mps_directory(cluster.node)) == []
        assert mps.running_daemons(cluster.sim_node.programs) == []

    await eventually(as_before)
    assert witness.read_text() == "mine"


def _is_no_slower(usual: list[float], now: list[tuple[float, float]]) -> None:
    """Each is at most twice what was usual beside somebody who only computes, but for what the machine itself took from
    everybody meanwhile."""
    for seconds, stall in now:
        assert seconds <= 2 * max(usual) + CLAIMS * stall
        assert seconds < LONGEST
    unstalled = statistics.median(seconds - stall for seconds, stall in now)
    assert unstalled <= max(2 * statistics.median(usual), *usual)


async def _execute(user: User, script: str) -> str:
    return await user.cluster.kubectl("exec", "attacker", "--container=main-0", "--", "sh", "-c", script)


async def _attack(user: User) -> dict[str, bool]:
    """Which of them got what they wanted."""
    results = {}
    for name, (script, _) in ATTACKS.items():
        limited = 'timeout 10 sh -c "$0" > /dev/null 2>&1 && echo yes || echo no'
        done = await user.cluster.kubectl("exec", "attacker", "--container=main-0", "--", "sh", "-c", limited, script)
        results[name] = done.strip() == "yes"
    return results
