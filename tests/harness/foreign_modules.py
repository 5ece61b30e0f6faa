"""Go modules of others, of which tests read files: definitions of kinds, and schemas."""

from enum import Enum
from pathlib import Path

from harness.go_module import ToolchainError
from harness.toolchain import downloaded


class Module(Enum):
    """Its name, and its hash as in a go.sum."""

    KSERVE = "github.com/kserve/kserve@v0.20.0", "h1:Bs7HxmGV4KFqqptDcWseKv+mwD4YOYHJWcuVgPG2Gug="
    TRAINER = "github.com/kubeflow/trainer/v2@v2.3.0", "h1:Je+e7zvTLzB4qW09J1fB7pZrqvPtWuGng2NqdN5p5QU="
    KUBERAY = "github.com/ray-project/kuberay/ray-operator@v1.6.0", "h1:1hs7Di2U/vm09ot7MIU8jUqEo7gHDc4gkbv1eFvqCsQ="
    KARPENTER = "sigs.k8s.io/karpenter@v1.14.0", "h1:+SXlqYNb9FIKRpDgPPRnphVmWbrWLw4tgzKezr372Mc="
    K9S = "github.com/derailed/k9s@v0.51.0", "h1:do0fkB1JuN9uURg6bH99I/6phINeFmaGJcldWn8GwSY="

    @property
    def version(self) -> str:
        return self.value[0].rpartition("@v")[2]


def download() -> dict[Module, Path]:
    """The folders with their files. The first call downloads 85 MB."""
    found = downloaded([module.value[0] for module in Module])
    for module in Module:
        name, expected = module.value
        if found[name]["Sum"] != expected:
            raise ToolchainError(f"{name} is not as it was: {found[name]['Sum']}")
    return {module: Path(found[module.value[0]]["Dir"]) for module in Module}
