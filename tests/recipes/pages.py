"""The manifests of docs/recipes, and the pods that the tools make of them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs/recipes"
EXAMPLE: Final = ROOT / "docs/examples/by-label.yaml"
NAMESPACE: Final = "models"
OTHERS: Final = {"README", "kueue", "volcano"}
"""The index, and recipes with tests of their own."""
PAGES: Final = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem not in OTHERS)

Json = Mapping[str, Any]


def text(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text()


def documents(page: str) -> list[Json]:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text(page), re.DOTALL | re.MULTILINE)
    return [document for block in blocks for document in yaml.safe_load_all(block)]


def manifests(page: str) -> list[Json]:
    """Not JupyterHub's: those are values of a chart."""
    return [document for document in documents(page) if "apiVersion" in document]


def pod_specs(page: str) -> list[Json]:
    """Of the pods with a claim."""
    return [spec for document in documents(page) for spec in _pod_specs(document) if "resourceClaims" in spec]


def _pod_specs(value: Any) -> Iterator[Json]:
    match value:
        case {"containers": list()}:
            yield value
        case {"kubespawner_override": {"extra_pod_config": dict(pod), "extra_container_config": dict(container)}}:
            yield {**pod, "containers": [{"name": "notebook", **container}]}
        case {"kind": "NIMService", "spec": {"draResources": list(resources)}}:
            names = [f"gpu-{number}" for number in range(len(resources))]
            yield {
                "resourceClaims": [{"name": name, **one} for name, one in zip(names, resources, strict=True)],
                "containers": [{"name": "nim", "resources": {"claims": [{"name": name} for name in names]}}],
            }
        case dict():
            for item in value.values():
                yield from _pod_specs(item)
        case list():
            for item in value:
                yield from _pod_specs(item)
