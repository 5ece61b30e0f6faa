"""A value in a document, with its place: what remarks are about."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import LiteralScalarString

from gpusharing.converting import documents
from gpusharing.converting.documents import Document
from gpusharing.converting.remarks import NotConvertibleError, Remark, shown
from gpusharing.findings.converting import DIFFERENT, NOT_CARRIED_OVER
from gpusharing.findings.finding import Entry

_CORRECT_IT = "correct it, or convert the document by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    file: str
    first_line: int
    """Of the file, on which the document begins."""
    text: str
    """Of the document."""
    note: Callable[[Remark], None]


@dataclass(frozen=True, slots=True)
class Field:
    value: Any
    """Whatever people write."""
    path: str
    line: int
    source: Source
    name: str = ""
    """Its key."""

    @classmethod
    def of_document(cls, data: Any, source: Source) -> "Field":
        return cls(data, "", source.first_line, source)

    @property
    def type(self) -> tuple[str, str]:
        """API version and kind, empty if it has none."""
        if not isinstance(self.value, CommentedMap):
            return "", ""
        version, kind = self.value.get("apiVersion"), self.value.get("kind")
        return version if isinstance(version, str) else "", kind if isinstance(kind, str) else ""

    def warn(self, fact: str, remedy: str) -> None:
        self._remark(NOT_CARRIED_OVER, fact, remedy)

    def inform(self, fact: str, remedy: str = "") -> None:
        self._remark(DIFFERENT, fact, remedy)

    def _remark(self, entry: Entry, fact: str, remedy: str) -> None:
        self.source.note(Remark(entry, self.source.file, self.line, self.path, fact, remedy))

    def refusal(self, fact: str, remedy: str = _CORRECT_IT) -> NotConvertibleError:
        return NotConvertibleError(self.source.file, self.line, self.path, fact, remedy)

    @property
    def map(self) -> CommentedMap:
        if not isinstance(self.value, CommentedMap):
            raise self.refusal(f"is {_kind(self.value)}, not a mapping")
        return self.value

    @property
    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.refusal(f"is {_kind(self.value)}, not a text")
        return str(self.value)

    @property
    def number(self) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.refusal(f"is {_kind(self.value)}, not a whole number")
        return int(self.value)

    @property
    def switch(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.refusal(f"is {_kind(self.value)}, not true or false")
        return self.value

    def __contains__(self, key: str) -> bool:
        """Whether it is there and says something: to Kubernetes, null is an absent field."""
        return self.map.get(key) is not None

    def __getitem__(self, key: str) -> "Field":
        if key not in self:
            raise self.refusal(f"has no {key}")
        return self.child(key, f"{self.path}.{key}" if self.path else key)

    def get(self, *keys: str) -> "Field | None":
        field = self
        for key in keys:
            if key not in field:
                return None
            field = field[key]
        return field

    def text_at(self, *keys: str) -> str:
        """Empty if there is none."""
        field = self.get(*keys)
        return field.text if field else ""

    def fields(self) -> Iterator["Field"]:
        """Of a mapping."""
        for key in list(self.map):
            if not isinstance(key, str):
                raise self.refusal(f"has the key {shown(key)}, which is no text", "put it into quotes")
            if key in self:
                yield self[key]

    def items(self, *keys: str) -> list["Field"]:
        """Of the list there; none if there is no list."""
        field = self.get(*keys)
        if field is None:
            return []
        if not isinstance(field.value, CommentedSeq):
            raise field.refusal(f"is {_kind(field.value)}, not a list")
        return [field.child(number, f"{field.path}[{number}]") for number in range(len(field.value))]

    def child(self, key: Any, path: str) -> "Field":
        positions = self.value.lc.data
        # What a conversion has added has no line of its own.
        line = self.source.first_line + positions[key][0] if positions and key in positions else self.line
        return Field(self.value[key], path, line, self.source, str(key))

    def embedded(self) -> "Field":
        """The document that this text is."""
        # Of a block the text begins on the next line; elsewhere lines are not those of the file.
        is_block = isinstance(self.value, LiteralScalarString)
        first_line = self.line + is_block
        data = documents.load(Document(self.source.file, first_line, "", self.text))
        source = replace(self.source, first_line=first_line, text=self.text)
        return Field(data, self.path, first_line, source)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return "true or false"
        case _:
            return shown(repr(str(value)))
