"""What CDI specs on this node offer for its GPUs, whoever wrote them, as the container runtime understands them."""

import json
import os
import re
import stat
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import structlog

from gpusharing.api import names

log = structlog.get_logger(__name__)

# Of our own specs, one a claim: what they offer is known.
OUR_PREFIX: Final = f"{names.GROUP}-claim_"
# Of the spec that we let NVIDIA's toolkit write where nobody else has.
GENERATED_KIND: Final = f"{names.GROUP}/gpu"
GENERATED_FILE: Final = f"{names.GROUP}-gpu.json"
# The command of NVIDIA's hook that sets memory limits.
MEMORY_LIMITS: Final = "apply-cuda-memory-limits"
_NVIDIA_KIND: Final = "nvidia.com/gpu"
# The better one first.
_KINDS: Final = (_NVIDIA_KIND, GENERATED_KIND)
# Other drivers write a file for each of their claims: only what may be of one of these kinds is parsed.
_NAMES_A_KIND: Final = re.compile(rb"(?<![\w.-])(nvidia\.com|%b)/gpu(?![\w.-])" % re.escape(names.GROUP).encode())
# A node with 32 GPUs, each of them cut, has less than a tenth of it.
_LARGEST: Final = 8 * 1024 * 1024
_MOST_FILES: Final = 50_000
# File systems tell times no finer; a directory that has changed just now may change again unseen.
_CLOCK_TICK: Final = 1.0


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


@dataclass(frozen=True, slots=True)
class _Spec:
    kind: str
    devices: Mapping[str, SpecDevice]
    common: Mapping[str, Any] | None


# What tells that a file is the one that was read.
_Signature = tuple[int, int, int]


@dataclass(slots=True)
class _Directory:
    changed: int | None = None
    """When, as of the last listing that can be relied on."""
    files: dict[Path, tuple[_Signature, _Spec | None]] = field(default_factory=dict)
    """None: it is about something else."""


def nvidia_device(uuid: str) -> str:
    """The qualified name of a GPU's device in NVIDIA's own spec."""
    return f"{_NVIDIA_KIND}={uuid}"


def generated_device(uuid: str) -> str:
    """Likewise, in the spec that was generated for us."""
    return f"{GENERATED_KIND}={uuid}"


class CdiSpecs:
    """The directories that the container runtime reads; what the first of them says has precedence.

    One for the whole process: it remembers what it has read. May be used in any thread.
    """

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self.directories = directories
        self._known = {directory: _Directory() for directory in directories}
        self._lock = threading.Lock()

    def device(self, name: str) -> SpecDevice | None:
        """As the runtime does: the first directory that has it, and none at all if one of them has it twice."""
        specs = self._specs()
        counts = [Counter(device for spec in in_directory for device in spec.devices)[name] for in_directory in specs]
        if any(count > 1 for count in counts):
            return None
        return next((spec.devices[name] for one in specs for spec in one if name in spec.devices), None)

    def has(self, name: str) -> bool:
        return self.device(name) is not None

    def gpu(self, uuid: str) -> str:
        """The qualified name by which the runtime knows it: NVIDIA's, or else ours where that is there."""
        generated = generated_device(uuid)
        theirs = nvidia_device(uuid)
        return generated if not self.has(theirs) and self.has(generated) else theirs

    def nvidia_common(self) -> Mapping[str, Any] | None:
        """The parts of their spec that hold for any device of theirs, also where there is none."""
        specs = [spec for in_directory in self._specs() for spec in in_directory if spec.common]
        return next((spec.common for kind in _KINDS for spec in specs if spec.kind == kind), None)

    def hooks_of(self, device: str) -> frozenset[str]:
        """The words of the commands that are run for a container with this device."""
        return frozenset(word for hook in self._hooks_of(device) for word in hook.args)

    def hook(self, device: str, word: str) -> Hook | None:
        """The one that is called with this word."""
        return next((hook for hook in self._hooks_of(device) if hook.path and word in hook.args), None)

    def _hooks_of(self, device: str) -> tuple[Hook, ...]:
        found = self.device(device)
        return found.hooks if found else ()

    def _specs(self) -> list[list[_Spec]]:
        """Of each directory, those that are about GPUs."""
        with self._lock:
            return [
                [spec for _, (_, spec) in sorted(_read(directory, known).items()) if spec]
                for directory, known in self._known.items()
            ]


def _read(directory: Path, known: _Directory) -> Mapping[Path, tuple[_Signature, _Spec | None]]:
    """What has not changed is not read again, and what is gone is forgotten."""
    try:
        changed = directory.stat().st_mtime_ns
    except OSError:
        known.changed = None
        known.files.clear()
        return known.files
    if changed == known.changed:
        # Nothing came or went. Those that matter may have been written over.
        paths = [path for path, (_, spec) in known.files.items() if spec]
        known.files.update({path: _file(path, known.files[path]) for path in paths})
        return known.files
    is_reliable = time.time() - changed / 1e9 > _CLOCK_TICK
    known.files = {path: _file(path, known.files.get(path)) for path in _paths(directory)}
    known.changed = changed if is_reliable else None
    return known.files


def _paths(directory: Path) -> list[Path]:
    with os.scandir(directory) as entries:
        names = [entry.name for entry in islice(entries, _MOST_FILES + 1)]
    if len(names) > _MOST_FILES:
        log.warning("CDI directory has too many files", directory=str(directory), read=_MOST_FILES)
        names.pop()
    # There may be hundreds of ours, and they are passed for each claim.
    others = [name for name in names if not name.startswith(OUR_PREFIX)]
    return [directory / name for name in others if name.endswith((".json", ".yaml"))]


def _file(path: Path, known: tuple[_Signature, _Spec | None] | None) -> tuple[_Signature, _Spec | None]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0), None
    signature = status.st_mtime_ns, status.st_size, status.st_ino
    if known and known[0] == signature:
        return known
    try:
        return signature, _spec(path) if stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        # Somebody else's broken or vanishing file: the runtime ignores it, too.
        return signature, None


def _spec(path: Path) -> _Spec | None:
    with path.open("rb") as file:
        content = file.read(_LARGEST)
    if not _NAMES_A_KIND.search(content):
        return None
    parsed = _parse(path, content)
    if not isinstance(parsed, dict) or parsed.get("kind") not in _KINDS:
        return None
    return _Spec(kind=parsed["kind"], devices=_devices(parsed), common=_common(parsed))


def _parse(path: Path, content: bytes) -> Any:
    if path.suffix == ".json":
        return json.loads(content)
    import yaml  # noqa: PLC0415 (only where nvidia-ctk wrote YAML)

    try:
        return yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _common(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    edits, version = spec.get("containerEdits"), spec.get("cdiVersion")
    if isinstance(edits, dict) and isinstance(version, str):
        return {"cdiVersion": version, "containerEdits": edits}
    return None


def _devices(spec: Mapping[str, Any]) -> Mapping[str, SpecDevice]:
    if not isinstance(spec.get("devices"), list):
        return {}
    common = _hooks(spec)
    return {
        f"{spec['kind']}={device.get('name')}": SpecDevice(common + _hooks(device), _nodes(device))
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
