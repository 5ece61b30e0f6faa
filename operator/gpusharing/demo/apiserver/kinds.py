"""The kinds that are served: Kubernetes' own, of which a file tells, and those of CustomResourceDefinitions."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
Schema = Mapping[str, Any]

OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
PREFIX: Final = "#/components/schemas/"
GROUP_VERSION_KIND: Final = "x-kubernetes-group-version-kind"

_STORED_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
EVENTS: Final = "events.k8s.io"
# Nobody counts their generations.
_WITHOUT_GENERATION: Final = frozenset(
    {"namespaces", "nodes", "resourcequotas", "resourceclaims", "resourceclaimtemplates", "services", "leases"}
)
# Who replaces one must say which version of it.
_WITH_VERSION: Final = frozenset(
    {
        "leases", "poddisruptionbudgets", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
        "customresourcedefinitions",
    }
)  # fmt: skip
# What `kubectl delete` gets back is the object as it was, not that it succeeded.
_SHOWN_WHEN_DELETED: Final = frozenset(
    {
        "namespaces", "pods", "resourcequotas", "services", "serviceaccounts", "deviceclasses", "devicetaintrules",
        "resourceclaims", "resourceclaimtemplates", "resourceslices",
    }
)  # fmt: skip
# Kubelets and such create them with a status.
_STATUS_FROM_CREATOR: Final = frozenset({"nodes", "namespaces"})


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One version of a kind."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    schema: Schema
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _STORED_VERBS
    subresources: tuple[str, ...] = ()
    columns: tuple[Mapping[str, Any], ...] = ()
    """Of tables; of a custom kind as its definition says them."""
    is_custom: bool = False
    selectable: tuple[str, ...] = ()
    """Fields that a CRD allows field selectors to name."""

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As messages have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored_as(self) -> tuple[str, str]:
        """All versions of a kind are one collection, and Events of both groups are, too."""
        return ("", "events") if self.resource == f"events.{EVENTS}" else (self.group, self.plural)

    @property
    def has_generation(self) -> bool:
        if self.is_custom:
            return True
        return "spec" in self.schema.get("properties", {}) and self.plural not in _WITHOUT_GENERATION

    @property
    def is_replaced_blindly(self) -> bool:
        return not self.is_custom and self.plural not in _WITH_VERSION

    @property
    def is_shown_when_deleted(self) -> bool:
        return not self.is_custom and self.plural in _SHOWN_WHEN_DELETED

    @property
    def takes_status_at_creation(self) -> bool:
        return "status" not in self.subresources or (not self.is_custom and self.plural in _STATUS_FROM_CREATOR)


@dataclass(frozen=True, slots=True)
class Definitions:
    """Of Kubernetes' own kinds."""

    version: str
    kinds: tuple[Kind, ...]
    schemas: Mapping[str, Schema] = field(repr=False)
    messages: Mapping[str, Mapping[str, Any]] = field(repr=False)
    """Of protobuf, by the names of schemas."""


@lru_cache(1)
def definitions() -> Definitions:
    content = json.loads(Path(__file__).with_name("kubernetes.json").read_bytes())
    schemas: dict[str, Schema] = content["schemas"]
    by_kind = {
        (one["group"], one["version"], one["kind"]): schema
        for schema in schemas.values()
        for one in schema.get("x-kubernetes-group-version-kind", ())
    }
    kinds: list[Kind] = []
    for group_version, listed in content["resources"].items():
        group, _, version = group_version.rpartition("/")
        for one in listed:
            if "/" in one["name"]:
                continue
            below = tuple(
                other["name"].partition("/")[2] for other in listed if other["name"].startswith(f"{one['name']}/")
            )
            kinds.append(
                Kind(
                    group, version, one["kind"], one["name"], one["singularName"], one["namespaced"],
                    by_kind[group, version, one["kind"]], f"{one['kind']}List", tuple(one.get("shortNames", ())),
                    tuple(one.get("categories", ())), tuple(one["verbs"]), below,
                    tuple(content["columns"].get(one["kind"], ())),
                )
            )  # fmt: skip
    return Definitions(content["version"], tuple(kinds), schemas, content["messages"])


class Kinds:
    """All that are served now."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        for kind in definitions().kinds:
            self._by_path[kind.group, kind.version, kind.plural] = kind

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_path.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> Kind | None:
        group, _, version = api_version.rpartition("/")
        return next((one for one in self if (one.group, one.version, one.kind) == (group, version, kind)), None)

    def stored_as(self, group: str, plural: str) -> Kind | None:
        return next((one for one in self if one.stored_as == (group, plural)), None)

    def groups(self) -> dict[str, list[str]]:
        """Versions by groups, the best ones first."""
        found: dict[str, list[str]] = {}
        for kind in self:
            versions = found.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        return found

    def replace_custom(self, group: str, plural: str, kinds: tuple[Kind, ...]) -> None:
        """None: the definition has gone."""
        for key in [key for key in self._by_path if key[0] == group and key[2] == plural]:
            del self._by_path[key]
        for kind in kinds:
            self._by_path[kind.group, kind.version, kind.plural] = kind


def followed(schema: Schema) -> Schema:
    """What a reference refers to; what else is said beside it counts as well."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        parts = schema.get("allOf")
        if not parts or len(parts) != 1 or "$ref" not in parts[0]:
            return schema
        reference = parts[0]["$ref"]
    return definitions().schemas[reference.removeprefix(PREFIX)]


def part_of(schema: Schema, name: str) -> Schema | None:
    """The schema of a field or an entry; None: it is not known."""
    known: Schema | None = schema.get("properties", {}).get(name)
    if known is not None:
        return followed(known) if "x-kubernetes-patch-strategy" not in known else known
    others = schema.get("additionalProperties")
    return followed(others) if isinstance(others, dict) else None


def items_of(schema: Schema) -> Schema:
    return followed(schema.get("items") or {})


def below_path(path: str, name: str) -> str:
    """Of a field, as messages name it."""
    return f"{path}.{name}" if path else name
