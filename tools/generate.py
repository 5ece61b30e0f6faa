"""Writes what is generated and checked in: CRDs, guards, the dashboard, the chart, gRPC messages, pages, pictures.

With --check it only compares.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import yaml
from grpc_tools import protoc

from chart import CHART, write_chart
from dashboard import gpu_sharing
from gpusharing.api import crd, names
from gpusharing.core.cluster.guards import allocation, claims, closing, in_use, namespaces, pods
from gpusharing.findings import document
from pictures import modes, objects
from reference import commands, conditions, fields

ROOT = Path(__file__).parent.parent
CRDS = Path("crds")
BASE = Path("manifests/base")
NAMESPACES = Path("manifests/components/namespaces")
MONITORING = Path("manifests/components/monitoring")
GUARDS = "operator/gpusharing/core/cluster/guards"
MESSAGES = Path("operator/gpusharing/agent/kubelet/pb")
DOCS = Path("docs")
IMAGES = DOCS / "images"


class _PlainDumper(yaml.SafeDumper):
    """Without anchors: people read these files."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


class _LinesDumper(_PlainDumper):
    """With the line breaks of expressions as they are."""


_LinesDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def write_yaml(path: Path, *objects: object, generated_from: str, dumper: type[yaml.SafeDumper] = _PlainDumper) -> None:
    texts = [yaml.dump(item, Dumper=dumper, sort_keys=False, width=120) for item in objects]
    path.write_text(f"# Generated from {generated_from} by `make generate`; do not edit.\n" + "---\n".join(texts))


def write_crds(directory: Path) -> None:
    for definition in crd.DEFINITIONS:
        path = directory / f"{definition.name}.yaml"
        write_yaml(path, crd.to_crd(definition), generated_from="operator/gpusharing/api")


def write_base(directory: Path) -> None:
    guards = (
        *claims.claims(),
        *claims.tolerations(),
        *pods.pods(),
        *allocation.allocation(),
        *in_use.in_use(),
    )
    write_yaml(directory / "guards.yaml", *guards, generated_from=GUARDS, dumper=_LinesDumper)
    write_yaml(directory / "closing-guard.yaml", *closing.closing(), generated_from=GUARDS, dumper=_LinesDumper)


def write_namespaces(directory: Path) -> None:
    guards = (*namespaces.namespaces(), *namespaces.admin_access())
    write_yaml(directory / "guards.yaml", *guards, generated_from=GUARDS, dumper=_LinesDumper)


def write_dashboard(directory: Path) -> None:
    metadata = {
        # By which the sidecar of Grafana's chart finds it.
        "labels": {"grafana_dashboard": "1"},
        "name": "gpusharing-dashboard",
        "namespace": names.NAMESPACE,
    }
    data = {"gpusharing.json": gpu_sharing.text()}
    dashboard = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    write_yaml(directory / "dashboard.yaml", dashboard, generated_from="tools/dashboard", dumper=_LinesDumper)


def write_messages(directory: Path) -> None:
    sources = sorted(str(path) for path in (ROOT / MESSAGES).glob("*.proto"))
    outputs = [f"--python_out={directory}", f"--pyi_out={directory}"]
    if protoc.main(["protoc", f"--proto_path={ROOT / MESSAGES}", *outputs, *sources]) != 0:
        raise SystemExit("protoc failed")


def write_docs(directory: Path) -> None:
    (directory / "findings.md").write_text(document.page())
    references = directory / "reference"
    references.mkdir(exist_ok=True)
    (references / "policies.md").write_text(fields.page())
    (references / "conditions.md").write_text(conditions.page())
    (references / "commands.md").write_text(commands.page())


def write_images(directory: Path) -> None:
    (directory / "concepts-objects.svg").write_text(str(objects.PICTURE))
    (directory / "concepts-modes.svg").write_text(str(modes.PICTURE))


def generate(root: Path) -> None:
    writers = {
        CRDS: write_crds,
        BASE: write_base,
        NAMESPACES: write_namespaces,
        MONITORING: write_dashboard,
        MESSAGES: write_messages,
        DOCS: write_docs,
        IMAGES: write_images,
    }
    for directory, write in writers.items():
        (root / directory).mkdir(parents=True, exist_ok=True)
        write(root / directory)
    # Last, because it is made of others.
    fresh = (root, ROOT)
    write_chart(root / CHART, lambda path: next(at / path for at in fresh if (at / path).exists()).read_text())


def outdated() -> list[Path]:
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = [path for path in sorted(Path(scratch).rglob("*")) if path.is_file()]
        checked_in = {path: ROOT / path.relative_to(scratch) for path in fresh}
        return [old for new, old in checked_in.items() if not old.exists() or old.read_bytes() != new.read_bytes()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a file is not as it would be generated")
    if not parser.parse_args().check:
        generate(ROOT)
    elif different := outdated():
        sys.exit(f"run `make generate`: {', '.join(str(path.relative_to(ROOT)) for path in different)} would change")


if __name__ == "__main__":
    main()
