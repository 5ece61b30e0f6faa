"""Tells programs in containers which devices they got: the files of Kubernetes' device metadata protocol.

One for each request of a claim. Our CDI device mounts it where every driver's is looked for.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gpusharing.agent.state.files import Boot, remove, write_if_changed
from gpusharing.agent.state.models import MetadataMount, PreparedClaim
from gpusharing.api import strict_json
from gpusharing.api.dra import ResourceClaim
from gpusharing.core.claims import allocation
from gpusharing.nvidia import selinux

METADATA: Final = "metadata"
"""Where they are, below the state directory."""

_IN_CONTAINERS: Final = "/var/run/kubernetes.io/dra-device-attributes"
_GROUP: Final = "metadata.resource.k8s.io"
# Whoever reads takes the first that it knows.
_VERSIONS: Final = ("v1beta1", "v1alpha1")

Attributes = Mapping[str, Any]


class MetadataFiles:
    def __init__(self, home: Path, driver: str, *, sysfs: Path = Path("/sys")) -> None:
        """`home` has the same path on the host, where containers' mounts are made."""
        self._home = home
        self._driver = driver
        self._sysfs = sysfs
        home.mkdir(parents=True, exist_ok=True)

    def mount(self, claim: ResourceClaim, request: str) -> MetadataMount:
        base = allocation.base_request(request)
        pod_claim = claim.metadata.pod_claim_name
        source = f"resourceclaimtemplates/{pod_claim}" if pod_claim else f"resourceclaims/{claim.metadata.name}"
        return MetadataMount(
            file=str(self._file(claim.metadata.uid, base)),
            path=f"{_IN_CONTAINERS}/{source}/{base}/{self._driver}-metadata.json",
        )

    def write(self, claim: PreparedClaim, attributes: Sequence[Attributes]) -> None:
        """`attributes` are those of the claim's devices, in their order."""
        requests: dict[str, list[dict[str, Any]]] = {}
        for device, described in zip(claim.devices, attributes, strict=True):
            requests.setdefault(device.request, []).append(
                {"driver": self._driver, "pool": device.pool, "name": device.device, "attributes": described}
            )
        for request, devices in requests.items():
            path = self._file(claim.uid, allocation.base_request(request))
            content = _stream(claim, request, devices)
            # Programs of any user read it.
            write_if_changed(path, content, mode=0o644)
            if selinux.is_on(self._sysfs):
                selinux.label_for_containers(path)

    def has(self, claim_uid: str) -> bool:
        return (self._home / claim_uid).is_dir()

    def reference(self, claim_uid: str) -> tuple[str, str] | None:
        """Namespace and name of the claim, as its files tell them."""
        for path in sorted((self._home / claim_uid).glob("*.json")):
            try:
                told = json.loads(path.read_bytes().partition(b"\n")[0])["metadata"]
                return str(told["namespace"]), str(told["name"])
            except (OSError, ValueError, LookupError, TypeError):
                continue
        return None

    def was_written_in(self, boot: Boot, claim_uid: str) -> bool:
        return self.has(claim_uid) and boot.wrote(self._home / claim_uid)

    def is_complete(self, claim: PreparedClaim) -> bool:
        """Whether each file is there."""
        return all(self._file(claim.uid, allocation.base_request(device.request)).is_file() for device in claim.devices)

    def delete(self, claim_uid: str) -> None:
        with suppress(OSError):
            remove(self._home / claim_uid)

    def claims(self) -> list[str]:
        """The claims that have any, whoever wrote them when."""
        return [path.name for path in self._home.iterdir()] if self._home.is_dir() else []

    def _file(self, claim_uid: str, base_request: str) -> Path:
        return self._home / claim_uid / f"{base_request}.json"


def _stream(claim: PreparedClaim, request: str, devices: list[dict[str, Any]]) -> bytes:
    """The same in each version, one after the other."""
    told: dict[str, Any] = {
        "kind": "DeviceMetadata",
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": 1},
        "requests": [{"name": request, "devices": devices}],
    }
    if claim.pod_claim_name:
        told["podClaimName"] = claim.pod_claim_name
    objects = [{"apiVersion": f"{_GROUP}/{version}", **told} for version in _VERSIONS]
    return b"".join(strict_json.canonical(one) + b"\n" for one in objects)
