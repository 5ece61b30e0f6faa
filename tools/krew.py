"""Packs the command line with all that it needs but Python: archives for each platform, and krew's manifest."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final

import yaml

from packing import ROOT, ReleaseError, checked_in, compressed, sha256

PROGRAM: Final = "kubectl-gpusharing"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
# As uv names them: glibc 2.28 and macOS 13, or newer.
PLATFORMS: Final = {
    "linux/amd64": "x86_64-manylinux_2_28",
    "linux/arm64": "aarch64-manylinux_2_28",
    "darwin/amd64": "x86_64-apple-darwin",
    "darwin/arm64": "aarch64-apple-darwin",
}
_LOCK: Final = ROOT / "requirements/cli.txt"
# Of a wheel's own description: these differ from Python to Python, or are for pip.
_NOT_PACKED: Final = {"INSTALLER", "RECORD", "REQUESTED", "WHEEL", "sboms"}


def write(
    version: str,
    uri: str,
    output: Path,
    platforms: Collection[str] = tuple(PLATFORMS),
    pythons: Collection[str] = PYTHONS,
) -> None:
    """`uri` is that of the directory where the archives will be."""
    ours = checked_in(["operator/gpusharing"], ROOT / "operator", "packages")
    ours["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    ours[PROGRAM] = (ROOT / "tools/kubectl_gpusharing.py").read_bytes()
    entries = []
    for platform in platforms:
        system, architecture = platform.split("/")
        archive = compressed(_packages(platform, pythons) | ours, executable=[PROGRAM])
        name = f"gpusharing-cli_{version}_{system}_{architecture}.tar.gz"
        (output / name).write_bytes(archive)
        entries.append(
            {
                "selector": {"matchLabels": {"os": system, "arch": architecture}},
                "uri": f"{uri}{name}",
                "sha256": sha256(archive),
                "bin": PROGRAM,
            }
        )
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "gpusharing"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Explain, plan and check GPU sharing",
            "description": "Explains why a pod waits for a GPU, shows what a change of sharing policies would do,\n"
            "and checks, converts and tests manifests without a cluster.\n",
            "caveats": f"Needs CPython {' or '.join(pythons)} as python3 in PATH.\n",
            "platforms": entries,
        },
    }
    (output / "gpusharing.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))


def _packages(platform: str, pythons: Collection[str]) -> dict[str, bytes]:
    """For all Pythons in one directory: compiled files have the Python in their names, all others are equal."""
    files: dict[str, bytes] = {}
    for python in pythons:
        with tempfile.TemporaryDirectory() as temporary:
            _install(platform, python, Path(temporary))
            for path in Path(temporary).rglob("*"):
                name = path.relative_to(temporary)
                if not path.is_file() or not _is_packed(name):
                    continue
                content = path.read_bytes()
                if files.setdefault(f"packages/{name}", content) != content:
                    raise ReleaseError(f"{platform}: {name} is another file for Python {python}")
    return files


def _install(platform: str, python: str, directory: Path) -> None:
    """Wheels only, of the versions and hashes in the lock."""
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--python-platform", PLATFORMS[platform], "--python-version", python]
    done = subprocess.run(
        [*command, "--target", directory, "-r", _LOCK], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"packages for {platform} and Python {python}: {done.stderr}")


def _is_packed(name: Path) -> bool:
    top, *below = name.parts
    if top.endswith(".dist-info"):
        return below[0] not in _NOT_PACKED
    return top not in {"bin", ".lock"}  # programs of the packages, and uv's own file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("output", type=Path)
    parser.add_argument("--uri", default="", help="of the directory where the archives will be, with / at the end")
    parser.add_argument("--platform", action="append", choices=PLATFORMS, help="only this one")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this one")
    options = parser.parse_args()
    write(options.version, options.uri, options.output, options.platform or PLATFORMS, options.python or PYTHONS)


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"error: {error}")
