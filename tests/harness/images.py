"""The images of the tests' pods, made of busybox: nothing is pulled from anywhere."""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from harness.system import MissingProgramError, system_program

PAUSE = "localhost/pause:1"
SHELL = "localhost/shell:1"

_COMMANDS: dict[str, dict[str, Any]] = {
    PAUSE: {"Entrypoint": ["/bin/sleep", "infinity"]},
    SHELL: {"Cmd": ["/bin/sh"]},
}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_images(archive: Path) -> None:
    """Writes an archive with both images, as `docker save` does."""
    layer = _layer(busybox())
    layer_digest = hashlib.sha256(layer).hexdigest()
    manifest = []
    with tarfile.open(archive, "w") as images:
        _add_file(images, "layer.tar", layer)
        for name, command in _COMMANDS.items():
            configuration = json.dumps(
                {
                    "architecture": _ARCHITECTURES[platform.machine()],
                    "os": "linux",
                    "config": {"Env": ["PATH=/bin"], **command},
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
                }
            ).encode()
            file = f"{hashlib.sha256(configuration).hexdigest()}.json"
            _add_file(images, file, configuration)
            manifest.append({"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]})
        _add_file(images, "manifest.json", json.dumps(manifest).encode())


def busybox() -> Path:
    """A busybox that needs no libraries."""
    found = system_program("busybox", package="busybox-static")
    libraries = subprocess.run(["ldd", found], capture_output=True, text=True, check=False)
    if libraries.returncode == 0 and "statically linked" not in libraries.stdout:
        raise MissingProgramError(f"{found} needs libraries: install the package busybox-static")
    return found


def _layer(program: Path) -> bytes:
    listing = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for directory in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        _add_file(layer, "bin/busybox", program.read_bytes())
        for applet in listing.stdout.split():
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                layer.addfile(link)
    return content.getvalue()


def _add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o755
    archive.addfile(entry, io.BytesIO(content))
