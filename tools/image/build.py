"""Builds the images of the Dockerfile where no registry of images can be reached, on bases made of Debian packages.

Prints where they are: an archive for each image, as OCI describes it, which `ctr images import` takes. What was built
before of the same files is taken from ~/.cache/gpusharing/image.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = Path.home() / ".cache/gpusharing/image"
OUTPUT: Final = ROOT / "dist/image"

RUNTIME: Final = "gpusharing"
SIMULATED_NODE: Final = "gpusharing-simulated-node"
TARGETS: Final = {RUNTIME: "runtime", SIMULATED_NODE: "simulated-node"}

MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_NAMES: Final = {machine: architecture for architecture, machine in MACHINES.items()}

_INPUTS: Final = (
    "Dockerfile",
    ".dockerignore",
    "LICENSE",
    "operator",
    "pyproject.toml",
    "requirements",
    "tools/image",
)
# Of which its environment is made, beside the bases.
_INPUTS_OF_ENVIRONMENT: Final = (
    "Dockerfile",
    "requirements",
    "tools/image/assemble.py",
    "tools/image/install_compiler.sh",
)
_AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
# Each is 90 MB, and there is one for each change.
_DELETED_AFTER: Final = 2 * 24 * 3600
# What this machine's pip is told of indexes, also for the build's.
_PIP_SETTINGS: Final = ("index-url", "extra-index-url", "trusted-host", "timeout")


class BuildError(Exception):
    """Says what to do."""


@dataclass(frozen=True)
class Base:
    """A system of the distribution that this machine has."""

    architecture: str
    variant: str
    packages: tuple[str, ...]
    hooks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Another one if it is made otherwise."""
        made_of = f"{self} {_distribution()}"
        return f"localhost/base-{self.architecture}:{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"


