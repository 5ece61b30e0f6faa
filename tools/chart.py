"""Writes what of the Helm chart follows from elsewhere: templates of manifests, and its README."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from gpusharing.api import names

CHART: Final = Path("charts/gpu-sharing")
README: Final = Path("tools/chart-readme.md")
_LABELS: Final = '  labels:\n    {{- include "gpu-sharing.labels" . | nindent 4 }}\n'
_MONITORING_LABELS: Final = f"""{_LABELS}    {{{{- with .Values.monitoring.labels }}}}
    {{{{- toYaml . | nindent 4 }}}}
    {{{{- end }}}}
"""
_CRD_METADATA: Final = f"""  {{{{- if .Values.crds.keep }}}}
  annotations:
    helm.sh/resource-policy: keep
  {{{{- end }}}}
{_LABELS}"""


# As guards are generated: empty, where the operator writes.
_VARIABLE: Final = re.compile(r"^  - name: (\w+)\n    expression: '(\{\}|'{4})'$", re.MULTILINE)
"""An empty map or text."""
_GUARD: Final = re.compile(r"^  name: (\S+)$", re.MULTILINE)


class _Template(NamedTuple):
    source: str
    only_if: str = ""
    """A value."""
    metadata: str = _LABELS
    """Lines that each object's metadata gets."""
    has_variables: bool = False
    """Into which the operator writes."""
    switch: tuple[str, str] = ("", "")
    """A line that is there only if a value is true."""


_TEMPLATES: Final = {
    "agent-admission.yaml": _Template("manifests/base/agent-admission.yaml"),
    "agent-rbac.yaml": _Template("manifests/base/agent-rbac.yaml"),
    "crds/nodesharings.yaml": _Template(
        "crds/nodesharings.gpusharing.dev.yaml", only_if="crds.enabled", metadata=_CRD_METADATA
    ),
    "crds/sharingpolicies.yaml": _Template(
        "crds/sharingpolicies.gpusharing.dev.yaml", only_if="crds.enabled", metadata=_CRD_METADATA
    ),
    "dashboard.yaml": _Template(
        "manifests/components/monitoring/dashboard.yaml", only_if="monitoring.dashboards.enabled"
    ),
    "deviceclasses.yaml": _Template(
        "manifests/base/deviceclasses.yaml",
        switch=("  extendedResourceName: nvidia.com/gpu\n", "extendedResource.nvidiaComGpu"),
    ),
    "guards.yaml": _Template("manifests/base/guards.yaml", has_variables=True),
    "guards-closing.yaml": _Template(
        "manifests/base/closing-guard.yaml", only_if="guards.closing.enabled", has_variables=True
    ),
    "guards-namespaces.yaml": _Template(
        "manifests/components/namespaces/guards.yaml", only_if="guards.namespaces.enabled", has_variables=True
    ),
    "openshift.yaml": _Template(
        "manifests/overlays/openshift/security-context-constraints.yaml", only_if="openshift.enabled"
    ),
    "operator-admission.yaml": _Template("manifests/base/operator-admission.yaml"),
    "operator-events.yaml": _Template("manifests/base/operator-events.yaml"),
    "operator-rbac.yaml": _Template("manifests/base/operator-rbac.yaml"),
    "operator-taint-rules.yaml": _Template("manifests/base/operator-taint-rules.yaml"),
    "podmonitor.yaml": _Template(
        "manifests/components/monitoring/podmonitor.yaml",
        only_if="monitoring.podMonitor.enabled",
        metadata=_MONITORING_LABELS,
    ),
    "priority-classes.yaml": _Template(
        "manifests/overlays/gke/priority-classes.yaml", only_if="priorityClassQuota.enabled"
    ),
    "prometheusrule.yaml": _Template(
        "manifests/components/monitoring/prometheusrule.yaml",
        only_if="monitoring.rules.enabled",
        metadata=_MONITORING_LABELS,
    ),
}


class Value(NamedTuple):
    name: str
    default: object
    description: str


def write_chart(directory: Path, read: Callable[[Path], str]) -> None:
    """`read` gives a file of the repository as it is to be."""
    for name, template in _TEMPLATES.items():
        path = directory / "templates" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_templated(template, read(Path(template.source))))
    (directory / "README.md").write_text(_readme(read(README), read(CHART / "values.yaml")))


def _templated(template: _Template, text: str) -> str:
    without_own_header = re.sub(r"\A# Generated from .*\n", "", text)
    escaped = re.sub(r"\{\{|\}\}", lambda braces: f'{{{{ "{braces[0]}" }}}}', without_own_header)
    placed = escaped.replace(names.NAMESPACE, "{{ .Release.Namespace }}")
    # An object's own labels come after them.
    described = re.sub(r"\nmetadata:\n(?:  labels:\n)?", lambda _: f"\nmetadata:\n{template.metadata}", placed)
    described = _VARIABLE.sub(_written, described) if template.has_variables else described
    line, value = template.switch
    if line:
        described = described.replace(line, f"  {{{{- if .Values.{value} }}}}\n{line}  {{{{- end }}}}\n")
    if template.only_if:
        described = f"{{{{- if .Values.{template.only_if} }}}}\n{described}{{{{- end }}}}\n"
    return f"{{{{- /* Generated from {template.source} by `make generate`; do not edit. */ -}}}}\n{described}"


def _written(variable: re.Match[str]) -> str:
    guard = _GUARD.findall(variable.string, 0, variable.start())[-1]
    empty = variable[2].replace("''", "'")
    value = f'{{{{ include "gpu-sharing.written" (list "{guard}" "{variable[1]}" "{empty}") }}}}'
    return f"  - name: {variable[1]}\n    expression: {value}"


def _readme(page: str, values: str) -> str:
    rows = [f"| `{value.name}` | `{json.dumps(value.default)}` | {value.description} |" for value in documented(values)]
    table = "\n".join(["| value | default | |", "|---|---|---|", *rows])
    return page.replace("{{ values }}", table)


def documented(text: str) -> Iterator[Value]:
    """Each key of values.yaml with a comment above it is a value; the others lead to values."""
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    inside: int | None = None  # of a value that was found: its own keys are not looked at
    for line in text.splitlines():
        found = re.match(r"( *)(?:# (.*)|([\w.]+):.*|-.*)$", line)
        if found is None:
            comment = []
            continue
        depth, said, key = len(found[1]), found[2], found[3]
        if inside is not None and (depth > inside or (key is None and said is None)):
            continue
        inside = None
        if said is not None:
            comment.append(said)
        elif key:
            path = [*((at, name) for at, name in path if at < depth), (depth, key)]
            if comment:
                keys = [key for _, key in path]
                yield Value(".".join(keys), _at(yaml.safe_load(text), keys), " ".join(comment))
                inside = depth
            comment = []


def _at(values: Any, keys: list[str]) -> object:
    for name in keys:
        values = values[name]
    return values
