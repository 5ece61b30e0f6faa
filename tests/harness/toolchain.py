"""Builds Kubernetes, etcd, containerd and other tools from the pinned modules in tools/, once, and caches them.

`python -m harness.toolchain` builds and prints the directory with the programs.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from harness import go_build
from harness.cache import one_at_a_time
from harness.go import Go, find_go
from harness.go_module import GoModule, version_in

TOOLS = Path(__file__).parents[2] / "tools"
CEL_ORACLE = Path(__file__).parents[1] / "cel" / "oracle"
ALLOCATOR_ORACLE = Path(__file__).parents[1] / "allocating" / "oracle"

_MODULES = (
    GoModule(
        directory=TOOLS / "kube",
        packages={
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kubelet": "k8s.io/kubernetes/cmd/kubelet",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
            "etcd": "go.etcd.io/etcd/server/v3",
        },
        version_of="k8s.io/kubernetes",
        version_variables={
            "k8s.io/component-base/version.gitVersion": "{version}",
            "k8s.io/component-base/version.gitMajor": "{major}",
            "k8s.io/component-base/version.gitMinor": "{minor}",
            "k8s.io/client-go/pkg/version.gitVersion": "{version}",
        },
    ),
    GoModule(
        directory=TOOLS / "containerd",
        packages={
            "containerd": "github.com/containerd/containerd/v2/cmd/containerd",
            "containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            "ctr": "github.com/containerd/containerd/v2/cmd/ctr",
        },
        version_of="github.com/containerd/containerd/v2",
        version_variables={"github.com/containerd/containerd/v2/version.Version": "{version}"},
        tags="no_btrfs,no_devmapper,no_zfs",
    ),
)

_NETWORK_PLUGINS = GoModule(
    directory=TOOLS / "cni",
    packages={
        "bridge": "github.com/containernetworking/plugins/plugins/main/bridge",
        "host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
    },
    version_of="github.com/containernetworking/plugins",
    version_variables={"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion": "{version}"},
)

_NVIDIA_TOOLS = GoModule(
    directory=TOOLS / "nvidia",
    packages={
        "nvidia-ctk": "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk",
        "nvidia-cdi-hook": "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook",
        "device-walk": "gpusharing.dev/tools/nvidia/device-walk",
    },
    version_of="github.com/NVIDIA/nvidia-container-toolkit",
    version_variables={"github.com/NVIDIA/nvidia-container-toolkit/internal/info.version": "{version}"},
    sources=TOOLS / "nvidia" / "device-walk",
    cgo=True,
)

_CONFIG_CHECK = GoModule(
    directory=TOOLS / "dra-driver",
    packages={"config-check": "gpusharing.dev/tools/dra-driver/config-check"},
    version_of="sigs.k8s.io/dra-driver-nvidia-gpu",
    version_variables={},
    sources=TOOLS / "dra-driver" / "config-check",
)

_DRA_PLUGIN = GoModule(
    directory=TOOLS / "dra-driver",
    packages={"gpu-kubelet-plugin": "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin"},
    version_of="sigs.k8s.io/dra-driver-nvidia-gpu",
    version_variables={"sigs.k8s.io/dra-driver-nvidia-gpu/internal/info.version": "{version}"},
    sources=TOOLS / "dra-driver" / "no-fabric-manager" / "pkg" / "nvfm",
    cgo=True,
)

_EXAMPLE_DRIVER = GoModule(
    directory=TOOLS / "example-driver",
    packages={"dra-example-kubeletplugin": "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin"},
    version_of="sigs.k8s.io/dra-example-driver",
    version_variables={},
)

_PROMETHEUS = GoModule(
    directory=TOOLS / "prometheus",
    packages={
        "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
        "promtool": "github.com/prometheus/prometheus/cmd/promtool",
    },
    version_of="github.com/prometheus/prometheus",
    version_variables={"github.com/prometheus/common/version.Version": "{version}"},
    # Half of it would be clients of clouds in which something to scrape might be found.
    tags="remove_all_sd",
)

_HELM = GoModule(
    directory=TOOLS / "helm",
    packages={"helm": "helm.sh/helm/v4/cmd/helm"},
    version_of="helm.sh/helm/v4",
    version_variables={"helm.sh/helm/v4/internal/version.version": "{version}"},
)

_KUEUE = GoModule(
    directory=TOOLS / "kueue",
    packages={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    version_of="sigs.k8s.io/kueue",
    version_variables={"sigs.k8s.io/kueue/pkg/version.GitVersion": "{version}"},
)


def _oracle(directory: Path, name: str, kubernetes: str) -> GoModule:
    return GoModule(
        directory=directory / kubernetes,
        packages={f"{name}-{kubernetes}": f"gpusharing.dev/{name}"},
        version_of="k8s.io/dynamic-resource-allocation",
        version_variables={},
        sources=directory / "program",
    )


_CEL_ORACLES = tuple(_oracle(CEL_ORACLE, "cel-oracle", kubernetes) for kubernetes in ("v36", "v37"))
_NEXT_CEL_ORACLE = _oracle(CEL_ORACLE, "cel-oracle", "next")
_ALLOCATOR_ORACLES = tuple(_oracle(ALLOCATOR_ORACLE, "allocator-oracle", kubernetes) for kubernetes in ("v36", "v37"))


def build() -> Path:
    """The directory with all programs; the first call takes about ten minutes, later ones nothing."""
    return _programs(_MODULES)


def build_cel_oracles() -> Path:
    """The directory with `cel-oracle-v36` and `cel-oracle-v37`; the first call takes some minutes."""
    return _programs(_CEL_ORACLES)


def build_next_cel_oracle() -> Path:
    """The directory with `cel-oracle-next`, of the newest pre-release; the first call takes some minutes."""
    return _programs([_NEXT_CEL_ORACLE])


def build_allocator_oracles() -> Path:
    """The directory with `allocator-oracle-v36` and `allocator-oracle-v37`; the first call takes some minutes."""
    return _programs(_ALLOCATOR_ORACLES)


def next_kubernetes() -> str:
    """The pre-release that it is of, as in 1.38.0-alpha.0."""
    return _NEXT_CEL_ORACLE.version().replace("v0.", "1.", 1)


def build_network_plugins() -> Path:
    """The directory with `bridge` and `host-local`, which give pods addresses; the first call takes a minute."""
    return _programs([_NETWORK_PLUGINS])


def build_nvidia_tools() -> Path:
    """The directory with `nvidia-ctk`, `nvidia-cdi-hook` and `device-walk`; the first call takes two minutes."""
    return _programs([_NVIDIA_TOOLS])


def build_config_check() -> Path:
    """What NVIDIA's driver makes of opaque parameters; the first call takes a minute."""
    return _programs([_CONFIG_CHECK]) / "config-check"


