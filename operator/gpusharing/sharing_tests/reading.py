"""Files of tests, and the manifests that they name: what is wrong is told with file and line."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import pydantic

from gpusharing import cel
from gpusharing.findings.finding import Severity
from gpusharing.sharing_tests import shapes
from gpusharing.sharing_tests.form import KIND, SharingTest
from gpusharing.snapshots.world import World
from gpusharing.validating.problems import Path, in_words
from gpusharing.validating.reading import Document, Mark, UnreadableError, documents, items_of
from gpusharing.validating.structure import nearest, shown
from gpusharing.validating.validation import Source

_START: Final = Mark(1, 1)
_IN_WORDS: Final = {
    "missing": "is missing",
    "string_type": "must be a string (put it in quotes)",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "json_invalid": "has characters that JSON cannot have",
}


class UnusableError(Exception):
    """A file that cannot be read, or that says nothing that can be tried."""

    def __init__(self, file: str, mark: Mark | None, message: str) -> None:
        place = f"{file}:{mark.line}:{mark.column}" if mark else file
        super().__init__(f"{place}: {message}")


class Files(Protocol):
    """What is at a path that a test names. `near`: the file of the test. Both raise UnusableError."""

    def manifests(self, path: str, near: str) -> Sequence[Source]: ...

    def snapshot(self, path: str, near: str) -> World: ...


class Given(NamedTuple):
    """An object of a manifest."""

    value: dict[str, Any]
    file: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Loaded:
    test: SharingTest
    file: str
    document: Document

    def mark(self, path: Path) -> Mark:
        return self.document.mark(path)

    def unusable(self, path: Path, message: str) -> UnusableError:
        return UnusableError(self.file, self.mark(path), f"{in_words(path)}: {message}")


def read_tests(source: Source) -> Iterator[Loaded]:
    """Documents of other kinds are left out. Raises UnusableError."""
    for document in _documents(source):
        if isinstance(document.value, dict) and document.value.get("kind") == KIND:
            if document.repeated:
                path = document.repeated[0]
                raise UnusableError(
                    source.name, document.mark(path, at_key=True), f"{in_words(path)}: is given twice: remove one"
                )
            yield Loaded(_decoded(document, source.name), source.name, document)


def manifests(given: Sequence[Any], at: Path, loaded: Loaded, files: Files) -> Iterator[Given]:
    """The objects that a list of the test names. Raises UnusableError."""
    for number, one in enumerate(given):
        yield from manifest(one, (*at, number), loaded, files)


def manifest(given: Any, at: Path, loaded: Loaded, files: Files) -> Iterator[Given]:
    """Those of other kinds than are used are left out."""
    minor = loaded.test.minor or cel.NEWEST_MINOR
    if isinstance(given, dict):
        if not shapes.is_used(given):
            raise loaded.unusable(at, "is no object that a test can use: see its apiVersion, kind and metadata.name")
        _check(given, loaded.file, lambda path: loaded.mark((*at, *path)), minor)
        yield Given(given, loaded.file, loaded.mark(at))
        return
    for source in files.manifests(given, loaded.file):
        for document in _documents(source):
            for item in items_of(document):
                if shapes.is_used(item.value):
                    _check(item.value, source.name, item.mark, minor)
                    yield Given(item.value, source.name, item.root.mark)


def _documents(source: Source) -> Iterator[Document]:
    try:
        text = source.data.decode("utf-8-sig")
        yield from documents(text)
    except UnicodeDecodeError as error:
        raise UnusableError(source.name, _START, f"not UTF-8 at byte {error.start}") from None
    except UnreadableError as error:
        raise UnusableError(source.name, error.mark, str(error)) from None


def _decoded(document: Document, file: str) -> SharingTest:
    try:
        return SharingTest.model_validate_json(json.dumps(document.value))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = tuple(first["loc"])
        at_key = first["type"] == "extra_forbidden"
        raise UnusableError(file, document.mark(path, at_key=at_key), f"{in_words(path)}: {_said(first)}") from None


def _said(error: Mapping[str, Any]) -> str:
    kind, path = error["type"], error["loc"]
    if kind == "extra_forbidden":
        known = _fields(path[:-1])
        near = nearest(str(path[-1]), known)
        remedy = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
        return f"is not a known field: {remedy}"
    if kind in {"enum", "literal_error"}:
        return f"is {shown(error['input'])}: must be {error['ctx']['expected'].replace(chr(39), '')}"
    if kind == "string_pattern_mismatch":
        return f"is {shown(error['input'])}: must be a name of lower-case letters, digits, - and ."
    said = _IN_WORDS.get(kind) or str(error["msg"])
    return f"{said[0].lower()}{said[1:]}"


def _fields(path: Sequence[str | int]) -> list[str]:
    """The fields that a part of a test may have."""
    schema = root = SharingTest.model_json_schema(by_alias=True)
    for part in path:
        schema = schema.get("items", {}) if isinstance(part, int) else schema["properties"].get(part, {})
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return list(schema.get("properties", ()))


def _check(value: Any, file: str, mark: Callable[[Path], Mark], minor: int) -> None:
    for problem in shapes.problems(value, minor=minor):
        if problem.entry.severity is Severity.ERROR:
            remedy = f" {problem.remedy}" if problem.remedy else ""
            message = f"{value['kind']} {value['metadata']['name']}: {in_words(problem.path)}: {problem.message}"
            raise UnusableError(file, mark(problem.path), f"{message.removesuffix('.')}.{remedy}")
