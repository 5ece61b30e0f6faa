"""A World without the names that people gave, in which everything still fits together.

Names and label values become words that say nothing, each always the same one. They sort as the names did: policies of
equal priority, rollouts and the scheduler go by the order of names.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.snapshots.world import (
    BINDINGS,
    CLAIMS,
    CLASSES,
    EVENTS,
    GUARDS,
    NODE_SHARINGS,
    PODS,
    POLICIES,
    RESOURCES,
    TEMPLATES,
    Json,
    World,
)

_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PLAIN: Final = re.compile(r"true|false|[0-9]*")
"""Label values that are compared as numbers, or say yes or no."""
_KNOWN: Final = frozenset({"default", "kube-system", "gpusharing-system", "gpusharing-operator"})
_OF_OTHERS: Final = frozenset({names.DRIVER})
_WORDS_OF_APIS: Final = frozenset(
    {"gpu", "mig", "shared", "restricted", "memory", "shares", "threads", "pods", "All", "Equal", "Exists", "In"}
    | {sharing.value for sharing in Sharing}
)
"""Devices are told apart by them, and a name that is one of them says nothing about anybody."""
_LABELS: Final = frozenset({"labels", "matchLabels", "nodeSelector"})
_KEPT: Final = frozenset({"kind", "apiVersion", "driver", "type", "operator", "effect", "reason"})
"""Fields whose texts are the API's own, or names of nothing."""


def anonymous(world: World, *, salt: bytes) -> World:
    """`salt`: whoever does not know it cannot try out names."""
    pseudonyms = _pseudonyms(world, salt)
    changed: dict[str, Any] = {
        one.field: [] if one == EVENTS else [_object(item, pseudonyms) for item in world.of(one)] for one in RESOURCES
    }
    return replace(world, unread=dict.fromkeys(world.unread, "not read"), only_namespace={}, **changed)


def _pseudonyms(world: World, salt: bytes) -> Mapping[str, str]:
    secret = {word for one in RESOURCES for item in world.of(one) for word in _secrets(item)}
    # What people call containers, and the requests of claims.
    secret |= {word for one in (PODS, CLAIMS, TEMPLATES) for item in world.of(one) for word in _names(item)}
    for one in RESOURCES:
        if one not in {CLASSES, GUARDS, BINDINGS}:
            secret |= {item["metadata"]["name"] for item in world.of(one)}
    for item in (*world.of(CLASSES), *world.of(GUARDS), *world.of(BINDINGS)):
        if not item["metadata"]["name"].startswith("gpusharing-"):
            secret.add(item["metadata"]["name"])
    policies = {item["metadata"]["name"] for item in world.of(POLICIES)}
    policies |= {
        name for item in world.of(NODE_SHARINGS) for name in _policies_of((item.get("spec") or {}).get("gpus") or ())
    }
    secret |= policies
    of_policies = _made_for(policies)
    kept = _KNOWN | names.INSTALLED_CLASSES | _OF_OTHERS | _WORDS_OF_APIS | of_policies.keys()
    words = sorted(word for word in secret - kept if word)
    found = {word: _pseudonym(rank, word, salt) for rank, word in enumerate(words)}
    # What the operator calls after a policy is still called after it.
    return found | {made: template.format(found[policy]) for made, (policy, template) in of_policies.items()}


def _pseudonym(rank: int, word: str, salt: bytes) -> str:
    return f"x{rank:06d}-{hashlib.blake2b(word.encode(), key=salt, digest_size=4).hexdigest()}"


def _made_for(policies: Iterable[str]) -> Mapping[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for policy in policies:
        for sharing in Sharing:
            suffix = names.policy_class("", sharing)
            found[names.policy_class(policy, sharing)] = policy, f"{{}}{suffix}"
        found[f"{names.QUOTA_PREFIX}{policy}"] = policy, f"{names.QUOTA_PREFIX}{{}}"
    return found


def _policies_of(gpus: Iterable[Json]) -> Iterator[str]:
    for gpu in gpus:
        if gpu.get("policy"):
            yield gpu["policy"]["name"]
        yield from (loser["policy"] for loser in gpu.get("losers") or ())


def _secrets(value: Any) -> Iterator[str]:
    """Values of labels, wherever labels are or are selected by, and names of other objects."""
    match value:
        case dict():
            for key, item in value.items():
                if key in _LABELS and isinstance(item, dict):
                    yield from (text for text in item.values() if not _PLAIN.fullmatch(str(text)))
                elif key == "values" and isinstance(item, list) and "operator" in value:
                    yield from (text for text in item if isinstance(text, str) and not _PLAIN.fullmatch(text))
                elif key in {"ownerReferences", "reservedFor"} and isinstance(item, list):
                    yield from (str(one.get("name") or "") for one in item)
                elif key in {"uid", "shareID"} and isinstance(item, str):
                    yield item
                elif key in {"namespace", "nodeName", "resourceClaimName", "resourceClaimTemplateName", "pool"}:
                    yield from _WORD.findall(item) if isinstance(item, str) else _secrets(item)
                else:
                    yield from _secrets(item)
        case list():
            for item in value:
                yield from _secrets(item)


def _names(value: Any) -> Iterator[str]:
    match value:
        case dict():
            if isinstance(value.get("name"), str):
                yield value["name"]
            for item in value.values():
                yield from _names(item)
        case list():
            for item in value:
                yield from _names(item)


def _object(item: Json, pseudonyms: Mapping[str, str]) -> dict[str, Any]:
    metadata = {key: part for key, part in item["metadata"].items() if key != "annotations"}
    changed: dict[str, Any] = _changed({**item, "metadata": metadata}, pseudonyms)
    return changed


def _changed(value: Any, pseudonyms: Mapping[str, str]) -> Any:
    match value:
        case dict():
            return {
                _text(key, pseudonyms): item if key in _KEPT else _of_field(key, item, pseudonyms)
                for key, item in value.items()
            }
        case list():
            return [_changed(item, pseudonyms) for item in value]
        case str():
            return _text(value, pseudonyms)
        case _:
            return value


def _of_field(key: str, item: Any, pseudonyms: Mapping[str, str]) -> Any:
    if key == "opaque" and isinstance(item, dict) and item.get("driver") != names.DRIVER:
        # Nobody knows what others write there.
        return {**item, "parameters": {}}
    if key in {"message", "note"} and isinstance(item, str):
        return ""
    return _changed(item, pseudonyms)


def _text(text: str, pseudonyms: Mapping[str, str]) -> str:
    known = pseudonyms.get(text)
    return known if known is not None else _WORD.sub(lambda match: pseudonyms.get(match[0], match[0]), text)
