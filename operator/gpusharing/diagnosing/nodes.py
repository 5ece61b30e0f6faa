"""Which nodes have GPUs, can they get them into containers, and who else gives these GPUs away?"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpusharing.api import names
from gpusharing.core.publishing.slice_updates import slice_name
from gpusharing.core.text import listed
from gpusharing.diagnosing.check import Check, Section, nodes, not_checked, of_cluster
from gpusharing.diagnosing.facts import ClusterFacts
from gpusharing.diagnosing.faults import KUBELET, read_version
from gpusharing.diagnosing.kubernetes import OLDEST, known_faults
from gpusharing.findings import installations
from gpusharing.findings.finding import Finding
from gpusharing.snapshots.world import Json

LABELS: Final = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/dra-kubelet-plugin": "true",
    "cloud.google.com/gke-accelerator": "",
    "gpusharing.dev/simulated": "true",
}
"""By which DaemonSets of manifests and overlays choose nodes; an empty value: any."""

_GPU_OPERATOR: Final = "nvidia.com/gpu.deploy."
_GKE: Final = "cloud.google.com/gke-accelerator"
_RESOURCES: Final = re.compile(r"nvidia\.com/(gpu|mig-.*)")
_MIG_MANAGER: Final = "nvidia.com/mig.config"
_INDEX: Final = re.compile("[0-9a-f]{5}-")
_CONTAINERD: Final = re.compile(r"containerd://v?(\d+)\.(\d+)")
_DEFAULT_ON: Final = (2, 0)
_FIRST: Final = (1, 7)


def check_nodes(facts: ClusterFacts) -> Iterator[Check]:
    if facts.nodes.unread:
        what = "Nodes with GPUs, their container runtimes and kubelets"
        yield not_checked(Section.NODES, "gpu-nodes", what, facts.nodes.unread)
    else:
        with_gpus = [node for node in facts.nodes.objects if has_gpus(node)]
        yield _gpu_nodes(with_gpus)
        if with_gpus:
            yield _runtimes(with_gpus)
            yield _kubelets(with_gpus)
            yield _device_plugins(with_gpus)
            yield _mig_managers(with_gpus)
            yield _platforms(with_gpus)
    yield _other_drivers(facts)


def has_gpus(node: Json) -> bool:
    labels = _labels(node)
    return any(key in labels and value in {"", labels[key]} for key, value in LABELS.items())


def _gpu_nodes(with_gpus: Sequence[Json]) -> Check:
    found = [] if with_gpus else [of_cluster(installations.NO_GPU_NODES, labels=listed(list(LABELS)))]
    return Check(Section.NODES, "gpu-nodes", f"By their labels, {_count(with_gpus)} GPUs.", found)


def _count(with_gpus: Sequence[Json]) -> str:
    return "1 node has" if len(with_gpus) == 1 else f"{len(with_gpus)} nodes have"


def _runtimes(with_gpus: Sequence[Json]) -> Check:
    found: list[Finding] = []
    for runtime, those in _by_info(with_gpus, "containerRuntimeVersion").items():
        match = _CONTAINERD.match(runtime)
        version = (int(match[1]), int(match[2])) if match else None
        shown = runtime.replace("://", " ")
        if (version and version < _FIRST) or runtime.startswith("docker://"):
            found.append(of_cluster(installations.NO_CDI, runtime=shown, nodes=nodes(those)))
        elif version and version < _DEFAULT_ON:
            found.append(of_cluster(installations.CDI_MAY_BE_OFF, runtime=shown, nodes=nodes(those)))
    return Check(Section.NODES, "cdi", "Their container runtimes give containers CDI devices.", found)


def _kubelets(with_gpus: Sequence[Json]) -> Check:
    found: list[Finding] = []
    for text, those in sorted(_by_info(with_gpus, "kubeletVersion").items()):
        version = read_version(text)
        if version is None:
            continue
        where = f" on {nodes(those)}"
        if version.minor < OLDEST:
            program = f"The kubelet of {nodes(those)}"
            found.append(of_cluster(installations.TOO_OLD, program=program, version=version, oldest=OLDEST))
        else:
            found += known_faults(KUBELET, version, where)
    return Check(Section.NODES, "kubelets", "Their kubelets have no fault that is known to hit shared GPUs.", found)


def _by_info(those: Sequence[Json], field: str) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for node in those:
        info = (node.get("status") or {}).get("nodeInfo") or {}
        found[str(info.get(field, ""))[:100]].append(node["metadata"]["name"])
    return found


def _device_plugins(with_gpus: Sequence[Json]) -> Check:
    resources: set[str] = set()
    those: list[str] = []
    for node in with_gpus:
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        offered = {name for name, amount in allocatable.items() if _RESOURCES.fullmatch(name) and amount != "0"}
        if offered:
            resources |= offered
            those.append(node["metadata"]["name"])
    found = []
    if those:
        found.append(of_cluster(installations.DEVICE_PLUGIN, resources=listed(sorted(resources)), nodes=nodes(those)))
    return Check(Section.NODES, "device-plugins", "No device plugin gives away their GPUs.", found)


def _mig_managers(with_gpus: Sequence[Json]) -> Check:
    those = [node["metadata"]["name"] for node in with_gpus if _labels(node).get(_MIG_MANAGER)]
    found = [of_cluster(installations.MIG_MANAGER, nodes=nodes(those))] if those else []
    return Check(Section.NODES, "mig-manager", "NVIDIA's MIG manager leaves their GPUs alone.", found)


def _platforms(with_gpus: Sequence[Json]) -> Check:
    operated = [
        one["metadata"]["name"] for one in with_gpus if any(key.startswith(_GPU_OPERATOR) for key in _labels(one))
    ]
    of_gke = [one["metadata"]["name"] for one in with_gpus if _GKE in _labels(one)]
    found = [
        of_cluster(installations.PLATFORM, nodes=nodes(those), platform=platform, overlay=overlay)
        for those, platform, overlay in (
            (operated, "NVIDIA's GPU operator", "gpu-operator"),
            (of_gke, "GKE", "gke"),
        )
        if those
    ]
    return Check(
        Section.NODES, "driver", "Agents find the driver by themselves: manifests/base is made for these nodes.", found
    )


def _other_drivers(facts: ClusterFacts) -> Check:
    if facts.slices.unread:
        return not_checked(Section.NODES, "other-drivers", "Other drivers of our name", facts.slices.unread)
    foreign = [one for one in facts.slices.objects if one["spec"].get("driver") == names.DRIVER and not is_ours(one)]
    found = []
    if foreign:
        where = {one["spec"].get("nodeName") or "any" for one in foreign}
        example = min(one["metadata"]["name"] for one in foreign)
        found.append(of_cluster(installations.OTHER_DRIVER, driver=names.DRIVER, nodes=nodes(where), example=example))
    return Check(Section.NODES, "other-drivers", f"No other DRA driver is named {names.DRIVER}.", found)


def is_ours(slice_: Json) -> bool:
    """By its name, as agents tell them apart."""
    name, pool = slice_["metadata"]["name"], (slice_["spec"].get("pool") or {}).get("name", "")
    return bool(_INDEX.match(name)) and name == slice_name(int(name[:5], 16), pool=pool, driver=names.DRIVER)


def _labels(node: Json) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}