def build_dra_plugin() -> Path:
    """NVIDIA's kubelet plugin for GPUs; the first call takes some minutes."""
    return _programs([_DRA_PLUGIN]) / "gpu-kubelet-plugin"


def dra_plugin_version() -> str:
    return _DRA_PLUGIN.version()


def build_example_driver() -> Path:
    """Kubernetes' example of a driver for devices, `dra-example-kubeletplugin`; the first call takes a minute."""
    return _programs([_EXAMPLE_DRIVER]) / "dra-example-kubeletplugin"


def build_prometheus() -> Path:
    """The directory with `prometheus`, which serves no pages, and `promtool`; the first call takes some minutes."""
    return _programs([_PROMETHEUS])


def build_helm() -> Path:
    """Helm, for the chart; the first call takes some minutes."""
    return _programs([_HELM]) / "helm"


def downloaded(modules: Sequence[str]) -> dict[str, dict[str, str]]:
    """What Go says of modules of others, of which files are read: by their names."""
    with one_at_a_time():
        listed = _go().run("mod", "download", "-json", *modules, directory=TOOLS)
    found = [json.loads(text) for text in re.split(r"(?<=^\})\n", listed, flags=re.MULTILINE) if text]
    return {f"{one['Path']}@{one['Version']}": one for one in found}


def build_kueue() -> Path:
    """Kueue, which queues jobs; the first call takes some minutes."""
    return _programs([_KUEUE]) / "kueue"


def kueue_source() -> Path:
    """The sources of Kueue, with the manifests of its CRDs, roles and webhooks."""
    return _source(_KUEUE.directory, _KUEUE.version_of)


def volcano_source() -> Path:
    """The sources of Volcano, with the manifests of its CRDs. They need a module that no proxy has."""
    return _source(TOOLS / "volcano", "volcano.sh/volcano")


def _source(directory: Path, path: str) -> Path:
    """Of a module that go.mod requires, as go.sum has it."""
    version = version_in(directory, path)
    return Path(json.loads(_go().run("mod", "download", "-json", f"{path}@{version}", directory=directory))["Dir"])


def _programs(modules: Sequence[GoModule]) -> Path:
    return go_build.programs(_go(), modules)


def _go() -> Go:
    return find_go(max(module.go_version() for module in _MODULES))


if __name__ == "__main__":
    print(build())
