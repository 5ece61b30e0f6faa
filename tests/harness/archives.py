"""Archives of images, as OCI describes them."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any


def write_other_image(
    archive: Path, other: Path, *, name: str, labels: dict[str, str], changes: Mapping[str, bytes | None] | None = None
) -> None:
    """The same image with other labels, hence another digest. `changes`: contents of files; None deletes one."""
    with tarfile.open(archive) as tar:
        files = {member.name: _read(tar, member) for member in tar.getmembers() if member.isfile()}
    index = json.loads(files["index.json"])
    (entry,) = index["manifests"]
    manifest = json.loads(files[_blob(entry)])
    configuration = json.loads(files[_blob(manifest["config"])])
    configuration["config"].setdefault("Labels", {}).update(labels)
    if changes:
        layer = _layer(changes)
        descriptor = {"mediaType": "application/vnd.oci.image.layer.v1.tar"}
        manifest["layers"].append(_add(files, descriptor, layer))
        configuration["rootfs"]["diff_ids"].append(descriptor["digest"])

    _replace(files, manifest["config"], configuration)
    _replace(files, entry, manifest)
    entry["annotations"] = {"org.opencontainers.image.ref.name": name}
    files["index.json"] = json.dumps(index).encode()
    with tarfile.open(other, "w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file
    return file.read()


def _blob(descriptor: dict[str, Any]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _layer(changes: Mapping[str, bytes | None]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for path, data in changes.items():
            # A file of this name says that one of the layers below is deleted.
            name = path if data is not None else f"{PurePath(path).parent}/.wh.{PurePath(path).name}"
            member = tarfile.TarInfo(name)
            member.size = len(data or b"")
            layer.addfile(member, io.BytesIO(data or b""))
    return content.getvalue()


def _replace(files: dict[str, bytes], descriptor: dict[str, Any], content: Any) -> None:
    del files[_blob(descriptor)]
    _add(files, descriptor, json.dumps(content).encode())


def _add(files: dict[str, bytes], descriptor: dict[str, Any], data: bytes) -> dict[str, Any]:
    descriptor.update(digest=f"sha256:{hashlib.sha256(data).hexdigest()}", size=len(data))
    files[_blob(descriptor)] = data
    return descriptor
