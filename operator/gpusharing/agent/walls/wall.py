"""A wall: to how much of a GPU's memory the containers of a claim are held, and how our hook is told."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusharing.api.sharing.offers import Enforcement
from gpusharing.nvidia.cdi_specs import Hook

# A driver that loads first may take long; the kubelet gives a container two minutes for its start.
PATIENCE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    claim: str
    """Its namespace and name, for messages."""
    uuid: str
    limit_mib: int
    enforcement: Enforcement
    """Required or Preferred: whether a container that cannot be held does not start, or does and that is noted."""
    nvidia_hook: Hook
    """NVIDIA's own, as their CDI spec has it for this GPU: `CdiSpecs.hook`."""
    patience: int = PATIENCE
    """How many seconds it may take."""


def file_content(wall: Wall) -> bytes:
    """A setting a line: simple to read for a program without any library."""
    lines = [
        f"claim={wall.claim}",
        f"gpu={wall.uuid}",
        f"limit={wall.limit_mib}",
        f"enforcement={wall.enforcement}",
        f"seconds={wall.patience}",
        f"program={wall.nvidia_hook.path}",
        *(f"argument={word}" for word in wall.nvidia_hook.args),
        *(f"environment={variable}" for variable in wall.nvidia_hook.env),
    ]
    for line in lines:
        if "\n" in line or "\0" in line:
            raise ValueError(f"no line of a wall can hold this: {line!r}")
    return "".join(f"{line}\n" for line in lines).encode()


def cdi_hook(program: Path, directory: Path) -> dict[str, Any]:
    """For the `hooks` of our claim's device. That is listed after NVIDIA's, whose hook sets what a tenant wants: hooks
    run in their order, and the last word is ours."""
    return {"hookName": "createRuntime", "path": str(program), "args": [program.name, str(directory)]}
