"""Lets NVIDIA's container toolkit write a CDI spec of this node's GPUs, for nodes on which nobody else has.

NVIDIA's GPU operator, for one, installs the toolkit, and a spec for its own pods only (`management.nvidia.com/gpu`).
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from gpusharing.nvidia.cdi_specs import GENERATED_KIND
from gpusharing.nvidia.driver_root import DriverRoot, follow
from gpusharing.nvidia.errors import ProgramError, ProgramHungError, ProgramMissingError

_NAME: Final = "nvidia-ctk"
_HOOK: Final = "nvidia-cdi-hook"
# Below the host's root: packages, NVIDIA's GPU operator (of today and of before), GKE, Bottlerocket and Talos.
_PLACES: Final = (
    "usr/bin",
    "usr/local/nvidia/toolkit",
    "run/nvidia/toolkit",
    "opt/nvidia-toolkit/bin",
    "opt/nvidia-toolkit",
    "home/kubernetes/bin/nvidia/bin",
    "usr/local/bin",
    "opt/bin",
)
# What the operator installs under the program's own name is a shell script for the host, which calls this.
_REAL: Final = ".real"
# It takes two seconds of processor, which a busy node may be slow to give.
_TIMEOUT: Final = 90.0
_HOST: Final = Path("/proc/1/root")


@dataclass(frozen=True, slots=True)
class CdiGenerator:
    host: Path
    """Where the host's root is seen."""
    program: Path | None = None
    """Instead of one that is found."""

    def generate(self) -> dict[str, Any]:
        """The spec, with paths as they are on the host. Its devices are named by their uuids."""
        program = self.program or self._find()
        hook = program.with_name(_HOOK)
        vendor, _, kind = GENERATED_KIND.partition("/")
        driver = DriverRoot.find(self.host)
        command = [
            str(program), "--quiet", "cdi", "generate", "--mode=nvml", "--format=json", f"--vendor={vendor}",
            f"--class={kind}", "--device-name-strategy=uuid", f"--driver-root={driver.path}",
            f"--dev-root={self._dev_root()}", f"--nvidia-cdi-hook-path={hook}",
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        except subprocess.TimeoutExpired as error:
            raise ProgramHungError(f"{program} cdi generate: no answer within {_TIMEOUT:.0f} s") from error
        except OSError as error:
            raise ProgramError(f"{program} cdi generate: {error}") from error
        if done.returncode != 0:
            raise ProgramError(f"{program} cdi generate: exit code {done.returncode}: {done.stderr.strip()[-1000:]}")
        try:
            spec = json.loads(done.stdout)
        except ValueError as error:
            raise ProgramError(f"{program} cdi generate: its answer is no JSON: {error}") from error
        seen = _seen_as_root(self.host)
        translated: dict[str, Any] = _on_the_host(spec, os.fspath(seen)) if seen else spec
        return translated

    def _find(self) -> Path:
        for place in _PLACES:
            for name in (f"{_NAME}{_REAL}", _NAME):
                for candidate in (self.host / place / name, follow(self.host, PurePath(place, name))):
                    if os.access(candidate, os.X_OK) and candidate.is_file():
                        return candidate
        raise ProgramMissingError(
            f"{_NAME} is in none of {', '.join(_PLACES)} below {self.host}",
            remedy="install nvidia-container-toolkit on the node, or set --nvidia-ctk",
        )

    def _dev_root(self) -> Path:
        """Device nodes that came after the agent's container are seen on the host only."""
        return self.host if (self.host / "dev/nvidiactl").exists() else Path("/")


def _seen_as_root(path: Path) -> Path | None:
    """The directory at or above `path` that is the host's root; None where paths are the host's already."""
    try:
        root = _HOST.stat()
    except OSError:
        return None
    for above in (path, *path.parents):
        if above != Path("/") and os.path.samestat(above.stat(), root):
            return above
    return None


def _on_the_host(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {key: _on_the_host(each, prefix) for key, each in value.items()}
    if isinstance(value, list):
        return [_on_the_host(each, prefix) for each in value]
    if isinstance(value, str):
        # As a word of its own (`hostPath`), and within one (`--driver-root=/driver-root/run/nvidia/driver`).
        before, found, rest = value.rpartition(prefix)
        if found and (not before or before.endswith("=")) and (not rest or rest.startswith("/")):
            return f"{before}{rest or '/'}"
    return value
