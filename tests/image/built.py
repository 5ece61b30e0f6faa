"""The images as `make image` makes them, unpacked, and programs run in them."""

import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from harness.system import system_program

ROOT: Final = Path(__file__).parents[2]
RUNTIME: Final = "gpusharing"
SIMULATED_NODE: Final = "gpusharing-simulated-node"
SITE_PACKAGES: Final = Path("opt/gpusharing/lib/python3.11/site-packages")
EMULATOR: Final = "qemu-aarch64-static"

NEEDED: Final = {
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    EMULATOR: "qemu-user-static",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
}


def build(architecture: str, *options: str) -> dict[str, Path]:
    """The archive of each image."""
    for program, package in NEEDED.items():
        system_program(program, package=package)
    command: list[str | Path] = [sys.executable, ROOT / "tools/image/build.py", f"--arch={architecture}", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    archives = [ROOT / line.split()[0] for line in done.stdout.splitlines()]
    return {archive.name.removesuffix(f"-{architecture}.tar"): archive for archive in archives}


@dataclass(frozen=True)
class Image:
    archive: Path
    directory: Path
    """For what is in it."""

    @cached_property
    def digest(self) -> str:
        [entry] = json.loads(self._read("index.json"))["manifests"]
        return str(entry["digest"])

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        return dict(self._json(self.digest))

    @cached_property
    def config(self) -> Mapping[str, Any]:
        return dict(self._json(self.manifest["config"]["digest"]))

    @cached_property
    def rootfs(self) -> Path:
        root = self.directory / "rootfs"
        with tarfile.open(self.archive) as images:
            for layer in self.manifest["layers"]:
                with tarfile.open(fileobj=images.extractfile(blob_name(layer["digest"])), mode="r:gz") as content:
                    content.extractall(root, filter="fully_trusted")  # noqa: S202 (ours)
        return root

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """As a container's process: in the image's files, with its variables, as its user."""
        variables = dict(variable.split("=", 1) for variable in self.config["config"]["Env"])
        user = self.config["config"]["User"]
        return subprocess.run(
            [system_program("chroot", package="coreutils"), f"--userspec={user}", self.rootfs, *command],
            env={**variables, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def _json(self, digest: str) -> Any:
        return json.loads(self._read(blob_name(digest)))

    def _read(self, name: str) -> bytes:
        with tarfile.open(self.archive) as images:
            content = images.extractfile(name)
            assert content
            return content.read()


def blob_name(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
