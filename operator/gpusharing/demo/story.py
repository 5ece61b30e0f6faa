"""The story: what a platform team and its tenants do, and what comes of it. What is told was asserted before."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from gpusharing.api import names
from gpusharing.cli.top.amounts import gibibytes
from gpusharing.core.text import counted
from gpusharing.demo.cluster import CLAIMS, NODE_SHARINGS, PODS, POLICIES, SLICES, Json
from gpusharing.demo.manifests import MIG_PROFILE, namespace, pod, policy, template
from gpusharing.demo.narrator import Narrator, StoryError
from gpusharing.demo.nodes import GPUS
from gpusharing.demo.picture import fleet, world_of
from gpusharing.demo.stage import MINOR, Stage
from gpusharing.kube.transport import ApiError
from gpusharing.occupancy.usage import Usage
from gpusharing.sim.faults import GpuLost
from gpusharing.sim.state import Timeslice

RESEARCH, SERVING, LAB = "research", "serving", "lab"
_NOTEBOOKS: Final = 7
_OFFERS: Final[Mapping[str, Any]] = {
    "exclusive": {},
    "timeSlicing": {"maxClients": 4, "interval": "Short"},
    "mps": {"maxClients": 8, "memory": {"default": "8Gi", "min": "1Gi"}, "threads": {"default": 25}},
    "mig": {"profiles": [MIG_PROFILE]},
}
_AGENTS: Final = "Read the agent's log with --keep."


class Story:
    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator
        self._stage: Stage = narrator.stage
        self._cluster = self._stage.cluster
        self._modes = {name: offer for name, offer in _OFFERS.items() if self._stage.is_isolated or name != "mps"}
        self._found: Mapping[str, Sequence[Any]] = {}

    @property
    def steps(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return (
            self.nodes_join,
            self.one_user_each,
            self.a_policy_is_applied,
            self.notebooks_share,
            self.servers_share,
            self.greed_meets_a_wall,
            self.mig_is_cut,
            self.mig_is_given_back,
            self.others_are_denied,
            self.a_gpu_is_lost,
            self.a_change_is_planned,
            self.everything_goes_back,
        )

    async def run(self) -> None:
        await self._prepare()
        for step in self.steps:
            await step()

    async def _prepare(self) -> None:
        for name in (RESEARCH, SERVING, LAB):
            await self._cluster.apply(namespace(name, team=name))
        for where, name, device_class, capacity in (
            (RESEARCH, "whole-gpu", "gpu.nvidia.com", {}),
            (RESEARCH, "share", "timeslicing.gpu.nvidia.com", {}),
            (RESEARCH, "instance", "mig.nvidia.com", {}),
            (SERVING, "mps-16gi", "mps.gpu.nvidia.com", {"memory": "16Gi"}),
        ):
            await self._cluster.apply(template(name, where, device_class, **capacity))

    # -------------------------------------------------------------------------------------------------------- the steps

    async def nodes_join(self) -> None:
        tell = self._narrator
        await tell.begin("Three GPU nodes join the cluster.")
        count = sum(len(node.gpus.gpus()) for node in self._stage.nodes)
        await tell.fact(
            "The agents",
            f"{count} GPUs are published",
            lambda: len(self._devices()) == count and not self._tainted(),
            remedy=_AGENTS,
            otherwise=lambda: f"{counted(len(self._devices()), 'device')} are",
        )
        self._found = {node.name: _settings(node.gpus.gpus()) for node in self._stage.nodes}
        models = ", ".join(f"{count} x {model}" for model, _, count in (gpus.partition(":") for gpus in GPUS.values()))
        await tell.say(f"Their agents found {count} GPUs ({models}).")
        await tell.say("There is no policy yet, so each GPU is offered whole, to one claim.")
        await tell.end()

    async def one_user_each(self) -> None:
        tell = self._narrator
        await tell.begin(f"{_NOTEBOOKS} notebooks ask for a GPU each.")
        await self._start(RESEARCH, "whole-gpu", *_notebooks(), memory="2G", utilization=8)
        await self._are_running(RESEARCH, "notebook", _NOTEBOOKS - 1)
        seen = await tell.fact(
            f"Pod {RESEARCH}/notebook-{_NOTEBOOKS}",
            "it waits for a GPU",
            lambda: found if (found := fleet(world_of(self._cluster, minor=MINOR), Usage())).waiting else None,
            remedy="Look at its conditions.",
        )
        processes = [one for node in self._stage.nodes for gpu in node.gpus.gpus() for one in gpu.processes]
        used, total = sum(one.memory for one in processes) // 1024**3, gibibytes(seen.total.memory)
        await tell.say(
            f"{_NOTEBOOKS - 1} run, and use {used} of {total} GiB. One waits. `gpusharing explain` says why:"
        )
        if finding := seen.waiting[0].finding:
            await tell.quote(f"{finding.code} {finding.entry.title}")
        await tell.end()

    async def a_policy_is_applied(self) -> None:
        tell = self._narrator
        await self._end_all(RESEARCH)
        await tell.begin(f"The notebooks end, and one policy offers the GPUs in {_WORDS[len(self._modes)]} modes.")
        made = policy("all-modes", offers=self._modes)
        before = len(self._devices())
        await tell.quote(_as_yaml(made["spec"]))
        tell.acts()
        await self._cluster.apply(made)
        await self._is_ready("all-modes")
        await self._offers_everything()
        took = tell.took
        clients = self._policy("all-modes")["status"]["clients"]["max"]
        await tell.say(
            f"It is in force after {took}: {len(self._devices())} devices in place of {before}, "
            f"for up to {clients} clients."
        )
        await tell.say("Only the H100s have MIG as well: L4s do not know it, and A100s would have to be reset for it.")
        if not self._stage.is_isolated:
            await tell.say("MPS is left out: this system gives no user namespaces, which its daemons need here.")
        await tell.end()

    async def notebooks_share(self) -> None:
        tell = self._narrator
        await tell.begin(f"The same {_NOTEBOOKS} notebooks ask for a share, by time-slicing.")
        await self._start(RESEARCH, "share", *_notebooks(), memory="2G", utilization=8, node="ada")
        await self._are_running(RESEARCH, "notebook", _NOTEBOOKS)
        taken = {one["device"] for one in self._allocated(RESEARCH)}
        await tell.say(f"All run, on {counted(len(taken), 'GPU')} in place of {_NOTEBOOKS}.")
        await tell.fact(
            "Node ada",
            "the time slices of its GPUs are Short",
            lambda: all(gpu.timeslice is Timeslice.SHORT for gpu in self._stage.node("ada").gpus.gpus()),
            remedy=_AGENTS,
        )
        await tell.say("The driver's time slices are Short, as the policy says.")
        await tell.end()

    async def servers_share(self) -> None:
        if "mps" not in self._modes:
            return
        tell = self._narrator
        await tell.begin("Inference servers ask for 16 GiB each, by MPS: their kernels run at the same time.")
        await self._start(SERVING, "mps-16gi", *_servers(), memory="9G", utilization=25, node="ampere")
        await self._are_running(SERVING, "server", len(_servers()))
        await tell.fact(
            "Node ampere",
            "one MPS daemon serves them",
            lambda: len(self._stage.node("ampere").gpus.mps_daemons()) == 1,
            remedy=_AGENTS,
        )
        await tell.say(f"{len(_servers())} run on one GPU, with one MPS daemon that limits the memory of each.")
        await tell.end()

    async def greed_meets_a_wall(self) -> None:
        if "mps" not in self._modes:
            return
        tell = self._narrator
        await tell.begin("One more server has a claim for 16 GiB, and takes 30.")
        await self._start(SERVING, "mps-16gi", "greedy", memory="30G", node="ampere", once=True)
        ended = await tell.fact(
            f"Pod {SERVING}/greedy", "it fails", lambda: self._error(SERVING, "greedy"), remedy=_AGENTS
        )
        await tell.quote(ended)
        await self._are_running(SERVING, "server", len(_servers()))
        await tell.say(f"It alone fails. The other {len(_servers())} run on.")
        await self._delete(SERVING, "greedy")
        await tell.end()

    async def mig_is_cut(self) -> None:
        tell = self._narrator
        await tell.begin(f"Training jobs ask for MIG instances of {MIG_PROFILE}.")
        tell.acts()
        await self._start(RESEARCH, "instance", *_trainings(), memory="8G", utilization=0, node="hopper")
        await self._are_running(RESEARCH, "training", len(_trainings()))
        took = tell.took
        await tell.fact(
            "Node hopper",
            f"its GPUs have {len(_trainings())} MIG instances",
            lambda: sum(len(gpu.gpu_instances) for gpu in self._stage.node("hopper").gpus.gpus()) == len(_trainings()),
            remedy=_AGENTS,
        )
        await tell.say(
            f"The agent turned on MIG mode and cut {len(_trainings())} instances. The jobs run after {took}."
        )
        await tell.say("Each has its own memory and its own compute units: nobody disturbs it.")
        await tell.end()

    async def mig_is_given_back(self) -> None:
        tell = self._narrator
        await tell.begin("The training jobs end.")
        tell.acts()
        await self._delete(RESEARCH, *_trainings())
        hopper = self._stage.node("hopper")
        await tell.fact(
            "Node hopper",
            "its GPUs have no MIG instances any more",
            lambda: not any(gpu.gpu_instances for gpu in hopper.gpus.gpus()),
            remedy=_AGENTS,
        )
        await self._offers_everything("hopper")
        await tell.say(f"After {tell.took} the instances are gone, and the GPU is offered in all modes again.")
        await tell.end()

    async def others_are_denied(self) -> None:
        tell = self._narrator
        await tell.begin(f"A second policy reserves the H100s for the team {SERVING}.")
        tell.acts()
        await self._cluster.apply(
            policy(
                "for-serving",
                priority=100,
                nodes={"matchLabels": {"kubernetes.io/hostname": "hopper"}},
                offers={"exclusive": {}},
                tenants={"namespaces": {"matchLabels": {"team": SERVING}}},
            )
        )
        await self._is_ready("for-serving")
        await tell.say(f"It is in force after {tell.took}. Team {LAB} asks for one:")
        refused = template("reserved", LAB, "for-serving-exclusive")
        try:
            await self._cluster.apply(refused)
        except ApiError as error:
            await tell.quote(error.message.partition("denied request: ")[2] or error.message)
        else:
            raise StoryError(
                f"ResourceClaimTemplate {LAB}/reserved: it was not refused. Look at guard gpusharing-claims."
            )
        await self._cluster.apply(template("reserved", SERVING, "for-serving-exclusive"))
        await self._start(SERVING, "reserved", "model", memory="60G", utilization=70)
        await self._are_running(SERVING, "model", 1)
        await tell.say(f"The same claim of team {SERVING} gets an H100.")
        await tell.end()

    async def a_gpu_is_lost(self) -> None:
        tell = self._narrator
        ada = self._stage.node("ada")
        lost = self._gpu_of(RESEARCH, "notebook-1")
        users = [name for name in _notebooks() if self._gpu_of(RESEARCH, name) == lost]
        await tell.begin("The L4 of notebook-1 falls off the bus.")
        tell.acts()
        ada.gpus.inject(GpuLost(gpu=lost))
        messages = await tell.fact(
            f"Pods {', '.join(users)}",
            "their status says that the GPU is unhealthy",
            lambda: [found[name] for name in users] if (found := self._ill_pods(RESEARCH)).keys() >= {*users} else None,
            remedy=_AGENTS,
        )
        await tell.say(f"After {tell.took} the status of its {len(users)} pods says so:")
        await tell.quote(messages[0])
        await tell.fact("Node ada", "the lost GPU has a taint", self._tainted, remedy=_AGENTS)
        await self._start(RESEARCH, "share", "notebook-8", memory="2G", utilization=8, node="ada")
        await self._are_running(RESEARCH, "notebook-8", 1)
        await tell.say("A new notebook gets the other L4.")
        await tell.end()

    async def a_change_is_planned(self) -> None:
        tell = self._narrator
        await tell.begin("Nobody should get a time-slice any more. What would that do?")
        offers = {name: offer for name, offer in self._modes.items() if name != "timeSlicing"}
        changed = policy("all-modes", offers=offers, rollout={"disruption": "Evict"})
        answer = await asyncio.to_thread(self._plan, changed)
        await tell.say("`gpusharing plan` says, before anything is changed:")
        await tell.quote(_changes_of_gpus(answer))
        await tell.end()

    async def everything_goes_back(self) -> None:
        tell = self._narrator
        await tell.begin(
            "Everything goes back: pods and policies are deleted, and the node with the lost GPU is rebooted."
        )
        for name in (RESEARCH, SERVING):
            await self._end_all(name)
        await self._cluster.delete(POLICIES, *self._cluster.all(POLICIES))
        await self._stage.node("ada").reboot()
        count = sum(len(node.gpus.gpus()) for node in self._stage.nodes)
        await tell.fact(
            "The agents",
            f"{count} whole GPUs are published, as at the beginning",
            lambda: len(self._devices()) == count and not self._tainted(),
            remedy=_AGENTS,
            otherwise=lambda: f"{counted(len(self._devices()), 'device')} are",
        )
        await tell.fact(
            "GPUs",
            "they have the settings that they had",
            lambda: not self._changed(),
            remedy=_AGENTS,
            otherwise=lambda: f"others on {', '.join(self._changed())}",
        )
        await tell.say(f"The {count} GPUs are as they were found: no instance, no daemon, no setting is left.")
        await tell.end()

    # ----------------------------------------------------------------------------------------------------- what they do

    async def _start(
        self,
        namespace: str,
        template: str,
        *names: str,
        memory: str,
        utilization: int = 0,
        node: str = "",
        once: bool = False,
    ) -> None:
        await self._cluster.apply(
            *(
                pod(one, namespace, template, memory=memory, utilization=utilization, node=node, once=once)
                for one in names
            )
        )

    async def _delete(self, namespace: str, *names: str) -> None:
        found = [one for name in names if (one := self._cluster.get(PODS, name, namespace))]
        await self._cluster.delete(PODS, *found)
        await self._narrator.fact(
            f"Pods {', '.join(names)}",
            "they are gone, and their claims",
            lambda: not self._left(namespace, names),
            remedy=_AGENTS,
            otherwise=lambda: ", ".join(self._left(namespace, names)),
        )

    async def _end_all(self, namespace: str) -> None:
        names = [
            one["metadata"]["name"] for one in self._cluster.all(PODS) if one["metadata"]["namespace"] == namespace
        ]
        await self._delete(namespace, *names)

    def _left(self, namespace: str, names: Sequence[str]) -> list[str]:
        return [
            f"{kind.kind} {one['metadata']['name']}"
            for kind in (PODS, CLAIMS)
            for one in self._cluster.all(kind)
            if one["metadata"]["namespace"] == namespace and one["metadata"]["name"].startswith(tuple(names))
        ]

    def _plan(self, changed: Json) -> str:
        command = [sys.executable, "-m", "gpusharing", "plan", "-f", "-", "--kubeconfig", str(self._stage.kubeconfig)]
        command += ["--full-menus", "2"]
        # Who shows it breaks the lines.
        environment = {**os.environ, "COLUMNS": "1000"}
        done = subprocess.run(
            command, input=yaml.safe_dump(changed), capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode:
            raise StoryError(f"gpusharing plan: exit code {done.returncode}: {done.stderr}")
        return done.stdout

    # ---------------------------------------------------------------------------------------------------- what they see

    async def _are_running(self, namespace: str, prefix: str, count: int) -> None:
        def running() -> int:
            found = [one for one in self._pods(namespace, prefix) if one["status"].get("phase") == "Running"]
            return len(found)

        await self._narrator.fact(
            f"Pods {namespace}/{prefix}*",
            f"{count} run",
            lambda: running() == count,
            remedy="Look at their conditions.",
            otherwise=lambda: "; ".join(_state(one) for one in self._pods(namespace, prefix)),
        )

    async def _is_ready(self, name: str) -> None:
        await self._narrator.fact(
            f"SharingPolicy {name}",
            "it is ready",
            lambda: self._condition(name).get("status") == "True",
            remedy="Look at its conditions.",
            otherwise=lambda: self._condition(name).get("message", ""),
        )

    async def _offers_everything(self, node: str = "") -> None:
        """All modes on idle GPUs."""
        wanted = {names.Sharing.TIME_SLICING, names.Sharing.EXCLUSIVE, names.Sharing.MIG}
        if "mps" in self._modes:
            wanted.add(names.Sharing.MPS)

        def missing() -> list[str]:
            found = {(one[0], names.slot_of_device(one[1]), names.sharing_of_device(one[1])) for one in self._devices()}
            return [
                f"{mode} on {each.name}/gpu-{slot}"
                for each in self._stage.nodes
                if node in {"", each.name}
                for slot in range(len(each.gpus.gpus()))
                for mode in wanted - ({names.Sharing.MIG} if each.name != "hopper" else set())
                if (each.name, slot, mode) not in found
            ]

        await self._narrator.fact(
            "ResourceSlices",
            "all modes are published",
            lambda: not missing(),
            remedy=_AGENTS,
            otherwise=lambda: f"missing: {', '.join(missing())}",
        )

    def _pods(self, namespace: str, prefix: str) -> list[dict[str, Any]]:
        return [
            one
            for one in self._cluster.all(PODS)
            if one["metadata"]["namespace"] == namespace and one["metadata"]["name"].startswith(prefix)
        ]

    def _devices(self) -> list[tuple[str, str]]:
        """Node and name of each that is published."""
        return [
            (one["spec"]["nodeName"], device["name"])
            for one in self._cluster.all(SLICES)
            for device in one["spec"].get("devices") or ()
        ]

    def _changed(self) -> list[str]:
        """Nodes that are not as they were found."""
        return [
            node.name
            for node in self._stage.nodes
            if self._found[node.name] != _settings(node.gpus.gpus()) or node.gpus.mps_daemons()
        ]

    def _tainted(self) -> list[str]:
        return [
            device["name"]
            for one in self._cluster.all(SLICES)
            for device in one["spec"].get("devices") or ()
            if device.get("taints")
        ]

    def _allocated(self, namespace: str) -> Iterator[Json]:
        for claim in self._cluster.all(CLAIMS):
            if claim["metadata"]["namespace"] == namespace and (claim.get("status") or {}).get("allocation"):
                yield from claim["status"]["allocation"]["devices"]["results"]

    def _gpu_of(self, namespace: str, pod: str) -> str:
        """Its uuid."""
        [result] = [
            result
            for claim in self._cluster.all(CLAIMS)
            if any(one["name"] == pod for one in (claim.get("status") or {}).get("reservedFor") or ())
            and claim["metadata"]["namespace"] == namespace
            for result in claim["status"]["allocation"]["devices"]["results"]
        ]
        sharing = self._cluster.get(NODE_SHARINGS, names.node_of_pool(result["pool"])) or {}
        slot = names.slot_of_device(result["device"])
        return str(next(gpu["uuid"] for gpu in sharing["status"]["gpus"] if gpu["slot"] == slot))

    def _policy(self, name: str) -> dict[str, Any]:
        return self._cluster.get(POLICIES, name) or {}

    def _condition(self, name: str) -> Mapping[str, str]:
        """Ready, of the newest spec."""
        found = self._policy(name)
        conditions: Sequence[dict[str, Any]] = (found.get("status") or {}).get("conditions") or ()
        for one in conditions:
            if one["type"] == "Ready" and one.get("observedGeneration") == found["metadata"]["generation"]:
                return one
        return {}

    def _error(self, namespace: str, name: str) -> str:
        found = self._cluster.get(PODS, name, namespace) or {"status": {}}
        states = [one["state"] for one in found["status"].get("containerStatuses") or ()]
        return next((one["terminated"]["message"] for one in states if one.get("terminated")), "")

    def _ill_pods(self, namespace: str) -> Mapping[str, str]:
        """With what they are told."""
        return {
            one["metadata"]["name"]: resource.get("message", "")
            for one in self._pods(namespace, "")
            for container in one["status"].get("containerStatuses") or ()
            for claim in container.get("allocatedResourcesStatus") or ()
            for resource in claim["resources"]
            if resource["health"] == "Unhealthy"
        }


_WORDS: Final = {3: "three", 4: "four"}


def _notebooks() -> list[str]:
    return [f"notebook-{number}" for number in range(1, _NOTEBOOKS + 1)]


def _servers() -> list[str]:
    return [f"server-{number}" for number in range(1, 4)]


def _trainings() -> list[str]:
    return [f"training-{number}" for number in range(1, 4)]


def _state(pod: Json) -> str:
    name, status = pod["metadata"]["name"], pod["status"]
    states = [one["state"] for one in status.get("containerStatuses") or ()]
    said = [next(iter(one.values())).get("message", "") for one in states]
    said += [one.get("message", "") for one in status.get("conditions") or ()]
    return ": ".join(filter(None, (name, status.get("phase", ""), *said)))


def _settings(gpus: Sequence[Any]) -> Sequence[Any]:
    """What agents change."""
    return [(one.uuid, one.compute_mode, one.timeslice, one.mig_mode, one.gpu_instances) for one in gpus]


def _as_yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=100)).rstrip()


def _changes_of_gpus(plan: str) -> str:
    """All of them; the sections below say what else changes."""
    return "\n".join(filter(None, plan.partition("\nPolicies\n")[0].splitlines()))