def build_base(architecture: str) -> Base:
    """Compiles for `architecture`."""
    own = host_architecture()
    cross = {"arm64": ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")}
    cross["amd64"] = ("gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross")
    compiler = ("gcc", "libc6-dev") if architecture == own else cross[architecture]
    return Base(own, "minbase", ("python3", "python3-venv", *compiler))


# Packages are unpacked and not installed, because that needs no machine of their architecture. Dpkg then knows nothing
# of them, but the image's list of packages comes from dpkg.
_NOTE_PACKAGES: Final = """set -eu
mkdir -p "$1/var/lib/dpkg/info"
for archive in "$1"/var/cache/apt/archives/*.deb; do
    package=$(dpkg-deb --field "$archive" Package)
    { dpkg-deb --field "$archive"; echo "Status: install ok unpacked"; echo; } >> "$1/var/lib/dpkg/status"
    dpkg-deb --info "$archive" md5sums > "$1/var/lib/dpkg/info/$package.md5sums"
done
"""


def python_base(architecture: str) -> Base:
    """Has what the image takes over."""
    packages = ("base-files", "libstdc++6", "python3", "util-linux")
    return Base(architecture, "extract", packages, (_NOTE_PACKAGES,))


def host_architecture() -> str:
    return _NAMES[platform.machine()]


def require(*programs: str) -> None:
    if missing := [program for program in programs if shutil.which(program) is None]:
        raise BuildError(f"{' and '.join(missing)} missing: apt-get install {' '.join(missing)}")


def build(architecture: str, *, anew: bool = False) -> dict[str, Path]:
    """The archive of each image, built now unless it was before."""
    require("buildah", "mmdebstrap", "git")
    ingredients = _fingerprint(architecture, _INPUTS, _last_change("%H"))
    built = CACHE / "built" / f"{ingredients}-{architecture}"
    archives = {image: built / f"{image}-{architecture}.tar" for image in TARGETS}

    def is_built() -> bool:
        return all(archive.exists() for archive in archives.values())

    # What is there is used while other images are built.
    if anew or not is_built():
        with _one_at_a_time():
            if anew or not is_built():
                _delete_old_builds()
                _build(architecture, archives, anew=anew)
    return archives


def _delete_old_builds() -> None:
    for built in (CACHE / "built").glob("*"):
        if time.time() - built.stat().st_mtime > _DELETED_AFTER:
            shutil.rmtree(built)


def _build(architecture: str, archives: Mapping[str, Path], *, anew: bool) -> None:
    scratch = CACHE / "scratch"
    # What a build that was killed has left.
    shutil.rmtree(scratch, ignore_errors=True)
    _buildah("rm", "--all")
    scratch.mkdir()
    bases = {"BUILD_IMAGE": build_base(architecture), "PYTHON_IMAGE": python_base(architecture)}
    own = host_architecture()
    arguments = {name: _make_base(base, scratch) for name, base in bases.items()}
    arguments |= {"BUILDARCH": own, "BUILDPLATFORM": f"linux/{own}"}
    _say(f"Building for {architecture}\n")
    arguments["ENVIRONMENT"] = _make_environment(architecture, arguments, scratch, anew=anew)
    assembled = _build_target("assembled", architecture, arguments)
    arguments |= {"ASSEMBLED": assembled, "VERSION": version(), "REVISION": _last_change("%H")}
    for image, archive in archives.items():
        _say(f"Building {image}\n")
        made = _build_target(TARGETS[image], architecture, arguments)
        if image == RUNTIME:
            # The other one begins with it.
            arguments["RUNTIME"] = made
        layout = scratch / image
        _buildah("push", "--quiet", "--format=oci", made, f"oci:{layout}:localhost/{image}:dev")
        archive.parent.mkdir(parents=True, exist_ok=True)
        _write_archive(layout, archive)
    _buildah("rm", "--all")
    # Those have no names.
    _buildah("rmi", "--prune")
    shutil.rmtree(scratch)


def _build_target(target: str, architecture: str, arguments: Mapping[str, str], *options: str) -> str:
    """The identifier of what was built."""
    noted = CACHE / "scratch" / f"{target}.id"
    _buildah(
        "bud",
        "--isolation=chroot",
        "--pull-never",
        "--identity-label=false",
        f"--platform=linux/{architecture}",
        f"--timestamp={os.environ.get('SOURCE_DATE_EPOCH') or _last_change('%ct')}",
        f"--target={target}",
        f"--iidfile={noted}",
        *(f"--build-arg={key}={value}" for key, value in arguments.items()),
        *options,
        f"--file={ROOT / 'Dockerfile'}",
        str(ROOT),
    )
    return noted.read_text().strip().removeprefix("sha256:")


def _make_environment(architecture: str, arguments: Mapping[str, str], scratch: Path, *, anew: bool) -> str:
    """What our sources change nothing in takes most of the time, so it is kept, the latest of each architecture."""
    repository = f"localhost/environment-{architecture}"
    name = f"{repository}:{_fingerprint(architecture, _INPUTS_OF_ENVIRONMENT)}"
    if not anew and _is_stored(name):
        return name
    _say(f"Making an environment for {architecture}\n")
    secrets = [f"--secret=id={id_},src={path}" for id_, path in _secrets(scratch).items()]
    made = _build_target("environment", architecture, arguments, *secrets)
    _buildah("tag", made, name)
    for old in _buildah("images", "--format={{.Name}}:{{.Tag}}").splitlines():
        if old.startswith(f"{repository}:") and old != name:
            _buildah("rmi", old)
    return name


def _is_stored(name: str) -> bool:
    return bool(_buildah("inspect", "--type=image", name, check=False))


def _write_archive(layout: Path, archive: Path) -> None:
    """The same bytes for the same images."""
    aside = archive.with_name(f".{archive.name}.new")
    with tarfile.open(aside, "w") as tar:
        for path in sorted(path for path in layout.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(layout)))
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
    aside.replace(archive)


