"""The list of what is in an image is complete."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.markers import Marker

from image.built import ROOT, Image

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

REQUIREMENT: Final = re.compile(r"^([\w.-]+)==([^\s;\\]+)(?: ; (.*?))?(?: \\)?\n((?:    .*\n)*)", re.MULTILINE)


def pinned() -> dict[str, tuple[str, set[str]]]:
    """What pip would install of requirements/*.txt on Linux: version and hashes."""
    found = {}
    for name in ("operator", "agent", "cli"):
        for requirement in REQUIREMENT.finditer((ROOT / f"requirements/{name}.txt").read_text()):
            package, version, marker, rest = requirement.groups()
            if not marker or Marker(marker).evaluate({"python_version": "3.11", "python_full_version": "3.11.2"}):
                found[package] = (version, set(re.findall(r"--hash=sha256:(\w+)", rest)))
    return found


@pytest.fixture(scope="module")
def listed(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Any:
    copy = tmp_path_factory.mktemp("list") / "image.tar"
    copy.symlink_to(image.archive)
    subprocess.run([sys.executable, ROOT / "tools/image/sbom.py", copy], check=True)
    return json.loads(copy.with_suffix(".spdx.json").read_text())


def packages(listed: Any, kind: str) -> dict[str, Any]:
    return {
        package["name"]: package
        for package in listed["packages"]
        if package["externalRefs"][0]["referenceLocator"].startswith(f"pkg:{kind}/")
    }


def test_has_every_pinned_package_with_version_and_hashes(listed: Any) -> None:
    ours = packages(listed, "pypi")
    assert ours.pop("gpu-sharing-operator")["licenseDeclared"] == "Apache-2.0"
    assert {
        name: (package["versionInfo"], {checksum["checksumValue"] for checksum in package["checksums"]})
        for name, package in ours.items()
    } == pinned()
    assert all(package["checksums"] for package in ours.values())


def test_has_the_packages_of_the_system(listed: Any, image: Image) -> None:
    debian = packages(listed, "deb")
    assert {"libc6", "libssl3", "libstdc++6", "util-linux"} <= set(debian)
    assert set(debian) == {path.name for path in (image.rootfs / "var/lib/dpkg/status.d").iterdir()}
    for name, package in debian.items():
        assert package["versionInfo"]
        assert (image.rootfs / "usr/share/doc" / name / "copyright").exists() or name == "libpython3.11-minimal"


def test_is_spdx(listed: Any, image: Image) -> None:
    assert listed["spdxVersion"] == "SPDX-2.3"
    identifiers = [package["SPDXID"] for package in listed["packages"]]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", identifier) for identifier in identifiers)
    [whole] = packages(listed, "oci").values()
    assert f"sha256:{whole['checksums'][0]['checksumValue']}" == image.digest
    related = {relation["relatedSpdxElement"] for relation in listed["relationships"]}
    assert related == set(identifiers)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", listed["creationInfo"]["created"])


def test_package_that_is_not_pinned_is_an_error(image: Image, tmp_path: Path) -> None:
    locks = tmp_path / "requirements"
    locks.mkdir()
    tool = tmp_path / "tools/image/sbom.py"
    tool.parent.mkdir(parents=True)
    tool.write_text((ROOT / "tools/image/sbom.py").read_text())
    for name in ("operator", "agent", "cli"):
        text = (ROOT / f"requirements/{name}.txt").read_text()
        (locks / f"{name}.txt").write_text(re.sub(r"^(kopf)==\S+", r"\1==0.0.1", text, flags=re.MULTILINE))
    done = subprocess.run([sys.executable, tool, image.archive], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: kopf .* is in the image, but requirements/\*\.txt have 0\.0\.1: run make lock\n", done.stderr
    )
