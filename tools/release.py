"""Makes a release in `dist/VERSION`, of what is checked in and of the images in dist/image; nothing is pushed.

`--prepare VERSION` writes the next version and its changelog instead.
"""

import argparse
import json
import re
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import krew
from packing import ROOT, ReleaseError, checked_in, compressed, git, sha256, tar

IMAGES: Final = ("gpusharing", "gpusharing-simulated-node")
ARCHITECTURES: Final = ("amd64", "arm64")
CHANGELOG: Final = ROOT / "CHANGELOG.md"
UNRELEASED: Final = "## Unreleased\n"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_VERSION: Final = r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?"


def versioned_files() -> Iterator[tuple[Path, str]]:
    """Each with the pattern of a line that has the version."""
    yield ROOT / "pyproject.toml", r'(?m)^(version = ")(.*)(")$'
    yield ROOT / "operator/gpusharing/__init__.py", r'(?m)^(__version__ = ")(.*)(")$'
    yield ROOT / "manifests/labels/kustomization.yaml", r"(?m)^( *app\.kubernetes\.io/version: )(.*)()$"
    for chart in sorted(ROOT.glob("charts/*/Chart.yaml")):
        yield chart, r'(?m)^(version: "?)([^"\n]*)("?)$'
        yield chart, r'(?m)^(appVersion: "?)([^"\n]*)("?)$'


def prepare(version: str) -> None:
    if not re.fullmatch(_VERSION, version):
        raise ReleaseError(f"{version} is no version such as 1.2.3 or 1.2.3-rc.1")
    text = CHANGELOG.read_text()
    before, heading, after = text.partition(UNRELEASED)
    if not heading or not _section(text, "Unreleased"):
        raise ReleaseError("CHANGELOG.md: nothing stands under Unreleased: write what users will see")
    for path, pattern in versioned_files():
        path.write_text(re.sub(pattern, rf"\g<1>{version}\g<3>", path.read_text()))
    date = time.strftime("%Y-%m-%d", time.gmtime())
    CHANGELOG.write_text(f"{before}{UNRELEASED}\n## {version} - {date}\n{after}")
    print(f"Now: make generate, read the changelog, commit, tag v{version}, and run make release")  # noqa: T201


def released_version() -> str:
    """Which all files agree on, and of which there are no changes that are not checked in."""
    found = {}
    for path, pattern in versioned_files():
        if match := re.search(pattern, path.read_text()):
            found[f"{path.relative_to(ROOT)}: {match[1].split()[0].rstrip(':')}"] = match[2]
    [version, *others] = sorted(set(found.values()))
    if others:
        said = ", ".join(f"{where} is {what}" for where, what in found.items())
        raise ReleaseError(f"the versions differ: {said}: run make release-prepare VERSION=...")
    if not _section(CHANGELOG.read_text(), version):
        raise ReleaseError(f"CHANGELOG.md says nothing of {version}: run make release-prepare VERSION=...")
    if changed := git("status", "--porcelain").splitlines():
        raise ReleaseError(f"not checked in: {', '.join(line[3:] for line in changed[:5])}: commit it first")
    return version


def _section(changelog: str, version: str) -> str:
    """What stands under the heading of a version."""
    found = re.search(rf"(?ms)^## {re.escape(version)}( - .*?)?$(.*?)(?=^## |\Z)", changelog)
    return found[2].strip() if found else ""


def make(version: str, prefix: str, uri: str) -> Path:
    output = ROOT / "dist" / version
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    digests = {image: _write_image(image, version, prefix, output) for image in IMAGES}
    for listed in sorted((ROOT / "dist/image").glob("*.spdx.json")):
        shutil.copy(listed, output / listed.name.replace(".spdx", f"-{version}.spdx"))
    _write_manifests(version, prefix, digests, output)
    _write_charts(prefix, digests, output)
    krew.write(version, uri, output)
    notes = _section(CHANGELOG.read_text(), version)
    named = "\n".join(f"- `{prefix}{image}@{digest}`" for image, digest in digests.items())
    (output / "RELEASE_NOTES.md").write_text(f"# {version}\n\n{notes}\n\n### Images\n\n{named}\n")
    sums = [f"{sha256(path.read_bytes())}  {path.name}\n" for path in sorted(output.iterdir())]
    (output / "SHA256SUMS").write_text("".join(sums))
    return output


