"""What CDI specs on this node offer, whoever wrote them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusharing.api import names

# Of our own specs, one a claim: what they offer is known.
OUR_PREFIX: Final = f"{names.GROUP}-claim_"
# The command of NVIDIA's hook that sets memory limits.
MEMORY_LIMITS: Final = "apply-cuda-memory-limits"
_NVIDIA_KIND: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Hook:
    """A program that is run on the host for a container."""

    path: str
    args: tuple[str, ...]
    """The first is the program's name."""
    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpecDevice:
    hooks: tuple[Hook, ...]
    """Its own, and those of all."""
    nodes: frozenset[str]
    """Its own device nodes, as containers see them."""


def nvidia_device(uuid: str) -> str:
    """The qualified name of a GPU's device."""
    return f"{_NVIDIA_KIND}={uuid}"


class CdiSpecs:
    """The directories that the container runtime reads."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self.directories = directories
        self._read: dict[Path, tuple[int, Mapping[str, SpecDevice]]] = {}

    def device(self, name: str) -> SpecDevice | None:
        found = [devices[name] for devices in self._all_devices() if name in devices]
        if not found:
            return None
        return SpecDevice(
            hooks=tuple(hook for device in found for hook in device.hooks),
            nodes=frozenset(node for device in found for node in device.nodes),
        )

    def has(self, name: str) -> bool:
        return self.device(name) is not None

    def nvidia_common(self) -> Mapping[str, Any] | None:
        """The parts of their spec that hold for any device of theirs, also where there is none."""
        for path in self._paths():
            try:
                spec = _parse(path)
            except (OSError, ValueError):
                # As below: the runtime ignores it, too.
                continue
            if isinstance(spec, dict) and spec.get("kind") == _NVIDIA_KIND:
                edits, version = spec.get("containerEdits"), spec.get("cdiVersion")
                if isinstance(edits, dict) and isinstance(version, str):
                    return {"cdiVersion": version, "containerEdits": edits}
        return None

    def hooks_of(self, device: str) -> frozenset[str]:
        """The words of the commands that are run for a container with this device."""
        return frozenset(word for hook in self._hooks_of(device) for word in hook.args)

    def hook(self, device: str, word: str) -> Hook | None:
        """The one that is called with this word."""
        return next((hook for hook in self._hooks_of(device) if hook.path and word in hook.args), None)

    def _hooks_of(self, device: str) -> tuple[Hook, ...]:
        found = self.device(device)
        return found.hooks if found else ()

    def _all_devices(self) -> Iterator[Mapping[str, SpecDevice]]:
        return (self._devices_of(path) for path in self._paths())

    def _paths(self) -> Iterator[Path]:
        for directory in self.directories:
            if directory.is_dir():
                yield from (path for path in directory.iterdir() if self._is_of_interest(path))

    @staticmethod
    def _is_of_interest(path: Path) -> bool:
        return path.suffix in {".json", ".yaml"} and not path.name.startswith(OUR_PREFIX)

    def _devices_of(self, path: Path) -> Mapping[str, SpecDevice]:
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


def _devices(spec: Any) -> Mapping[str, SpecDevice]:
    if not isinstance(spec, dict) or not isinstance(spec.get("devices"), list):
        return {}
    common = _hooks(spec)
    return {
        f"{spec.get('kind')}={device.get('name')}": SpecDevice(common + _hooks(device), _nodes(device))
        for device in spec["devices"]
        if isinstance(device, dict)
    }


def _hooks(edited: Mapping[str, Any]) -> tuple[Hook, ...]:
    return tuple(
        Hook(str(hook.get("path") or ""), _words(hook.get("args")), _words(hook.get("env")))
        for hook in _edits(edited, "hooks")
    )


def _nodes(edited: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(str(node.get("path")) for node in _edits(edited, "deviceNodes"))


def _edits(edited: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    edits = edited.get("containerEdits")
    listed = edits.get(kind) if isinstance(edits, dict) else None
    return [edit for edit in (listed if isinstance(listed, list) else []) if isinstance(edit, dict)]


def _words(words: Any) -> tuple[str, ...]:
    return tuple(map(str, words)) if isinstance(words, list) else ()
