"""What the operator makes for a policy: it goes with the policy, and nothing else is ever taken for it."""

from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.meta import OwnedMeta
from gpusharing.api.sharing.policy import SharingPolicy

_KIND: Final = "SharingPolicy"


def is_ours(metadata: OwnedMeta, policy: SharingPolicy) -> bool:
    """Whether it was made for this policy, or for one before it of the same name: garbage that is not collected yet."""
    was_left = any(owner.kind == _KIND and owner.name == policy.metadata.name for owner in metadata.owner_references)
    return _is_owned(metadata, policy) or (was_left and _is_labelled(metadata, policy))


def metadata(name: str, policy: SharingPolicy, *, namespace: str = "") -> dict[str, Any]:
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {names.POLICY_LABEL: policy.metadata.name},
        "ownerReferences": [_owner(policy)],
    }


def is_marked(metadata: OwnedMeta, policy: SharingPolicy) -> bool:
    return _is_owned(metadata, policy) and _is_labelled(metadata, policy)


def marks(metadata: OwnedMeta, policy: SharingPolicy) -> dict[str, Any]:
    """What has to be patched of it, so that it goes with this policy."""
    labels = {"labels": {names.POLICY_LABEL: policy.metadata.name}}
    return labels if _is_owned(metadata, policy) else labels | {"ownerReferences": [_owner(policy)]}


def _is_owned(metadata: OwnedMeta, policy: SharingPolicy) -> bool:
    return any(owner.uid == policy.metadata.uid for owner in metadata.owner_references)


def _is_labelled(metadata: OwnedMeta, policy: SharingPolicy) -> bool:
    return metadata.labels.get(names.POLICY_LABEL) == policy.metadata.name


def _owner(policy: SharingPolicy) -> dict[str, str]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": _KIND,
        "name": policy.metadata.name,
        "uid": policy.metadata.uid,
    }
