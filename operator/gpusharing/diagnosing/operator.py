"""Is the operator installed, does it run, may it do its work, and does it lead?"""

from collections.abc import Iterator
from typing import Any, Final

from gpusharing import __version__
from gpusharing.api import names
from gpusharing.api.crd import DEFINITIONS, to_crd
from gpusharing.core.text import counted, listed
from gpusharing.diagnosing.check import Check, Section, not_checked, of_cluster, of_object
from gpusharing.diagnosing.facts import ClusterFacts, InstallationFacts
from gpusharing.findings import installations
from gpusharing.findings.finding import Finding
from gpusharing.sharing_tests.installation import classes
from gpusharing.snapshots.world import Json

VERSION: Final = "app.kubernetes.io/version"
_DEFINITION: Final = "CustomResourceDefinition"


def check_operator(facts: ClusterFacts, installed: InstallationFacts) -> Iterator[Check]:
    yield _definitions(installed)
    yield _classes(installed)
    if facts.operators.unread:
        yield not_checked(Section.OPERATOR, "operator", "The operator's Deployment", facts.operators.unread)
    else:
        yield _running(facts, installed)
        yield _versions(facts, installed)
    yield _lease(installed)
    yield _rights(installed)


def _definitions(installed: InstallationFacts) -> Check:
    name = "definitions"
    if installed.definitions.unread:
        return not_checked(Section.OPERATOR, name, "CustomResourceDefinitions", installed.definitions.unread)
    there = {one["metadata"]["name"]: one for one in installed.definitions.objects}
    missing = [one.name for one in DEFINITIONS if one.name not in there]
    found: list[Finding] = []
    if missing:
        text = f"{_DEFINITION} {listed(missing)}"
        found.append(of_object(installations.NOT_INSTALLED, _DEFINITION, missing[0], missing=text))
    for one in DEFINITIONS:
        if one.name not in there:
            continue
        if problem := _not_served(there[one.name]):
            found.append(of_object(installations.CRD_NOT_SERVED, _DEFINITION, one.name, name=one.name, why=problem))
        elif _schema(there[one.name]) != _schema(to_crd(one)):
            values = {"name": one.name, "version": __version__}
            found.append(of_object(installations.CRD_DIFFERS, _DEFINITION, one.name, **values))
    return Check(Section.OPERATOR, name, f"CustomResourceDefinitions are those of version {__version__}.", found)


def _not_served(definition: Json) -> str:
    """Empty: it is."""
    conditions = {one["type"]: one for one in (definition.get("status") or {}).get("conditions") or ()}
    established = conditions.get("Established", {})
    if established.get("status") == "True":
        return "" if _schema(definition) is not None else f"it has no version {names.VERSION}"
    accepted = conditions.get("NamesAccepted", {})
    problem = accepted if accepted.get("status") == "False" else established
    return str(problem.get("message") or "it is not established yet")


def _schema(definition: Json) -> Any:
    versions = {one["name"]: one for one in definition["spec"].get("versions") or () if one.get("served")}
    found = versions.get(names.VERSION)
    return _without_empty((found.get("schema") or {}).get("openAPIV3Schema")) if found else None


def _without_empty(schema: Any) -> Any:
    """The API server drops `properties: {}`."""
    if isinstance(schema, dict):
        return {key: _without_empty(value) for key, value in schema.items() if value != {}}
    return [_without_empty(one) for one in schema] if isinstance(schema, list) else schema


def _classes(installed: InstallationFacts) -> Check:
    name = "classes"
    if installed.classes.unread:
        return not_checked(Section.OPERATOR, name, "DeviceClasses", installed.classes.unread)
    there = {one["metadata"]["name"]: one for one in installed.classes.objects}
    wanted = {one["metadata"]["name"]: one for one in classes()}
    missing = [one for one in wanted if one not in there]
    found: list[Finding] = []
    if missing:
        text = f"DeviceClass {listed(missing)}"
        found.append(of_object(installations.NOT_INSTALLED, "DeviceClass", missing[0], missing=text))
    found += [
        of_object(installations.CLASS_DIFFERS, "DeviceClass", one, name=one)
        for one in wanted
        if one in there and _selectors(there[one]) != _selectors(wanted[one])
    ]
    return Check(Section.OPERATOR, name, "The device classes for everybody are there.", found)


def _selectors(class_: Json) -> list[str]:
    """People may add the rest: an extended resource, or configs."""
    given = class_["spec"].get("selectors") or ()
    return [" ".join((one.get("cel") or {}).get("expression", "").split()) for one in given]


def _running(facts: ClusterFacts, installed: InstallationFacts) -> Check:
    name = "operator"
    if not facts.operators.objects:
        missing = f"Deployment of the operator in namespace {installed.namespace}"
        found = [of_cluster(installations.NOT_INSTALLED, missing=missing)]
        return Check(Section.OPERATOR, name, "", found)
    deployment = facts.operators.objects[0]
    wanted = deployment["spec"].get("replicas", 1)
    ready = (deployment.get("status") or {}).get("availableReplicas", 0)
    values = {"wanted": counted(wanted, "replica"), "ready": ready, "namespace": installed.namespace}
    found = []
    if not ready and wanted:
        found.append(of_cluster(installations.NO_OPERATOR, **values))
    elif ready < wanted:
        found.append(of_cluster(installations.FEWER_REPLICAS, **values))
    return Check(Section.OPERATOR, name, f"Available replicas of the operator: {ready} of {wanted}.", found)


def _versions(facts: ClusterFacts, installed: InstallationFacts) -> Check:
    found = []
    for what, objects in (
        ("The operator", facts.operators.objects),
        ("The agents' DaemonSet", installed.daemon_sets.objects),
    ):
        other = sorted({version_of(one) for one in objects} - {__version__, ""})
        if other:
            values = {"what": what, "found": listed(other), "version": __version__}
            found.append(of_cluster(installations.OTHER_VERSION, **values))
    return Check(Section.OPERATOR, "versions", f"Both programs are of version {__version__}, as this command.", found)


def version_of(workload: Json) -> str:
    """Empty: it does not say."""
    return str((workload["metadata"].get("labels") or {}).get(VERSION, ""))


def _lease(installed: InstallationFacts) -> Check:
    facts = installed.lease
    if facts.unread:
        return not_checked(Section.OPERATOR, "lease", "Who leads", facts.unread)
    spec = (facts.lease or {}).get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    why = ""
    if facts.lease is None:
        why = f"There is no Lease {facts.name}"
    elif not holder:
        why = f"Nobody holds Lease {facts.name}"
    elif facts.unchanged_for:
        why = f"{holder} holds Lease {facts.name} and has not renewed it for {facts.unchanged_for:.0f} s"
    found = [of_cluster(installations.NOBODY_LEADS, why=why, namespace=installed.namespace)] if why else []
    return Check(Section.OPERATOR, "lease", f"{holder.partition('_')[0]} leads, and renews Lease {facts.name}.", found)


def _rights(installed: InstallationFacts) -> Check:
    unread = next((one.unread for one in installed.granted if one.unread), "")
    if unread:
        return not_checked(Section.OPERATOR, "rights", "Rights of both programs", unread)
    found = [
        of_object(
            installations.RIGHT_MISSING,
            "ServiceAccount",
            one.account,
            account=one.account,
            rights=listed([str(right) for right in one.refused], separator="; "),
        )
        for one in installed.granted
        if one.refused
    ]
    return Check(Section.OPERATOR, "rights", "Operator and agents have the rights that they need.", found)
