"""What the agent tells our hook, and the container runtime of it."""

from pathlib import Path

import pytest

from gpusharing.agent.walls.wall import Wall, cdi_hook, file_content
from gpusharing.api.sharing.offers import Enforcement
from gpusharing.nvidia.cdi_specs import Hook

HOOK = Hook(
    "/usr/bin/nvidia-cdi-hook",
    ("nvidia-cdi-hook", "apply-cuda-memory-limits", "--driver-root", "/", "--gpu-id", "GPU-1"),
    ("NVIDIA_CTK_DEBUG=false",),
)


def wall(claim: str = "ml/train", hook: Hook = HOOK) -> Wall:
    return Wall(claim=claim, uuid="GPU-1", limit_mib=4096, enforcement=Enforcement.REQUIRED, nvidia_hook=hook)


def test_file() -> None:
    assert file_content(wall()).decode() == (
        "claim=ml/train\n"
        "gpu=GPU-1\n"
        "limit=4096\n"
        "enforcement=Required\n"
        "seconds=60\n"
        "program=/usr/bin/nvidia-cdi-hook\n"
        "argument=nvidia-cdi-hook\n"
        "argument=apply-cuda-memory-limits\n"
        "argument=--driver-root\n"
        "argument=/\n"
        "argument=--gpu-id\n"
        "argument=GPU-1\n"
        "environment=NVIDIA_CTK_DEBUG=false\n"
    )


@pytest.mark.parametrize("text", ["ml/train\nlimit=99999", "ml/\0"])
def test_nothing_can_be_smuggled_in(text: str) -> None:
    for odd in (wall(claim=text), wall(hook=Hook("/x", (text,))), wall(hook=Hook("/x", ("x",), (text,)))):
        with pytest.raises(ValueError, match="no line of a wall"):
            file_content(odd)


def test_cdi_hook() -> None:
    assert cdi_hook(Path("/var/lib/gpusharing/bin/gpusharing-wall"), Path("/var/lib/gpusharing/walls/uid/0")) == {
        "hookName": "createRuntime",
        "path": "/var/lib/gpusharing/bin/gpusharing-wall",
        "args": ["gpusharing-wall", "/var/lib/gpusharing/walls/uid/0"],
    }
