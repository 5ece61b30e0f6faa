"""Runs a test: applies, places, and compares with what is expected."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpusharing.core.text import counted, listed
from gpusharing.findings.finding import Finding
from gpusharing.planning.deciding import Edit
from gpusharing.sharing_tests import comparing, new_cluster, pods
from gpusharing.sharing_tests.cluster import Applied, SettledCluster
from gpusharing.sharing_tests.comparing import Difference
from gpusharing.sharing_tests.form import MOST_PODS, Change, Manifest, Pods
from gpusharing.sharing_tests.observing import Observed, observe
from gpusharing.sharing_tests.pods import NewPod
from gpusharing.sharing_tests.reading import Files, Given, Loaded, manifest, manifests
from gpusharing.sharing_tests.shapes import APPLIED
from gpusharing.snapshots.world import Json, World
from gpusharing.validating.problems import Path
from gpusharing.validating.reading import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One expectation of a test."""

    name: str
    mark: Mark
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    name: str
    file: str
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...] = ()
    """What is to be said of the policies."""

    @property
    def is_as_expected(self) -> bool:
        return not any(check.differences for check in self.checks)


def run(loaded: Loaded, files: Files) -> Result:
    """Raises UnusableError."""
    return _Run(loaded, files).result()


@dataclass(slots=True)
class _Run:
    loaded: Loaded
    files: Files
    _checks: list[Check] = field(default_factory=list)
    _findings: list[Finding] = field(default_factory=list)

    def result(self) -> Result:
        test = self.loaded.test
        cluster = SettledCluster(self._world(), full_menus=test.full_menus, is_new=test.snapshot is None)
        namespaces = [new_cluster.namespace(one.name, one.labels) for one in test.namespaces]
        self._apply(test.policies, ("policies",), cluster, namespaces)
        self._try(test.pods, ("pods",), cluster)
        for number, change in enumerate(test.changes):
            self._change(change, ("changes", number), cluster)
        name = test.metadata.name
        return Result(name=name, file=self.loaded.file, checks=tuple(self._checks), findings=tuple(self._findings))

    def _world(self) -> World:
        test = self.loaded.test
        if test.snapshot is None:
            return new_cluster.world(self.loaded)
        world = self.files.snapshot(test.snapshot, self.loaded.file)
        return world if test.minor is None else replace(world, minor=test.minor)

    def _apply(
        self,
        given: Sequence[Manifest],
        at: Path,
        cluster: SettledCluster,
        namespaces: Sequence[Json] = (),
        *,
        prunes: bool = False,
    ) -> Applied:
        found = list(manifests(given, at, self.loaded, self.files))
        if given and not any(one.value["kind"] in APPLIED for one in found):
            raise self.loaded.unusable(at, "no SharingPolicy is in these manifests")
        edit = Edit(
            policies=_of_kind(found, "SharingPolicy"),
            namespaces=[*namespaces, *map(_whole, _of_kind(found, "Namespace"))],
            prunes=prunes,
        )
        applied = cluster.apply(edit, _of_kind(found, "DeviceClass"))
        for finding in applied.findings:
            if finding.object.kind == "SharingPolicy" and finding not in self._findings:
                self._findings.append(finding)
        return applied

    def _change(self, change: Change, at: Path, cluster: SettledCluster) -> None:
        applied = self._apply(change.policies, (*at, "policies"), cluster, prunes=change.prune)
        if change.disturbed is not None:
            disturbed = applied.disturbed
            expected = f"disturbs {counted(change.disturbed, 'claim')}"
            found = f"disturbs {counted(len(disturbed), 'claim')}{f' ({listed(disturbed)})' if disturbed else ''}"
            is_same = len(disturbed) == change.disturbed
            self._add(expected, (*at, "disturbed"), [] if is_same else [Difference(expected, found)])
        self._try(change.pods, (*at, "pods"), cluster)

    def _try(self, entries: Sequence[Pods], at: Path, cluster: SettledCluster) -> None:
        for number, entry in enumerate(entries):
            path = (*at, number)
            observed: list[tuple[str, Observed]] = []
            for new in self._pods_of(entry, path, cluster):
                if cluster.namespace(new.key[0]) is None:
                    cluster.apply(Edit(namespaces=[new_cluster.namespace(new.key[0], {})]))
                observed.append((new.name, observe(new, cluster, rather_on=entry.expect.node)))
            differences = comparing.differences(entry.expect, observed)
            self._add(f"{_title(entry)}: {comparing.expected_in_words(entry.expect)}", path, differences)

    def _add(self, name: str, at: Path, differences: Sequence[Difference]) -> None:
        after = f"change {int(at[1]) + 1}: " if at[0] == "changes" else ""
        check = Check(name=f"{after}{name}", mark=self.loaded.mark(at), differences=tuple(differences))
        self._checks.append(check)

    def _pods_of(self, entry: Pods, at: Path, cluster: SettledCluster) -> Sequence[NewPod]:
        if entry.manifest is None:
            return pods.of_class(entry, cluster.pods)
        objects = list(manifest(entry.manifest, (*at, "manifest"), self.loaded, self.files))
        found = pods.of_manifest(objects, entry, cluster.templates, cluster.pods)
        if not found:
            what = f"no Pod, and nothing that makes pods, has the name {entry.name}" if entry.name else "has no Pod"
            raise self.loaded.unusable((*at, "manifest"), what)
        if len(found) > MOST_PODS:
            raise self.loaded.unusable((*at, "manifest"), f"makes more than {MOST_PODS:,} pods")
        for claim in pods.claims_of(objects, entry):
            cluster.add_claim(claim)
        return found


def _of_kind(given: Iterable[Given], kind: str) -> list[Json]:
    return [one.value for one in given if one.value["kind"] == kind]


def _whole(namespace: Json) -> Json:
    return new_cluster.namespace(namespace["metadata"]["name"], namespace["metadata"].get("labels") or {})


def _title(entry: Pods) -> str:
    if entry.device_class is not None:
        amounts = ", ".join(f"{name} {amount}" for name, amount in entry.capacity.items())
        what = f"{entry.device_class} ({amounts})" if amounts else entry.device_class
    elif isinstance(entry.manifest, str):
        what = f"{entry.manifest} {entry.name}" if entry.name else entry.manifest
    else:
        what = f"{entry.manifest['kind']} {entry.manifest['metadata']['name']}"
    return f"{entry.count} x {what}" if entry.count > 1 else what
