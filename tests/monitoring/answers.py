"""Who has what: the API's answer, and those of nvidia-smi, the dashboard, `top` and the page of `ui`."""

import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.core import quantities
from gpusharing.ui.exchange import Request
from gpusharing.ui.site import UiSite
from harness.commands import run
from harness.gpu_cluster import GpuCluster
from harness.prometheus import Prometheus, Sample
from monitoring.expressions import PANELS, rendered

Answer = Mapping[str, Mapping[str, Any]]
"""By pod: some of `node`, `gpu` and `mig` (UUIDs), `device`, `mode`, `ratio`, and `memory` (used, in GiB)."""

GIB: Final = 1024**3
_ROW: Final = re.compile(r'<tr id="gpu-([\w-]+)-(\d+)".*?class="mode">([A-Za-z]+).*?class="who"(.*?)</tr>', re.DOTALL)
_WHO: Final = re.compile(r"<li class=\"\w+\">default/([\w-]+)(?: <small>(.*?)</small>)?</li>")
_USED: Final = re.compile(r"([\d.]+) (?:of [\d.]+ GiB|GiB used)")
_UUID: Final = re.compile(r"<dt>UUID</dt><dd>(.*?)</dd>")
_USERS: Final = re.compile(r'aria-label="default/([\w-]+)">.*?<dt>Device</dt><dd>(.*?)</dd>', re.DOTALL)
_LISTED: Final = re.compile(r"^(GPU|  MIG) .*\(UUID: (.*)\)$", re.MULTILINE)


