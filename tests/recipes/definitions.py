"""The definitions of kinds that recipes use, from the tools' own Go modules."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from harness.foreign_modules import Module


class Tool(NamedTuple):
    module: Module
    files: tuple[str, ...]


TOOLS: Final = {
    "kserve": Tool(Module.KSERVE, ("config/crd/full/serving.kserve.io_inferenceservices.yaml",)),
    "kubeflow-trainer": Tool(
        Module.TRAINER,
        (
            "manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
            "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
        ),
    ),
    "kuberay": Tool(Module.KUBERAY, ("config/crd/bases/ray.io_rayclusters.yaml",)),
    "karpenter": Tool(Module.KARPENTER, ("pkg/apis/crds/karpenter.sh_nodepools.yaml",)),
}
"""By their pages."""


def definitions(modules: Mapping[Module, Path]) -> list[dict[str, Any]]:
    return [_without_webhook(modules[tool.module] / file) for tool in TOOLS.values() for file in tool.files]


def _without_webhook(path: Path) -> dict[str, Any]:
    """The tool that would convert does not run here."""
    definition: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    definition["spec"].pop("conversion", None)
    return definition
