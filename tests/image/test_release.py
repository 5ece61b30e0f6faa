"""A release of a clone of this repository: what is in it, and that it fits together."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import pytest
import yaml

from gpusharing import __version__
from image.built import ROOT, RUNTIME, SIMULATED_NODE, blob_name
from image.conftest import BuildImages

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

PREFIX: Final = "registry.example/team/"
CHANGE: Final = "- Something that users see."


def git(repository: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    subprocess.run(["git", "-C", repository, *identity, *arguments], check=True, capture_output=True)


def release(repository: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, repository / "tools/release.py", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def files_with(version: str, repository: Path) -> list[str]:
    """Of those that a release is made of."""
    directories = ("charts", "crds", "manifests", "operator")
    files = [file for directory in directories for file in (repository / directory).rglob("*") if file.is_file()]
    pattern = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])".encode())
    return [str(file.relative_to(repository)) for file in files if pattern.search(file.read_bytes())]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what is here now, whether or not it is checked in."""
    repository = tmp_path_factory.mktemp("release") / "clone"
    files = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for file in filter(lambda file: (ROOT / file).is_file(), files):
        target = repository / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target)
    changelog = repository / "CHANGELOG.md"
    text = changelog.read_text()
    changelog.write_text(f"{text[: text.index('## Unreleased')]}## Unreleased\n\n### Added\n\n{CHANGE}\n")
    git(repository, "init", "--quiet")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=all")
    return repository


@pytest.fixture(scope="module")
def released(clone: Path, build_images: BuildImages) -> Path:
    assert release(clone, "--prepare", __version__).returncode == 0
    git(clone, "commit", "--quiet", "--all", "--message=release")
    images = clone / "dist/image"
    images.mkdir(parents=True)
    for architecture in ("amd64", "arm64"):
        for image in build_images(architecture).values():
            shutil.copy(image.archive, images)
    subprocess.run([sys.executable, clone / "tools/image/sbom.py", *sorted(images.glob("*.tar"))], check=True)
    done = release(clone, "--prefix", PREFIX)
    assert (done.returncode, done.stderr) == (0, "")
    return clone / done.stdout.strip()


@pytest.fixture(scope="module")
def digests(released: Path) -> dict[str, str]:
    found = {}
    for image in (RUNTIME, SIMULATED_NODE):
        with tarfile.open(released / f"{image}-{__version__}.tar") as tar:
            index = tar.extractfile("index.json")
            assert index
            [whole] = json.load(index)["manifests"]
            found[image] = whole["digest"]
    return found


def test_has_everything_with_its_checksum(released: Path) -> None:
    lines = [line.split() for line in (released / "SHA256SUMS").read_text().splitlines()]
    sums = {name: checksum for checksum, name in lines}
    assert set(sums) == {path.name for path in released.iterdir()} - {"SHA256SUMS"}
    assert {name: hashlib.sha256((released / name).read_bytes()).hexdigest() for name in sums} == sums
    charts = {f"{path.parent.name}-{__version__}.tgz" for path in ROOT.glob("charts/*/Chart.yaml")}
    platforms = [f"{system}_{arch}" for system in ("linux", "darwin") for arch in ("amd64", "arm64")]
    images = [f"{image}-{arch}" for image in (RUNTIME, SIMULATED_NODE) for arch in ("amd64", "arm64")]
    assert set(sums) == {
        "RELEASE_NOTES.md",
        "gpusharing.yaml",
        *(f"gpusharing-cli_{__version__}_{platform}.tar.gz" for platform in platforms),
        f"gpusharing-manifests-{__version__}.tar.gz",
        *(f"{image}-{__version__}.tar" for image in (RUNTIME, SIMULATED_NODE)),
        *(f"{image}-{__version__}.spdx.json" for image in images),
        *charts,
    }