class Sources:
    def __init__(self, cluster: GpuCluster, prometheus: Prometheus, site: UiSite) -> None:
        self._cluster = cluster
        self._prometheus = prometheus
        self._site = site

    @property
    def others(self) -> Mapping[str, Callable[[], Awaitable[Answer]]]:
        """All but the API."""
        return {
            "nvidia-smi": self.nvidia_smi,
            "dashboard": self.dashboard,
            "top": self.top,
            "page": self.page,
            "page in a file": self.page_in_a_file,
        }

    # ------------------------------------------------------------------------------------------------------- the API

    async def api(self) -> Answer:
        """By the word of the scheduler, and of the agents about their GPUs."""
        sharings = (await self._cluster.get("nodesharings"))["items"]
        gpus = {
            (one["metadata"]["name"], gpu["slot"]): gpu["uuid"] for one in sharings for gpu in one["status"]["gpus"]
        }
        devices = await self._devices()
        found: dict[str, Mapping[str, Any]] = {}
        for claim in await self._claims():
            (user,) = claim["status"]["reservedFor"]
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            name = result["device"]
            device = devices[result["pool"], name]
            found[user["name"]] = {
                "node": result["pool"],
                "gpu": gpus[result["pool"], names.slot_of_device(name)],
                "mig": device["attributes"]["uuid"]["string"] if "mig" in name else "",
                "device": name,
                "mode": names.sharing_of_device(name),
                "ratio": round(_ratio(result, device), 3),
            }
        return found

    async def migs_of_slices(self) -> set[str]:
        """MIG devices that have a UUID: those that are cut."""
        devices = (await self._devices()).values()
        attributes = [one["attributes"] for one in devices if one["attributes"]["type"]["string"] == "mig"]
        return {one["uuid"]["string"] for one in attributes if "uuid" in one}

    async def _claims(self) -> list[Any]:
        return list((await self._cluster.get("resourceclaims"))["items"])

    async def _devices(self) -> Mapping[tuple[str, str], Any]:
        slices = (await self._cluster.get("resourceslices"))["items"]
        return {
            (one["spec"]["pool"]["name"], device["name"]): device
            for one in slices
            for device in one["spec"].get("devices", [])
        }

    # ------------------------------------------------------------------------------------------------------ the nodes

    async def nvidia_smi(self) -> Answer:
        """Of programs in containers."""
        found = {}
        for node, simulated in self._cluster.simulated.items():
            asked = ["--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"]
            for line in (await run([simulated.nvidia_smi, *asked])).splitlines():
                gpu, pid, memory = line.split(", ")
                # An MPS server is a program of the agent.
                if device := _option(pid, "--gpu="):
                    mig = device if device.startswith("MIG-") else ""
                    found[_hostname(pid)] = {"node": node, "gpu": gpu, "mig": mig, "memory": int(memory) / 1024}
        return found

    async def migs_of_gpus(self) -> set[str]:
        listed = [await run([one.nvidia_smi, "-L"]) for one in self._cluster.simulated.values()]
        return {uuid for text in listed for kind, uuid in _LISTED.findall(text) if kind != "GPU"}

    # ------------------------------------------------------------------------------------------------- Prometheus, top

    async def dashboard(self) -> Answer:
        """Its table of claims, and the series behind its other panels."""
        pods = {claim["metadata"]["uid"]: _pod_of(claim) for claim in await self._claims()}
        shown = await self._panel("Claims and their GPUs")
        infos = {_key(one): one for one in await self._query("gpusharing_claim_device_info")}
        used = {_key(one): one.value / GIB for one in await self._query("gpusharing_claim_memory_used_bytes")}
        return {
            pods.get(one.labels["claim_uid"], one.labels["claim"]): _known(
                node=one.labels["node"],
                gpu=one.labels["gpu_uuid"],
                mig=infos[_key(one)].labels.get("mig_uuid", "") if _key(one) in infos else None,
                device=one.labels["device"],
                mode=one.labels["sharing"],
                ratio=round(one.value, 3),
                memory=used.get(_key(one)),
            )
            for one in shown
        }

    async def by_gpu(self, panel: str) -> Mapping[str, float]:
        return {one.labels["gpu_uuid"]: round(one.value, 3) for one in await self._panel(panel) if one.value}

    async def shares(self) -> Mapping[str, tuple[float, float]]:
        """Taken and free, by mode."""
        told = {(one.labels["sharing"], one.labels["state"]): one.value for one in await self._panel("Shares")}
        return {mode.value: (told[mode, "taken"], told[mode, "free"]) for mode in Sharing}

    async def _panel(self, name: str) -> list[Sample]:
        return await self._query(rendered(PANELS[name]))

    async def _query(self, expression: str) -> list[Sample]:
        return await self._prometheus.query(expression)

    async def top(self) -> Answer:
        found = json.loads(await self._command("top", "-o", "json"))
        return {
            " ".join(one["pods"]): _known(
                node=node["name"],
                gpu=gpu["uuid"],
                device=one["device"],
                mode=one["mode"],
                ratio=round(one["ratio"], 3),
                memory=one["memoryUsedMiB"] / 1024 if "memoryUsedMiB" in one else None,
            )
            for node in found["nodes"]
            for gpu in node["gpus"]
            for one in gpu["holders"]
        }

    async def _command(self, *arguments: str) -> str:
        options: list[str | Path] = ["--prometheus", self._prometheus.url, "--kubeconfig", self._cluster.kubeconfig]
        return await run([sys.executable, "-m", "gpusharing", *arguments, *options])

    # ----------------------------------------------------------------------------------------------------------- pages

    async def page(self) -> Answer:
        """It was opened before the first pod came, and has watched since then; a click on each GPU shows the rest."""
        pods = {claim["metadata"]["name"]: _pod_of(claim) for claim in await self._claims()}
        found: dict[str, Mapping[str, Any]] = {}
        for node, slot, mode, who in _ROW.findall(self._body()):
            panel = self._body("gpu", node, f"gpu-{slot}") if _WHO.search(who) else ""
            devices = {pods.get(claim): device for claim, device in _USERS.findall(panel)}
            for pod, _ in _WHO.findall(who):
                found[pod] = _known(node=node, gpu=_first(_UUID, panel), device=devices.get(pod), mode=mode)
        return found

    def _body(self, *path: str) -> str:
        body = self._site.answer(Request(path=path or ("",))).body
        assert isinstance(body, bytes)
        return body.decode()

    async def page_in_a_file(self) -> Answer:
        rows = _ROW.findall(await self._command("ui", "-o", "html"))
        return {
            pod: _known(node=node, mode=mode, memory=float(used) if (used := _first(_USED, part)) else None)
            for node, _, mode, who in rows
            for pod, part in _WHO.findall(who)
        }


def _known(**fields: Any) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _key(sample: Sample) -> tuple[str, str]:
    return sample.labels["claim_uid"], sample.labels["device"]


def _ratio(result: Any, device: Any) -> float:
    """Of an H100, which has eight memory slices."""
    match names.sharing_of_device(result["device"]):
        case Sharing.EXCLUSIVE:
            return 1
        case Sharing.MIG:
            return 1 / 8
        case sharing:
            divided = "memory" if sharing is Sharing.MPS else "shares"
            taken, total = result["consumedCapacity"][divided], device["capacity"][divided]["value"]
            return float(quantities.exact(taken) / quantities.exact(total))


def _pod_of(claim: Any) -> str:
    return str(claim["metadata"]["ownerReferences"][0]["name"])


def _option(pid: str, option: str) -> str:
    """Of a program; empty where it has none."""
    arguments = _file(pid, "cmdline")
    return next((one.removeprefix(option) for one in arguments if one.startswith(option)), "")


def _hostname(pid: str) -> str:
    """Of its container: the pod."""
    return dict(one.partition("=")[::2] for one in _file(pid, "environ")).get("HOSTNAME", "")


def _file(pid: str, name: str) -> list[str]:
    """Nothing where the program has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text().split("\0")
    except FileNotFoundError:
        return []
