"""Lists what is in an image, in SPDX 2.3: `python tools/image/sbom.py ARCHIVE...` writes a file beside each.

Packages of Python have the hashes by which requirements/*.txt pin them. One that is not pinned there is an error.
"""

import argparse
import gzip
import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

ROOT: Final = Path(__file__).parents[2]
LOCKS: Final = ("operator", "agent", "cli")
OWN: Final = "gpu-sharing-operator"

_UNKNOWN: Final = "NOASSERTION"


class NotPinnedError(Exception):
    """Something is in the image that no lock names."""


@dataclass(frozen=True)
class Image:
    name: str
    digest: str
    config: Mapping[str, Any]
    files: Mapping[str, bytes]
    """Those that tell of packages."""

    @property
    def version(self) -> str:
        return str(self.config["config"]["Labels"]["org.opencontainers.image.version"])


@dataclass(frozen=True)
class Component:
    name: str
    version: str
    purl: str
    licence: str = _UNKNOWN
    sha256: tuple[str, ...] = ()


def read_image(archive: Path) -> Image:
    with tarfile.open(archive) as tar:

        def blob(digest: str) -> bytes:
            return _content(tar, f"blobs/{digest.replace(':', '/')}")

        [entry] = json.loads(_content(tar, "index.json"))["manifests"]
        manifest = json.loads(blob(entry["digest"]))
        files: dict[str, bytes] = {}
        for layer in manifest["layers"]:
            files |= _telling_files(gzip.decompress(blob(layer["digest"])))
        name = entry["annotations"]["org.opencontainers.image.ref.name"].rpartition("/")[2].partition(":")[0]
        return Image(name, entry["digest"], json.loads(blob(manifest["config"]["digest"])), files)


def _telling_files(layer: bytes) -> dict[str, bytes]:
    telling = re.compile(r"var/lib/dpkg/status\.d/|.*\.dist-info/METADATA$|opt/gpusharing/pyvenv\.cfg$")
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        return {
            member.name: _content(tar, member.name)
            for member in tar
            if member.isfile() and telling.match(member.name.removeprefix("./"))
        }


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return file.read()


def read_lock(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Of each package the version and the hashes of what may be installed."""
    locked = {}
    for block in re.split(r"\n(?=\S)", text):
        if pinned := re.match(r"([\w.-]+)==([^\s;]+)", block):
            locked[_normal(pinned[1])] = (pinned[2], tuple(re.findall(r"--hash=sha256:(\w+)", block)))
    return locked


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def components(image: Image, locked: Mapping[str, tuple[str, tuple[str, ...]]]) -> Iterator[Component]:
    controls = [message_from_bytes(content) for name, content in image.files.items() if "/dpkg/" in name]
    for control in sorted(controls, key=lambda control: str(control["Package"])):
        name, version, architecture = (str(control[key]) for key in ("Package", "Version", "Architecture"))
        yield Component(name, version, f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={architecture}")
    if not any(re.fullmatch(r"python3\.\d+-minimal", str(control["Package"])) for control in controls):
        [settings] = [content.decode() for name, content in image.files.items() if name.endswith("pyvenv.cfg")]
        version = settings.split("version = ")[1].strip()
        yield Component("python", version, f"pkg:generic/python@{version}", "PSF-2.0")
    for path, content in sorted(image.files.items()):
        if path.endswith("/METADATA"):
            yield _python_component(message_from_bytes(content), locked)


def _python_component(metadata: Message, locked: Mapping[str, tuple[str, tuple[str, ...]]]) -> Component:
    name, version = _normal(str(metadata["Name"])), str(metadata["Version"])
    pinned, hashes = locked.get(name, (version, ()) if name == OWN else (None, ()))
    if pinned != version:
        raise NotPinnedError(f"{name} {version} is in the image, but requirements/*.txt have {pinned}: run make lock")
    # The older field, License, is free text.
    licence = str(metadata["License-Expression"] or _UNKNOWN)
    return Component(name, version, f"pkg:pypi/{name}@{version}", licence, hashes)


def document(image: Image, parts: list[Component]) -> dict[str, Any]:
    architecture = image.config["architecture"]
    whole = Component(
        image.name,
        image.version,
        f"pkg:oci/{image.name}@{quote(image.digest, safe='')}?arch={architecture}",
        "Apache-2.0",
        (image.digest.removeprefix("sha256:"),),
    )
    packages = [
        {**_package(whole, "SPDXRef-Image"), "primaryPackagePurpose": "CONTAINER"},
        *(_package(part, _identifier(part)) for part in parts),
    ]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{image.name}-{image.version}-{architecture}",
        "documentNamespace": f"https://gpusharing.dev/spdx/{image.name}/{image.digest.removeprefix('sha256:')}",
        # When the image was made, so that the same image has the same list.
        "creationInfo": {"created": _seconds(image.config["created"]), "creators": ["Organization: gpusharing.dev"]},
        "packages": packages,
        "relationships": [
            _relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image"),
            *(_relationship("SPDXRef-Image", "CONTAINS", _identifier(part)) for part in parts),
        ],
    }


def _package(component: Component, identifier: str) -> dict[str, Any]:
    return {
        "name": component.name,
        "SPDXID": identifier,
        "versionInfo": component.version,
        "supplier": _UNKNOWN,
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": component.licence,
        "copyrightText": _UNKNOWN,
        "checksums": [{"algorithm": "SHA256", "checksumValue": value} for value in component.sha256],
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": component.purl}
        ],
    }


def _identifier(component: Component) -> str:
    kind = component.purl.partition(":")[2].partition("/")[0]
    return re.sub(r"[^A-Za-z0-9.-]", "-", f"SPDXRef-{kind}-{component.name}")


def _relationship(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def _seconds(timestamp: str) -> str:
    return re.sub(r"(\.\d+)?Z$", "Z", timestamp)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archives", metavar="ARCHIVE", nargs="+", type=Path)
    locked: dict[str, tuple[str, tuple[str, ...]]] = {}
    for name in LOCKS:
        locked |= read_lock((ROOT / f"requirements/{name}.txt").read_text())
    for archive in parser.parse_args().archives:
        image = read_image(archive)
        listed = document(image, list(components(image, locked)))
        archive.with_suffix(".spdx.json").write_text(json.dumps(listed, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    try:
        main()
    except NotPinnedError as error:
        sys.exit(f"error: {error}")