def digest(archive: Path) -> str:
    """By which an image is pulled."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None  # noqa: S101 - it is a file
        return str(json.load(index)["manifests"][0]["digest"])


def _make_base(base: Base, scratch: Path) -> str:
    if _is_stored(base.name):
        return base.name
    _say(f"Making a base for {base.architecture} of packages: {', '.join(base.packages)}\n")
    sources, system = scratch / "sources.list", scratch / "system.tar"
    sources.write_text(_package_sources())
    _run(
        "mmdebstrap",
        "--quiet",
        f"--architectures={base.architecture}",
        f"--variant={base.variant}",
        f"--include={','.join(base.packages)}",
        *(f"--extract-hook={hook}" for hook in base.hooks),
        _distribution(),
        str(system),
        str(sources),
    )
    container = _buildah("from", f"--arch={base.architecture}", "scratch").strip()
    _buildah("add", "--quiet", container, str(system), "/")
    _buildah("config", f"--arch={base.architecture}", container)
    _buildah("commit", "--quiet", container, base.name)
    _buildah("rm", container)
    return base.name


def _package_sources() -> str:
    """The distribution's own, as apt is set up here."""
    listed = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    sources = _run("apt-get", "indextargets", f"--format={listed}", "Created-By: Packages")
    own = [line for line in sources.splitlines() if line.split()[2].split("-")[0] == _distribution()]
    if not own:
        raise BuildError(f"apt knows no packages of {_distribution()}: apt-get update")
    return "\n".join(own) + "\n"


@cache
def _distribution() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def _secrets(scratch: Path) -> dict[str, Path]:
    """How this machine reaches the package index, which is nobody's business later."""
    secrets = {"authorities": _AUTHORITIES} if _AUTHORITIES.exists() else {}
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings = [
        f"{name} = {value}"
        for key, value in (line.split("=", 1) for line in told.splitlines() if "=" in line)
        if (name := key.rsplit(".", 1)[-1]) in _PIP_SETTINGS
    ]
    secrets["pip.conf"] = scratch / "pip.conf"
    secrets["pip.conf"].write_text("\n".join(["[global]", f"cert = {_AUTHORITIES}", *settings, ""]).replace("'", ""))
    for place in (Path.home() / ".config/uv/uv.toml", Path("/etc/uv/uv.toml")):
        if place.exists():
            return {**secrets, "uv.toml": place}
    return secrets


def _fingerprint(architecture: str, inputs: Sequence[str], *others: str) -> str:
    """Of the bases, the files in these places, and whatever else something is made of."""
    ingredients = hashlib.sha256()
    for text in (build_base(architecture).name, python_base(architecture).name, *others):
        ingredients.update(text.encode())
    for file in sorted(_run("git", "ls-files", "--cached", "--others", "--exclude-standard", *inputs).splitlines()):
        path = ROOT / file
        if path.is_file():
            ingredients.update(f"{file}:{path.stat().st_mode & 0o111}:{path.stat().st_size}:".encode())
            ingredients.update(path.read_bytes())
    return ingredients.hexdigest()[:32]


def _last_change(what: str) -> str:
    """Of what the image is made of: other commits leave it as it is, digest and all."""
    return _run("git", "log", "-1", f"--format={what}", "--", *_INPUTS).strip()


def version() -> str:
    code = (ROOT / "operator/gpusharing/__init__.py").read_text()
    return code.split('__version__ = "')[1].split('"')[0]


def _buildah(*arguments: str, check: bool = True) -> str:
    storage = (f"--root={CACHE / 'storage'}", f"--runroot={CACHE / 'run'}", "--storage-driver=vfs")
    # Its caches lie there too, instead of in /var/tmp.
    temporary = CACHE / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return _run("buildah", *storage, *arguments, check=check, environment={"TMPDIR": str(temporary)})


def _run(*command: str, check: bool = True, environment: Mapping[str, str] | None = None) -> str:
    """What it prints; nothing if it failed and need not succeed."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode and check:
        last = "\n".join([*done.stdout.splitlines()[-10:], *done.stderr.splitlines()[-30:]])
        raise BuildError(f"{' '.join(command)}:\n{last}")
    return "" if done.returncode else done.stdout


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", choices=MACHINES, default=host_architecture())
    parser.add_argument("--anew", action="store_true", help="also if it was built before")
    options = parser.parse_args(arguments)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for archive in build(options.arch, anew=options.anew).values():
        copy, aside = OUTPUT / archive.name, OUTPUT / f".{archive.name}.{os.getpid()}"
        shutil.copyfile(archive, aside)
        aside.replace(copy)
        print(f"{copy.relative_to(ROOT)}  {copy.stat().st_size / 1e6:.1f} MB  {digest(copy)}")  # noqa: T201


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        sys.exit(f"error: {error}")
