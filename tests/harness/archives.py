"""Archives of images, as OCI describes them."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any


def write_other_image(archive: Path, other: Path, *, name: str, labels: dict[str, str]) -> None:
    """The same programs as another image has them: with other labels, hence another digest."""
    with tarfile.open(archive) as tar:
        files = {member.name: _read(tar, member) for member in tar.getmembers() if member.isfile()}
    index = json.loads(files["index.json"])
    (entry,) = index["manifests"]
    manifest = json.loads(files[_blob(entry)])
    configuration = json.loads(files[_blob(manifest["config"])])
    configuration["config"].setdefault("Labels", {}).update(labels)

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


def _replace(files: dict[str, bytes], descriptor: dict[str, Any], content: Any) -> None:
    data = json.dumps(content).encode()
    del files[_blob(descriptor)]
    descriptor.update(digest=f"sha256:{hashlib.sha256(data).hexdigest()}", size=len(data))
    files[_blob(descriptor)] = data
