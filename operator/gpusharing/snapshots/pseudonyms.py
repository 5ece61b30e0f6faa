"""Words in place of the names that people gave: each name always has the same one.

They sort as the names did: policies of equal priority, rollouts and the scheduler go by the order of names.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Self, TypeGuard

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
_TOKEN: Final = re.compile(r"\w(?:[\w.-]*\w)?")
"""A word of a log, in any script."""
_PLAIN: Final = re.compile(r"true|false|[0-9]*")
"""Label values that are compared as numbers, or say yes or no."""
_SAYS_NOTHING: Final = re.compile(
    # Amounts and versions, but no addresses; moments; UUIDs of GPUs.
    r"v?[0-9]+(?:\.[0-9]+){0,2}(?:ms|us|ns|s|m|h|d|[KMGT]i?B?)?|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2})?|[0-9.]+Z"
    r"|(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.ASCII,
)
_KNOWN: Final = frozenset(
    {"default", "kube-system", names.NAMESPACE, "gpusharing", "gpu-sharing"}
    | {names.OPERATOR, names.AGENT, "operator", "agent"}
)
_OF_OTHERS: Final = frozenset({names.DRIVER})
_WORDS_OF_APIS: Final = frozenset(
    {"gpu", "mig", "shared", "restricted", "memory", "shares", "threads", "pods", "All", "Equal", "Exists", "In"}
    | {sharing.value for sharing in Sharing}
)
"""Devices are told apart by them, and a name that is one of them says nothing about anybody."""
_KEPT: Final = _KNOWN | names.INSTALLED_CLASSES | _OF_OTHERS | _WORDS_OF_APIS
_LABELS: Final = frozenset({"labels", "matchLabels", "nodeSelector"})
_REFERENCES: Final = frozenset(
    {"namespace", "nodeName", "resourceClaimName", "resourceClaimTemplateName", "pool", "claim", "podGroupName"}
)
"""Fields with names of objects, which may be gone."""


class Pseudonyms:
    """`salt`: whoever does not know it cannot try out names. `vocabulary`: words that are no names."""

    def __init__(self, found: Mapping[str, str], salt: bytes, vocabulary: Collection[str]) -> None:
        self._found = found
        self._salt = salt
        self._vocabulary = _KEPT | {word.lower() for word in vocabulary} | set(vocabulary)

    @classmethod
    def of(cls, world: World, *, salt: bytes, vocabulary: Collection[str], others: Collection[str] = ()) -> Self:
        """`others`: names that the World may not have, because it was not all read."""
        return cls(_of_names(world, salt, others), salt, vocabulary)

    def name(self, text: str) -> str:
        """Of a field: all names of the World in it are replaced, and nothing else."""
        known = self._found.get(text)
        return known if known is not None else _WORD.sub(lambda match: self._found.get(match[0], match[0]), text)

    def prose(self, text: str) -> str:
        """Of a message: it may have names of what is gone. So all words are replaced that are not known as harmless."""
        return _TOKEN.sub(lambda match: self._of_token(match[0]), text)

    def _of_token(self, token: str) -> str:
        if (known := self._harmless(token)) is not None:
            return known
        if "." not in token:
            return self._unknown(token)
        # A file, a field, a logger; or a claim with its namespace. Of addresses, nothing stays.
        parts = [(part, None if part.isdecimal() else self._harmless(part)) for part in token.split(".")]
        return ".".join(self._unknown(part) if known is None else known for part, known in parts)

    def _harmless(self, token: str) -> str | None:
        if (known := self._found.get(token)) is not None:
            return known
        if token in self._vocabulary or token.lower() in self._vocabulary or not token:
            return token
        return token if _SAYS_NOTHING.fullmatch(token) or names.read_device(token) else None

    def _unknown(self, token: str) -> str:
        return f"x-{_digest(token, self._salt)}"


def _of_names(world: World, salt: bytes, others: Collection[str]) -> Mapping[str, str]:
    secret = set(others)
    secret |= {word for one in RESOURCES for item in world.of(one) for word in _secrets(item)}
    # What people call containers, the requests of claims, and what Events are about.
    secret |= {word for one in (PODS, CLAIMS, TEMPLATES, EVENTS) for item in world.of(one) for word in _names(item)}
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
    kept = _KEPT | of_policies.keys()
    # Some call a claim as a device is called.
    words = sorted(word for word in secret - kept if word and names.read_device(word) is None)
    found = {word: _pseudonym(rank, word, salt) for rank, word in enumerate(words)}
    # What the operator calls after a policy is still called after it.
    return found | {made: template.format(found[policy]) for made, (policy, template) in of_policies.items()}


def _pseudonym(rank: int, word: str, salt: bytes) -> str:
    return f"x{rank:06d}-{_digest(word, salt)}"


def _digest(word: str, salt: bytes) -> str:
    return hashlib.blake2b(word.encode(), key=salt, digest_size=4).hexdigest()


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
                yield from _secrets_of_field(key, item, value)
        case list():
            for item in value:
                yield from _secrets(item)


def _secrets_of_field(key: str, item: Any, of: Mapping[str, Any]) -> Iterator[str]:
    match item:
        case dict() if key in _LABELS:
            yield from filter(_is_secret, item.values())
            # The nodeSelector of an allocation is another one, with terms.
            yield from _secrets(item)
        case list() if key == "values" and "operator" in of:
            yield from filter(_is_secret, item)
        case list() if key in {"ownerReferences", "reservedFor"}:
            yield from (str(one.get("name") or "") for one in item)
        case str() if key == "value" and _is_taint_of_others(of):
            yield from filter(_is_secret, [item])
        case str() if key in {"uid", "shareID"}:
            yield item
        case str() if key in _REFERENCES:
            yield from _WORD.findall(item)
        case _:
            yield from _secrets(item)


def _is_secret(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and not _PLAIN.fullmatch(value)


def _is_taint_of_others(value: Mapping[str, Any]) -> bool:
    """Or a toleration."""
    return isinstance(value.get("key"), str) and not value["key"].startswith(names.GROUP)


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
