"""All given files, one after the other, and then what they say to each other."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpusharing import cel
from gpusharing.api import names
from gpusharing.findings import validating
from gpusharing.findings.finding import Finding, Reference, ignored_by
from gpusharing.validating import kinds, objects
from gpusharing.validating.guards import Guards, labels_of
from gpusharing.validating.policies import read_policy
from gpusharing.validating.problems import Problem
from gpusharing.validating.reading import Document, Mark, UnreadableError, documents, items_of

_START: Final = Mark(1, 1)


class Source(NamedTuple):
    """A file, or what comes from a pipe."""

    name: str
    data: bytes


class Located(NamedTuple):
    finding: Finding
    file: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Validation:
    findings: tuple[Located, ...]
    checked: int
    """Objects of the kinds that are checked."""
    others: int
    """Objects of other kinds."""
    objects: tuple[dict[str, Any], ...] = ()
    """All that nothing is wrong with, of whatever kind, as JSON."""


def validate(sources: Iterable[Source], *, minor: int = cel.NEWEST_MINOR, namespace: str | None = None) -> Validation:
    """`namespace`: the one of objects that name none; None: nobody knows it."""
    run = _Run(minor, namespace)
    for source in sources:
        run.read(source)
    run.look_at_all()
    order = sorted(run.found, key=lambda one: (one.file, one.mark))
    return Validation(tuple(order), run.checked, run.others, run.sound)


@dataclass(frozen=True, slots=True)
class _Given:
    """An object of a file."""

    file: str
    document: Document
    text: str
    """Of the whole file."""
    object: Reference
    is_sound: bool
    """Whether the API server would take it."""

    @property
    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = self.document.value
        return value

    def located(self, problem: Problem) -> Located:
        mark = self.document.mark(problem.path, at_key=problem.at_key)
        if problem.offset is not None:
            mark = self._inside(problem, mark)
        return Located(problem.about(self.object), self.file, mark)

    def _inside(self, problem: Problem, mark: Mark) -> Mark:
        """The place in an expression, if it stands in the file as it is."""
        node = self.document.node(problem.path)
        if node is None or not isinstance(node.value, str) or problem.offset is None:
            return mark
        before = node.value[: problem.offset]
        number, column = before.count("\n"), problem.offset - (before.rfind("\n") + 1)
        line = node.value.split("\n")[number]
        start = self.text.rfind("\n", 0, node.start) + 1
        for index, written in enumerate(self.text[start : node.end].split("\n")):
            at = written.find(line, 0 if index else node.start - start)
            if line and at >= 0:
                return Mark(mark.line + index, at + column + 1)
        return mark


@dataclass(slots=True)
class _Run:
    minor: int
    namespace: str | None
    found: list[Located] = field(default_factory=list)
    checked: int = 0
    others: int = 0
    _given: list[_Given] = field(default_factory=list)

    @property
    def sound(self) -> tuple[dict[str, Any], ...]:
        return tuple(one.value for one in self._given if one.is_sound)

    def read(self, source: Source) -> None:
        try:
            text = source.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._unreadable(source, UnreadableError(f"not UTF-8 at byte {error.start}", _START))
            return
        try:
            for document in documents(text):
                for item in items_of(document):
                    self._take(source.name, item, text)
        except UnreadableError as error:
            self._unreadable(source, error)

    def _unreadable(self, source: Source, error: UnreadableError) -> None:
        problem = Problem(validating.UNREADABLE, (), str(error))
        self.found.append(Located(problem.about(Reference("file", source.name)), source.name, error.mark))

    def _take(self, file: str, document: Document, text: str) -> None:
        match document.value:
            case {"apiVersion": str(api_version), "kind": str(kind)}:
                pass
            case _:
                # Values of Helm and the like: nothing that is applied.
                self.others += 1
                return
        gone = kinds.problem(api_version, kind)
        is_checked = gone is None and kinds.is_checked(api_version, kind)
        self.checked += is_checked or gone is not None
        self.others += not (is_checked or gone is not None)
        problems = [gone] if gone else list(objects.problems(document.value, minor=self.minor)) if is_checked else []
        given = _Given(file, document, text, _reference(document.value, self.namespace), not problems)
        self._given.append(given)
        if is_checked or gone:
            problems += [
                Problem(validating.REPEATED_KEY, path, "is given twice", at_key=True) for path in document.repeated
            ]
        self._put(given, problems)

    def look_at_all(self) -> None:
        self._look_for_repeated()
        sound = [one for one in self._given if one.is_sound]
        policies = [read_policy(one.value) for one in sound if one.object.kind == "SharingPolicy"]
        namespaces = {
            one.object.name: labels_of(one.value)
            for one in self._given
            if one.object.kind == "Namespace" and isinstance(one.value.get("metadata"), dict)
        }
        guards = Guards([policy for policy in policies if policy], namespaces, minor=self.minor)
        for one in sound:
            self._put(one, self._refusals(guards, one))

    def _refusals(self, guards: Guards, one: _Given) -> Iterator[Problem]:
        if one.object.kind in {"ResourceClaim", "ResourceClaimTemplate"}:
            metadata = {**one.value["metadata"], "namespace": one.object.namespace or None}
            yield from guards.of_claim({**one.value, "metadata": metadata})
        elif path := kinds.pod_spec(one.value):
            spec: Any = one.value
            for part in path:
                spec = spec[part]
            yield from guards.of_pod(spec, one.object.namespace or None, path)

    def _look_for_repeated(self) -> None:
        """In a file: those of other folders may be for other clusters."""
        first: dict[tuple[str, Reference], _Given] = {}
        for one in self._given:
            if not one.object.name or not kinds.is_checked(one.value["apiVersion"], one.object.kind):
                continue
            before = first.setdefault((one.file, one.object), one)
            if before is not one:
                line = before.document.root.mark.line
                finding = validating.REPEATED_OBJECT.found(one.object, line=line, object=one.object)
                self._add(one, Located(finding, one.file, one.document.mark(("metadata", "name"))))

    def _put(self, given: _Given, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self._add(given, given.located(problem))

    def _add(self, given: _Given, located: Located) -> None:
        if located.finding.code not in ignored_by(_annotations(given.value)):
            self.found.append(located)


def _reference(value: Mapping[str, Any], namespace: str | None) -> Reference:
    metadata = value.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    is_cluster_wide = value["kind"] in {"SharingPolicy", "NodeSharing", "DeviceClass", "Namespace"}
    where = "" if is_cluster_wide else str(named.get("namespace") or namespace or "")
    return Reference(value["kind"], str(named.get("name") or named.get("generateName") or ""), where)


def _annotations(value: Mapping[str, Any]) -> Mapping[str, str]:
    metadata = value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    given = annotations.get(names.IGNORED_FINDINGS) if isinstance(annotations, dict) else None
    return {names.IGNORED_FINDINGS: given} if isinstance(given, str) else {}
