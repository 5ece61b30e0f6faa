"""What the operator makes for a policy: it goes with the policy, and nothing else is ever taken for it."""

from typing import Any

from gpusharing.api import names
from gpusharing.api.meta import OwnedMeta
from gpusharing.api.sharing.policy import SharingPolicy


def is_ours(metadata: OwnedMeta, policy: SharingPolicy) -> bool:
    """Whether it was made for exactly this policy, not for one before it of the same name."""
    return any(reference.uid == policy.metadata.uid for reference in metadata.owner_references)


def is_of_an_earlier(metadata: OwnedMeta, policy: SharingPolicy) -> bool:
    """Whether it was made for a deleted policy of this name, and the garbage collector has not come yet."""
    owners = [(reference.kind, reference.name) for reference in metadata.owner_references]
    return owners == [("SharingPolicy", policy.metadata.name)] and not is_ours(metadata, policy)


def metadata(name: str, policy: SharingPolicy, *, namespace: str = "") -> dict[str, Any]:
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": "SharingPolicy",
        "name": policy.metadata.name,
        "uid": policy.metadata.uid,
    }
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {names.POLICY_LABEL: policy.metadata.name},
        "ownerReferences": [owner],
    }


def is_labelled(metadata: OwnedMeta, policy: SharingPolicy) -> bool:
    return metadata.labels.get(names.POLICY_LABEL) == policy.metadata.name
