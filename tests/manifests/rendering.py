"""What kustomize and Helm make of manifests/ and charts/, as objects by their names."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from harness.commands import run
from harness.gpu_cluster import MANIFESTS, NAMESPACE

ROOT: Final = MANIFESTS.parents[1]
CHART: Final = ROOT / "charts" / "gpu-sharing"
OVERLAYS: Final = tuple(sorted(path.parent for path in MANIFESTS.parent.glob("overlays/*/kustomization.yaml")))
COMPONENTS: Final = tuple(sorted(path.parent for path in MANIFESTS.parent.glob("components/*/kustomization.yaml")))
EXAMPLES: Final = tuple(sorted((CHART / "examples").glob("*.yaml")))
RELEASE: Final = "gpusharing"

Name: TypeAlias = tuple[str, str, str]
Objects: TypeAlias = Mapping[Name, Any]


async def kustomized(kubectl: Path, directory: Path) -> str:
    return await run([kubectl, "kustomize", directory])


def with_all_components(directory: Path) -> Path:
    """A kustomization as users write it, of the base and every component."""
    base, *components = (f"../{path.relative_to('/')}" for path in (MANIFESTS, *COMPONENTS))
    up = "../" * (len(directory.parts) - 2)
    written = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{up}{base}"],
        "components": [f"{up}{component}" for component in components],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(written))
    return directory


async def templated(helm: Path, *arguments: str | Path, namespace: str = NAMESPACE) -> str:
    command = [helm, "template", RELEASE, CHART, f"--namespace={namespace}", "--kube-version=1.37.1", *arguments]
    return await run(command)


def objects(rendered: str) -> Objects:
    found: dict[Name, Any] = {}
    for item in yaml.safe_load_all(rendered):
        if item is not None:
            name = _name(item)
            assert name not in found
            found[name] = item
    return found


def _name(item: Any) -> Name:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def only(found: Objects, kind: str, name: str) -> Any:
    (item,) = (item for (of_kind, _, called), item in found.items() if (of_kind, called) == (kind, name))
    return item


def as_list(found: Iterable[Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(found)})
