"""The definitions of kinds that recipes use, from the tools' own Go modules."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from harness.toolchain import GoModule, download


@dataclass(frozen=True)
class Tool:
    module: GoModule
    files: Sequence[str]


TOOLS: Final = {
    "kserve": Tool(
        GoModule("github.com/kserve/kserve", "v0.20.0", "h1:Bs7HxmGV4KFqqptDcWseKv+mwD4YOYHJWcuVgPG2Gug="),
        ["config/crd/full/serving.kserve.io_inferenceservices.yaml"],
    ),
    "kubeflow-trainer": Tool(
        GoModule("github.com/kubeflow/trainer/v2", "v2.3.0", "h1:Je+e7zvTLzB4qW09J1fB7pZrqvPtWuGng2NqdN5p5QU="),
        [
            "manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
            "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
        ],
    ),
    "kuberay": Tool(
        GoModule(
            "github.com/ray-project/kuberay/ray-operator",
            "v1.6.0",
            "h1:1hs7Di2U/vm09ot7MIU8jUqEo7gHDc4gkbv1eFvqCsQ=",
        ),
        ["config/crd/bases/ray.io_rayclusters.yaml"],
    ),
    "karpenter": Tool(
        GoModule("sigs.k8s.io/karpenter", "v1.14.0", "h1:+SXlqYNb9FIKRpDgPPRnphVmWbrWLw4tgzKezr372Mc="),
        ["pkg/apis/crds/karpenter.sh_nodepools.yaml"],
    ),
}
"""By their pages."""


def definitions() -> list[dict[str, Any]]:
    """The first call downloads the modules (80 MB)."""
    folders = download([tool.module for tool in TOOLS.values()])
    found = []
    for tool, folder in zip(TOOLS.values(), folders, strict=True):
        found += [_without_webhook(folder / file) for file in tool.files]
    return found


def _without_webhook(path: Path) -> dict[str, Any]:
    """The tool that would convert does not run here."""
    definition: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    definition["spec"].pop("conversion", None)
    return definition
