"""What CDI specs on this node offer, whoever wrote them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gpusharing.api import names

# Of our own specs, one a claim: what they offer is known.
OUR_PREFIX: Final = f"{names.GROUP}-claim_"
_NVIDIA_KIND: Final = "nvidia.com/gpu"


def nvidia_device(uuid: str) -> str:
    """The qualified name of a GPU's device."""
    return f"{_NVIDIA_KIND}={uuid}"


class CdiSpecs:
    """The directories that the container runtime reads."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self.directories = directories
        self._read: dict[Path, tuple[int, Mapping[str, frozenset[str]]]] = {}

    def has(self, device: str) -> bool:
        return any(device in devices for devices in self._all_devices())

    def hooks_of(self, device: str) -> frozenset[str]:
        """The words of the commands that are run for a container with this device."""
        return frozenset(word for devices in self._all_devices() for word in devices.get(device, ()))

    def _all_devices(self) -> Iterator[Mapping[str, frozenset[str]]]:
        for directory in self.directories:
            if directory.is_dir():
                yield from (self._devices_of(path) for path in directory.iterdir() if self._is_of_interest(path))

    @staticmethod
    def _is_of_interest(path: Path) -> bool:
        return path.suffix in {".json", ".yaml"} and not path.name.startswith(OUR_PREFIX)

    def _devices_of(self, path: Path) -> Mapping[str, frozenset[str]]:
        try:
            modified = path.stat().st_mtime_ns
            known = self._read.get(path)
            if known is None or known[0] != modified:
                known = self._read[path] = modified, _devices(_parse(path))
        except (OSError, ValueError):
            # Somebody else's broken or vanishing file: the runtime ignores it, too.
            return {}
        return known[1]


def _parse(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    import yaml  # noqa: PLC0415 (only where nvidia-ctk wrote YAML)

    try:
        return yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _devices(spec: Any) -> Mapping[str, frozenset[str]]:
    """With the hooks of each and of all."""
    if not isinstance(spec, dict) or not isinstance(spec.get("devices"), list):
        return {}
    common = _hooks(spec)
    return {
        f"{spec.get('kind')}={device.get('name')}": common | _hooks(device)
        for device in spec["devices"]
        if isinstance(device, dict)
    }


def _hooks(edited: Mapping[str, Any]) -> frozenset[str]:
    edits = edited.get("containerEdits")
    hooks = edits.get("hooks") if isinstance(edits, dict) else None
    return frozenset(
        str(word)
        for hook in (hooks if isinstance(hooks, list) else [])
        if isinstance(hook, dict)
        for word in hook.get("args") or []
    )