def _write_image(image: str, version: str, prefix: str, output: Path) -> str:
    """The images of all architectures as one, which has one digest wherever it is pushed."""
    blobs: dict[str, bytes] = {}
    manifests = []
    for architecture in ARCHITECTURES:
        archive = ROOT / f"dist/image/{image}-{architecture}.tar"
        if not archive.exists():
            raise ReleaseError(f"{archive.relative_to(ROOT)} is missing: make image ARCH={architecture}")
        with tarfile.open(archive) as packed:
            content = {member.name: _read(packed, member) for member in packed if member.isfile()}
        [entry] = json.loads(content["index.json"])["manifests"]
        blobs |= {name: data for name, data in content.items() if name.startswith("blobs/")}
        labels = _labels(blobs, entry["digest"])
        if labels["org.opencontainers.image.version"] != version:
            raise ReleaseError(f"{archive.relative_to(ROOT)} is of another version: make image ARCH={architecture}")
        platform = {"architecture": architecture, "os": "linux"}
        manifests.append({key: entry[key] for key in ("mediaType", "digest", "size")} | {"platform": platform})
    index = _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests})
    digest = f"sha256:{sha256(index)}"
    blobs[_blob(digest)] = index
    name = {"org.opencontainers.image.ref.name": f"{prefix}{image}:{version}"}
    whole = {"mediaType": _INDEX, "digest": digest, "size": len(index), "annotations": name}
    files = {
        "index.json": _json({"schemaVersion": 2, "manifests": [whole]}),
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        **blobs,
    }
    (output / f"{image}-{version}.tar").write_bytes(tar(files))
    return digest


def _labels(blobs: Mapping[str, bytes], digest: str) -> Mapping[str, str]:
    config = json.loads(blobs[_blob(digest)])["config"]["digest"]
    labels: Mapping[str, str] = json.loads(blobs[_blob(config)])["config"]["Labels"]
    return labels


def _write_manifests(version: str, prefix: str, digests: Mapping[str, str], output: Path) -> None:
    def content(path: Path) -> bytes:
        if path.name != "kustomization.yaml":
            return path.read_bytes()
        text = path.read_text()
        for image, digest in digests.items():
            text = re.sub(
                rf"(?m)^(- name: {image}\n)  newName: \S+\n  newTag: \S+$",
                rf"\g<1>  newName: {prefix}{image}\n  digest: {digest}",
                text,
            )
        if "newTag: dev" in text:
            raise ReleaseError(f"{path.relative_to(ROOT)} names an image that is not released: newTag: dev")
        return text.encode()

    name = f"gpusharing-manifests-{version}"
    (output / f"{name}.tar.gz").write_bytes(compressed(checked_in(["crds", "manifests"], ROOT, name, content)))


def _write_charts(prefix: str, digests: Mapping[str, str], output: Path) -> None:
    for chart in sorted(path.parent for path in ROOT.glob("charts/*/Chart.yaml")):

        def content(path: Path, values: Path = chart / "values.yaml") -> bytes:
            if path != values:
                return path.read_bytes()
            text = path.read_text()
            for image, digest in digests.items():
                text, found = re.subn(
                    rf"(?m)^( *repository: ){image}(\n(?: *#.*\n)* *tag: )\S+(\n(?: *#.*\n)* *digest: )\S+$",
                    rf'\g<1>{prefix}{image}\g<2>""\g<3>{digest}',
                    text,
                )
                if not found:
                    raise ReleaseError(f"{path.relative_to(ROOT)} has no repository, tag and digest of {image}")
            return text.encode()

        version = re.search(r"(?m)^version: \"?([^\"\n]*)", (chart / "Chart.yaml").read_text())
        assert version  # noqa: S101 - else the versions would have differed
        files = checked_in([str(chart.relative_to(ROOT))], chart.parent, "", content)
        (output / f"{chart.name}-{version[1]}.tgz").write_bytes(compressed(files))


def _read(packed: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = packed.extractfile(member)
    assert file is not None  # noqa: S101 - it is a file
    return file.read()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prepare", metavar="VERSION", help="write this version and its changelog")
    parser.add_argument("--check", action="store_true", help="only say whether a release can be made")
    parser.add_argument("--prefix", default="", help="of the images' names, such as registry/team/")
    parser.add_argument("--uri", default="", help="of the directory where the archives will be, with / at the end")
    options = parser.parse_args()
    if options.prepare:
        prepare(options.prepare)
        return
    version = released_version()
    if not options.check:
        print(make(version, options.prefix, options.uri).relative_to(ROOT))  # noqa: T201


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"error: {error}")