@pytest.mark.parametrize("image", [RUNTIME, SIMULATED_NODE])
def test_image_has_both_architectures_and_all_that_they_name(released: Path, image: str) -> None:
    with tarfile.open(released / f"{image}-{__version__}.tar") as tar:
        names = tar.getnames()
        content = {name: file.read() for name in names if (file := tar.extractfile(name))}
    [whole] = json.loads(content["index.json"])["manifests"]
    assert whole["annotations"] == {"org.opencontainers.image.ref.name": f"{PREFIX}{image}:{__version__}"}
    manifests = json.loads(content[blob_name(whole["digest"])])["manifests"]
    assert [manifest["platform"]["architecture"] for manifest in manifests] == ["amd64", "arm64"]
    named = {whole["digest"]}
    for manifest in manifests:
        parts = json.loads(content[blob_name(manifest["digest"])])
        named |= {manifest["digest"], parts["config"]["digest"], *(layer["digest"] for layer in parts["layers"])}
    assert {blob_name(digest) for digest in named} == {name for name in names if name.startswith("blobs/")}
    for digest in named:
        assert hashlib.sha256(content[blob_name(digest)]).hexdigest() == digest.removeprefix("sha256:")


def test_manifests_and_charts_name_the_images_by_digest(
    released: Path, digests: dict[str, str], tmp_path: Path
) -> None:
    for archive in (*released.glob("gpusharing-manifests-*.tar.gz"), *released.glob("*.tgz")):
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path, filter="data")
    kustomizations = [
        yaml.safe_load(path.read_text())
        for path in tmp_path.glob("gpusharing-manifests-*/manifests/**/kustomization.yaml")
    ]
    named = {image["newName"]: image for one in kustomizations for image in one.get("images", [])}
    assert f"{PREFIX}{RUNTIME}" in named
    for name, image in named.items():
        assert image["digest"] == digests[name.removeprefix(PREFIX)]
        assert "newTag" not in image
    for values in tmp_path.glob("*/values.yaml"):
        given = yaml.safe_load(values.read_text())
        for image, settings in ((RUNTIME, given["image"]), (SIMULATED_NODE, given["simulated"]["image"])):
            assert settings["repository"] == f"{PREFIX}{image}"
            assert (settings["tag"], settings["digest"]) == ("", digests[image])


def test_notes_are_the_changelog(released: Path, clone: Path, digests: dict[str, str]) -> None:
    notes = (released / "RELEASE_NOTES.md").read_text()
    assert notes.startswith(f"# {__version__}\n\n### Added\n\n{CHANGE}\n")
    assert all(f"`{PREFIX}{image}@{digest}`" in notes for image, digest in digests.items())
    assert re.search(
        rf"^## Unreleased\n\n## {re.escape(__version__)} - \d{{4}}-\d\d-\d\d\n\n### Added\n\n{CHANGE}\n",
        (clone / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )


def test_twice_is_the_same(released: Path, clone: Path) -> None:
    before = (released / "SHA256SUMS").read_text()
    assert release(clone, "--prefix", PREFIX).returncode == 0
    assert (released / "SHA256SUMS").read_text() == before


def test_refuses_what_is_not_ready(released: Path, clone: Path) -> None:
    """In this order, since the clone is broken more and more."""
    (clone / "README.md").write_text("changed\n")
    assert release(clone, "--check").stderr == "error: not checked in: README.md: commit it first\n"
    code = clone / "operator/gpusharing/__init__.py"
    code.write_text(code.read_text().replace(__version__, "9.9.9"))
    assert "operator/gpusharing/__init__.py: __version__ is 9.9.9" in release(clone, "--check").stderr
    assert release(clone, "--prepare", "1.two").stderr == "error: 1.two is no version such as 1.2.3 or 1.2.3-rc.1\n"
    nothing = release(clone, "--prepare", "9.9.9").stderr
    assert nothing == "error: CHANGELOG.md: nothing stands under Unreleased: write what users will see\n"
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased\n", f"## Unreleased\n\n{CHANGE}\n"))
    assert release(clone, "--prepare", "9.9.9").returncode == 0
    assert files_with(__version__, clone) == []
    git(clone, "commit", "--quiet", "--all", "--message=next")
    assert release(clone, "--check").returncode == 0
    assert "is of another version: make image ARCH=amd64\n" in release(clone).stderr
