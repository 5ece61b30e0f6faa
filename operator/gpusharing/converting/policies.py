"""SharingPolicies as a conversion writes them."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from gpusharing.api import names
from gpusharing.converting.fields import Field
from gpusharing.converting.scalars import scalar

_ORDER: Final = ("priority", "nodes", "gpus", "offers", "tenants", "classes")
"""As docs/policies.md has them."""
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")


class Written(NamedTuple):
    data: CommentedMap
    comments: str = ""
    """Lines to stand before it."""


class Registry:
    """What may exist once only: names of policies, and extended resources."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._resources: dict[str, str] = {}

    def name(self, *parts: str) -> str:
        """Of the parts that are not empty."""
        wanted = "-".join(filter(None, (_NO_NAME.sub("-", part.lower()).strip("-") for part in parts))) or "policy"
        name, number = _short(wanted), 1
        while name in self._names:
            number += 1
            name = _short(f"{wanted}-{number}")
        self._names.add(name)
        return name

    def take_resource(self, resource: str, policy: str, field: Field) -> bool:
        """Whether the policy may give it to one of its device classes."""
        owner = self._resources.setdefault(resource, policy)
        if owner != policy:
            field.warn(
                f"only one device class can have the extended resource {resource}, and policy {owner} has it",
                f"let pods that need policy {policy} ask for its device classes",
            )
        return owner == policy


def policy(name: str, spec: Mapping[str, Any], comments: str = "") -> Written:
    data = CommentedMap(apiVersion=names.API_VERSION, kind="SharingPolicy", metadata=CommentedMap(name=name))
    data["spec"] = _commented({key: spec[key] for key in _ORDER if key in spec})
    return Written(data, comments)


def nodes_labelled(key: str, value: str) -> dict[str, Any]:
    return {"matchLabels": {key: value}}


def nodes_without(key: str, values: list[str]) -> dict[str, Any]:
    """Those with another value, and those without the label."""
    if not values:
        return {}
    return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": sorted(values)}]}


def _commented(value: Any) -> Any:
    """As mappings that keep the order in which they were written."""
    if isinstance(value, Mapping):
        return CommentedMap((key, _commented(item)) for key, item in value.items())
    if isinstance(value, list):
        return CommentedSeq(map(_commented, value))
    return scalar(value) if isinstance(value, str) else value


def _short(name: str) -> str:
    if len(name) <= names.MAX_POLICY_NAME:
        return name
    return f"{name[: names.MAX_POLICY_NAME - 9].rstrip('-')}-{crc32(name.encode()):08x}"
