"""How `gpusharing export` runs."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from gpusharing import cel
from gpusharing.api.dra import Namespace
from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError
from gpusharing.cli.manifests import read_objects
from gpusharing.cli.output import Screen, as_json, as_yaml
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Ask, read
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.snapshot_file import read_snapshot
from gpusharing.core.policies.policy import ExaminedPolicy, examine
from gpusharing.exporting import jobs, kueue, volcano
from gpusharing.exporting.charging import Charge
from gpusharing.exporting.jobs import Job
from gpusharing.exporting.queues import Document, Export, classes_of, exported
from gpusharing.findings.finding import Finding, Reference, Severity, without_ignored
from gpusharing.findings.reading import NOT_READ
from gpusharing.snapshots.decoding import decoded
from gpusharing.snapshots.world import NAMESPACES, POLICIES, TEMPLATES, Json, World
from gpusharing.validating import kinds
from gpusharing.validating.policies import read_policy

_NAMESPACE: Final = TypeAdapter(Namespace)


class Given(NamedTuple):
    policies: Sequence[ExaminedPolicy]
    namespaces: Sequence[Namespace]
    templates: Sequence[Json]
    jobs: Sequence[Job] = ()
    findings: Sequence[Finding] = ()
    """What could not be read."""


def run(arguments: argparse.Namespace) -> int:
    given = _given(arguments)
    if not given.policies:
        raise CommandError(
            f"there is no SharingPolicy in {', '.join(arguments.files or ()) or arguments.snapshot or 'the cluster'}"
        )
    found = _export(given, arguments)
    findings = without_ignored([*given.findings, *found.findings], codes=arguments.ignore, annotations={})
    print(_printed(found.documents, arguments.output))
    _report(findings)
    return exits.FAILED if any(one.entry.severity is Severity.ERROR for one in findings) else exits.OK


def _export(given: Given, arguments: argparse.Namespace) -> Export:
    policies, _ = exported(given.policies)
    classes = [one for policy in policies for one in classes_of(policy)]
    if arguments.system == "volcano":
        found = volcano.export(given.policies, given.namespaces)
        return found._replace(findings=(*found.findings, *jobs.not_counted_by_volcano(given.templates, classes)))
    found = kueue.export(given.policies, given.namespaces, Charge(arguments.charge))
    documents = tuple(
        one
        for one in found.documents
        if arguments.part in {"all", "configuration" if one.body["kind"] == "Configuration" else "queues"}
    )
    return Export(documents, (*found.findings, *jobs.not_admitted_by_kueue(given.templates, given.jobs, classes)))


# -------------------------------------------------------------------------------------------------------------- inputs


def _given(arguments: argparse.Namespace) -> Given:
    if arguments.files:
        return _of_objects(read_objects(arguments.files))
    if arguments.snapshot:
        return _of_world(read_snapshot(arguments.snapshot))
    with Client(access(arguments.kubeconfig, arguments.context)) as client:
        return _of_world(read(client, [Ask(POLICIES), Ask(NAMESPACES), Ask(TEMPLATES)]))


def _of_objects(objects: Sequence[Json]) -> Given:
    def of_kind(kind: str) -> list[Json]:
        return [one for one in objects if one["kind"] == kind]

    return Given(
        _policies(of_kind("SharingPolicy"), cel.NEWEST_MINOR),
        decoded(_NAMESPACE, of_kind("Namespace")),
        of_kind("ResourceClaimTemplate"),
        [Job(_reference(one), pod) for one in objects if (pod := _pod(one)) is not None],
    )


def _of_world(world: World) -> Given:
    if why := world.unread.get("policies"):
        raise CommandError(f"policies: {why}")
    missing = {
        "namespaces": "queues are for each policy, and not for each namespace",
        "templates": "templates of claims are not looked at",
    }
    findings = [
        NOT_READ.found(Reference("Cluster", ""), resource=field, missing=without)
        for field, without in missing.items()
        if field in world.unread
    ]
    return Given(
        _policies(world.policies, world.minor),
        decoded(_NAMESPACE, world.namespaces),
        world.templates,
        findings=findings,
    )


def _policies(objects: Iterable[Json], minor: int) -> list[ExaminedPolicy]:
    found = {policy.metadata.name: policy for one in objects if (policy := read_policy(one)) is not None}
    return [examine(policy, minor=minor) for policy in found.values()]


def _pod(value: Json) -> Any:
    path = kinds.pod_spec(value)
    if path is None:
        return None
    spec: Any = value
    for part in path:
        spec = spec[part]
    return spec


def _reference(value: Json) -> Reference:
    metadata = value.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    return Reference(value["kind"], str(named.get("name") or ""), str(named.get("namespace") or ""))


# ------------------------------------------------------------------------------------------------------------- outputs


def _printed(documents: Sequence[Document], output: str) -> str:
    if output == options.JSON:
        return as_json({"apiVersion": "v1", "kind": "List", "items": [one.body for one in documents]})
    return "\n---\n".join("\n".join([*map(_comment, one.comments), as_yaml(one.body)]) for one in documents)


def _comment(text: str) -> str:
    """One line, whatever the names in a file are."""
    return f"# {' '.join(text.split())}"


def _report(findings: Sequence[Finding]) -> None:
    """Next to the result, not in it."""
    screen = Screen.of(sys.stderr)
    for finding in findings:
        sys.stderr.write(f"{screen.finding(finding)}\n")
